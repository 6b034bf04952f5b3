"""The whole suite: every test on every route, and its results as one JSON-ready dict."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from burnx.conformance.backend_tests import BackendTest, collect_tests
from burnx.conformance.generated import forgotten_modules
from burnx.conformance.limitations import declared_limitations
from burnx.conformance.random_streams import random_stream_reason
from burnx.conformance.routes import ROUTES, Bench, Cell, Engine, try_route
from burnx.conformance.statuses import STATUSES
from burnx.conformance.workers import Step, Task, run_tasks
from burnx.errors import UsageError

TIMEOUT_S = 60.0
_JOBS = 2
_MESSAGE_CHARS = 600
_FAILURES = {
    "crash": "crash: the process ended without an answer",
    "timeout": f"timeout: no answer within {TIMEOUT_S:g} s",
}

Cells = dict[str, dict[str, Cell]]


def run_conformance(
    routes: Sequence[str] = tuple(ROUTES),
    device: str = "cpu",
    pattern: str | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Run the backend tests whose name the pattern matches; ``progress`` gets (done, all) tests.

    The dict has the keys ``versions``, ``tests`` (name to route to status), ``operators`` and
    ``summary`` (counts), ``details`` (messages, seconds, judges) and ``limitations``.
    Raises: UsageError for an unknown route, a bad pattern or one that matches no test.
    """
    wanted = _check_routes(routes)
    tests = select_tests(pattern)
    cells: Cells = {test.name: _skipped_cells(test, wanted) for test in tests}
    left = [number for number, test in enumerate(tests) if not cells[test.name]]
    tasks = [Task(number, wanted) for number in left]
    with tempfile.TemporaryDirectory(prefix="burnx-conformance-") as folder:
        labour = partial(
            _try_test, tests, _public_api() if engine is None else engine, device, folder
        )
        for step in run_tasks(tasks, labour, jobs or _JOBS, TIMEOUT_S):
            cells[tests[step.number].name][step.step] = _cell_of(step)
            if progress is not None:
                progress(sum(len(row) == len(wanted) for row in cells.values()), len(tests))
    return assemble_results(tests, cells, wanted, device)


def select_tests(pattern: str | None) -> list[BackendTest]:
    """The backend tests whose name contains a match of the pattern; all without one."""
    try:
        matches = re.compile(pattern or "").search
    except re.error as error:
        raise UsageError(f"a filter is a regular expression: {error}, in {pattern!r}") from error
    tests = [test for test in collect_tests() if matches(test.name)]
    if not tests:
        raise UsageError(f"a filter matches at least one test: none matches {pattern!r}")
    return tests


def assemble_results(
    tests: Sequence[BackendTest], cells: Cells, routes: Sequence[str], device: str
) -> dict[str, Any]:
    """The results as the JSON that the command writes."""
    statuses = {
        test.name: {route: cells[test.name][route].status for route in routes} for test in tests
    }
    operators = sorted({test.operator for test in tests}, key=str.lower)
    groups = list(dict.fromkeys(test.group for test in tests))
    return {
        "versions": _versions(),
        "tests": statuses,
        "operators": {
            operator: _count(statuses, [t for t in tests if t.operator == operator], routes)
            for operator in operators
        },
        "summary": {
            "device": device,
            "routes": list(routes),
            "all": _count(statuses, tests, routes),
            "groups": {
                group: _count(statuses, [t for t in tests if t.group == group], routes)
                for group in groups
            },
        },
        "details": {test.name: _details(test, cells[test.name]) for test in tests},
        "limitations": [
            {"operator": item.operator, "reason": item.reason, "tests": item.tests}
            for item in declared_limitations()
        ],
    }


def _check_routes(routes: Iterable[str]) -> tuple[str, ...]:
    asked = set(routes)
    unknown = sorted(asked - set(ROUTES))
    if unknown or not asked:
        raise UsageError(f"a route is one of {', '.join(ROUTES)}: found {unknown or 'none'}")
    return tuple(route for route in ROUTES if route in asked)


def _public_api() -> Engine:
    engine: Engine = importlib.import_module("burnx.api")
    if importlib.util.find_spec("onnxruntime") is not None:
        importlib.import_module("onnxruntime")  # once here, so that no worker pays for it
    return engine


def _skipped_cells(test: BackendTest, routes: Sequence[str]) -> dict[str, Cell]:
    reason = random_stream_reason(test)
    return {} if reason is None else {route: Cell("skip", reason) for route in routes}


def _try_test(
    tests: Sequence[BackendTest],
    engine: Engine,
    device: str,
    folder: str,
    task: Task,
    start: Callable[[str], None],
    finish: Callable[[str, Cell], None],
) -> None:
    os.environ["BURNX_DEVICE"] = device  # generated source runs on the default device
    with tempfile.TemporaryDirectory(dir=folder) as own, forgotten_modules():
        bench = Bench(tests[task.number], engine, device, Path(own))
        for route in task.steps:
            start(route)
            finish(route, try_route(bench, route))


def _cell_of(step: Step[Cell]) -> Cell:
    if step.result is None:
        return Cell("error", _FAILURES[step.failure])
    return step.result


def _count(
    statuses: Mapping[str, Mapping[str, str]], tests: Sequence[BackendTest], routes: Sequence[str]
) -> dict[str, Any]:
    """Counts by route and status, and the number of tests."""
    counts: dict[str, Any] = {"tests": len(tests)}
    for route in routes:
        found = Counter(statuses[test.name][route] for test in tests)
        counts[route] = {status: found[status] for status in STATUSES}
    return counts


def _details(test: BackendTest, row: Mapping[str, Cell]) -> dict[str, Any]:
    return {
        "group": test.group,
        "operator": test.operator,
        "cells": {route: _cell_details(cell) for route, cell in row.items()},
    }


def _cell_details(cell: Cell) -> dict[str, Any]:
    message = cell.message
    if len(message) > _MESSAGE_CHARS:
        message = f"{message[:_MESSAGE_CHARS]}…"
    full = {"seconds": cell.seconds, "message": message, "judge": cell.judge}
    return {key: value for key, value in full.items() if value != ""}


def _versions() -> dict[str, str]:
    names = ("burnx", "onnx", "onnxruntime", "numpy")
    found = {name: _version(name) for name in names}
    return {**found, "python": platform.python_version(), "machine": platform.machine()}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        module = importlib.import_module(name) if importlib.util.find_spec(name) else None
        return str(getattr(module, "__version__", "not installed"))
