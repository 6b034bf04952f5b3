"""A fixed part of the backend tests: which ones, follows from their names alone."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from burnx.conformance.backend_tests import BackendTest
from burnx.conformance.random_streams import random_stream_reason
from burnx.conformance.suite import select_tests


def one_of(parts: int) -> list[BackendTest]:
    """One in so many tests; a test stays in or out whatever others there are."""
    return [
        test
        for test in select_tests(None)
        if zlib.crc32(test.name.encode()) % parts == 0 and random_stream_reason(test) is None
    ]


def pattern_of(tests: Sequence[BackendTest]) -> str:
    """A filter that just these tests match."""
    return f"^({'|'.join(re.escape(test.name) for test in tests)})$"
