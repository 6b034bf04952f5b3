"""The limitations that operators declare, looked up by backend test."""

from __future__ import annotations

import re
from functools import cache

from burnx.conformance.backend_tests import BackendTest
from burnx.ops import limitations
from burnx.ops.operator import Limitation


@cache
def declared_limitations() -> tuple[Limitation, ...]:
    """Every limitation of every operator."""
    return limitations()


def covers(limitation: Limitation, test: BackendTest) -> bool:
    """Whether the test's name matches; without a pattern, whether its operator does."""
    if limitation.tests:
        return re.search(limitation.tests, test.name) is not None
    return limitation.operator == test.operator


def declared_limitation(test: BackendTest) -> str | None:
    """The reason of the limitation that covers a test, or None."""
    reasons = (item.reason for item in declared_limitations() if covers(item, test))
    return next(reasons, None)
