"""The limitations that operators declare, looked up by backend test."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cache

from burnx.conformance.backend_tests import BackendTest


@dataclass(frozen=True, slots=True)
class DeclaredLimitation:
    """A gap that an operator declares: which tests meet it, and why."""

    operator: str
    reason: str
    pattern: str

    def covers(self, test: BackendTest) -> bool:
        """Whether the test's name matches; without a pattern, whether its operator does."""
        if self.pattern:
            return re.search(self.pattern, test.name) is not None
        return self.operator == test.operator


@cache
def declared_limitations() -> tuple[DeclaredLimitation, ...]:
    """Every limitation of every operator; none while the operators do not list any."""
    try:
        listed = importlib.import_module("burnx.ops").limitations
    except (ModuleNotFoundError, AttributeError):
        return ()
    return tuple(
        DeclaredLimitation(str(item.operator), str(item.reason), _pattern(item.tests))
        for item in listed()
    )


def _pattern(tests: object) -> str:
    if isinstance(tests, str):
        return tests
    if isinstance(tests, re.Pattern):
        return str(tests.pattern)
    if isinstance(tests, list | tuple):
        return "|".join(_pattern(item) for item in tests)
    return ""


def declared_limitation(test: BackendTest) -> str | None:
    """The reason of the limitation that covers a test, or None."""
    reasons = (item.reason for item in declared_limitations() if item.covers(test))
    return next(reasons, None)
