"""The whole suite: every test on every route and device, and its results as one JSON-ready dict."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from burnx.conformance.backend_tests import BackendTest, collect_tests
from burnx.conformance.generated import forgotten_modules
from burnx.conformance.random_streams import random_stream_reason
from burnx.conformance.results import Cells, assemble_results
from burnx.conformance.routes import ROUTES, Bench, Cell, Engine, try_route
from burnx.conformance.workers import Step, Task, run_tasks
from burnx.errors import UsageError

CASES = ("backend", "generated", "all")
"""Where tests come from: the tests of onnx, cases generated from the schemas, both."""
_FAILURES = {
    "crash": "crash: the process ended without an answer",
    "timeout": "timeout: no answer within {timeout_s:g} s",
}


@dataclass(frozen=True, slots=True)
class Pace:
    """How many tests are tried at a time, and how long one may take on a route."""

    jobs: int = 2
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Work:
    """What the workers need: the tests, whom to ask, and a folder for what they write."""

    tests: Sequence[BackendTest]
    engine: Engine
    folder: Path


def run_conformance(
    routes: Sequence[str] = tuple(ROUTES),
    device: str = "cpu",
    pattern: str | None = None,
    pace: Pace | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
    cases: str = "backend",
) -> dict[str, Any]:
    """Run the tests whose name the pattern matches; ``progress`` gets (done, all) tests.

    ``device`` may name several, with commas.  The dict has the keys ``versions``, ``tests`` (name to route to
    status), ``operators`` and ``summary`` (counts), ``details`` (messages, seconds, judges) and ``limitations``;
    these are of the first device, the others follow in ``devices``.
    Raises: UsageError for an unknown route, a bad pattern or one that matches no test.
    """
    wanted, pace = _check_routes(routes), pace or Pace()
    devices = list(dict.fromkeys(filter(None, map(str.strip, device.split(",")))))
    with tempfile.TemporaryDirectory(prefix="burnx-conformance-") as name:
        folder = Path(name)
        tests = select_tests(pattern, cases, folder)
        work = Work(tests, _public_api() if engine is None else engine, folder)
        cells: Cells = {test.name: _skipped_cells(test, wanted, devices) for test in tests}
        tasks = [
            Task(number, _steps(test, wanted, devices))
            for number, test in enumerate(tests)
            if not cells[test.name]
        ]
        done = len(tests) - len(tasks)
        for step in run_tasks(tasks, partial(_try_test, work), pace.jobs, pace.timeout_s):
            test = tests[step.number]
            cells[test.name][step.step] = _cell_of(step, pace.timeout_s)
            if step.step == _steps(test, wanted, devices)[-1]:
                done += 1
                _report(progress, done, len(tests))
        return assemble_results(tests, cells, wanted, devices)


def select_tests(
    pattern: str | None, cases: str = "backend", folder: Path | None = None
) -> list[BackendTest]:
    """The tests whose name contains a match of the pattern; all without one.

    ``folder`` is where generated cases keep what other engines answer.
    """
    try:
        matches = re.compile(pattern or "").search
    except re.error as error:
        raise UsageError(f"a filter is a regular expression: {error}, in {pattern!r}") from error
    every = _all_tests(cases, folder or Path())
    tests = [test for test in every if matches(test.name)]
    if not tests:
        like = next((t.name for t in every if re.search(f"(?i){pattern}", t.name)), "")
        hint = f"; {like} would in other letters" if like else ""
        raise UsageError(f"a filter matches at least one test: none matches {pattern!r}{hint}")
    return tests


def _all_tests(cases: str, folder: Path) -> list[BackendTest]:
    if cases not in CASES:
        raise UsageError(f"cases are one of {', '.join(CASES)}: found {cases}")
    tests: list[BackendTest] = [] if cases == "generated" else list(collect_tests())
    if cases != "backend":
        from burnx.conformance.cases.tests import generated_tests

        tests += generated_tests(folder)
    return tests


def _check_routes(routes: Iterable[str]) -> tuple[str, ...]:
    asked = set(routes)
    unknown = sorted(asked - set(ROUTES))
    if unknown or not asked:
        raise UsageError(f"a route is one of {', '.join(ROUTES)}: found {unknown or 'none'}")
    return tuple(route for route in ROUTES if route in asked)


def _steps(test: BackendTest, routes: Sequence[str], devices: Sequence[str]) -> tuple[str, ...]:
    """The steps of a test by name: what comes before, then every route on every device."""
    return (*test.prepare, *(f"{route}@{device}" for device in devices for route in routes))


def _public_api() -> Engine:
    engine: Engine = importlib.import_module("burnx.api")
    if importlib.util.find_spec("onnxruntime") is not None:
        importlib.import_module("onnxruntime")  # once here, so that no worker pays for it
    return engine


def _skipped_cells(
    test: BackendTest, routes: Sequence[str], devices: Sequence[str]
) -> dict[str, Cell]:
    reason = random_stream_reason(test)
    if reason is None:
        return {}
    return {step: Cell("skip", reason) for step in _steps(test, routes, devices)}


def _try_test(
    work: Work,
    task: Task,
    start: Callable[[str], None],
    finish: Callable[[str, Cell], None],
) -> None:
    """All steps of one test; the model is made once for each device."""
    test, benches = work.tests[task.number], dict[str, Bench]()
    with tempfile.TemporaryDirectory(dir=work.folder) as own, forgotten_modules():
        for step in task.steps:
            start(step)
            route, _, device = step.partition("@")
            if not device:
                finish(step, Cell("", test.prepare[step]()))
                continue
            os.environ["BURNX_DEVICE"] = device  # generated source runs on the default device
            place = Path(own) / device.replace(":", "_")
            place.mkdir(exist_ok=True)
            bench = benches.setdefault(device, Bench(test, work.engine, device, place))
            finish(step, try_route(bench, route))


def _cell_of(step: Step[Cell], timeout_s: float) -> Cell:
    if step.result is None:
        return Cell("error", _FAILURES[step.failure].format(timeout_s=timeout_s))
    return step.result


def _report(progress: Callable[[int, int], None] | None, done: int, all_tests: int) -> None:
    if progress is not None:
        progress(done, all_tests)
