"""What the suite found, as the JSON that the command writes."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from burnx.conformance.backend_tests import BackendTest
from burnx.conformance.limitations import declared_limitations
from burnx.conformance.places import place_of
from burnx.conformance.routes import Cell
from burnx.conformance.statuses import STATUSES
from burnx.errors import UsageError

Cells = dict[str, dict[str, Cell]]
"""By test and step; the step of a route is ``route@device``."""

_KEYS = {"versions", "tests", "operators", "summary", "details"}
_MESSAGE_CHARS = 600
_MODEL_CHARS = 6000
_MODEL_BYTES = 40_000


def assemble_results(
    tests: Sequence[BackendTest], cells: Cells, routes: Sequence[str], devices: Sequence[str]
) -> dict[str, Any]:
    """The results of the first device, and those of the others in ``devices``."""
    first, *others = (_of_device(tests, cells, routes, device) for device in devices)
    results = {
        "versions": _versions(),
        **first,
        "limitations": [
            {"operator": item.operator, "reason": item.reason, "tests": item.tests}
            for item in declared_limitations()
        ],
        "models": _models(tests, cells),
    }
    if others:
        results["devices"] = dict(zip(devices[1:], others, strict=True))
    if any(test.prepare for test in tests):
        from burnx.conformance.cases.summary import summarise

        results["generated"] = summarise(tests, cells)
    return results


def read_results(path: str) -> dict[str, Any]:
    """What an earlier run wrote with ``--json``.

    Raises: UsageError if the file is not that.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--add takes the JSON of a run: {error}, {path}") from error
    if not isinstance(found, dict) or not set(found) >= _KEYS:
        raise UsageError(
            f"--add takes the JSON of a run, which has {', '.join(sorted(_KEYS))}: {path}"
        )
    return found


def merge_results(results: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The results with the devices of another run added that they do not have."""
    known = {results["summary"]["device"], *results.get("devices", {})}
    first = {key: other[key] for key in ("tests", "operators", "summary", "details")}
    found = {other["summary"]["device"]: first, **other.get("devices", {})}
    new = {device: each for device, each in found.items() if device not in known}
    return {
        **results,
        "devices": {**results.get("devices", {}), **new},
        "models": {**other.get("models", {}), **results.get("models", {})},
        "generated": results.get("generated") or other.get("generated"),
    }


def _of_device(
    tests: Sequence[BackendTest], cells: Cells, routes: Sequence[str], device: str
) -> dict[str, Any]:
    rows = {
        test.name: {route: cells[test.name][f"{route}@{device}"] for route in routes}
        for test in tests
    }
    statuses = {
        name: {route: cell.status for route, cell in row.items()} for name, row in rows.items()
    }
    by_operator = _grouped(tests, "operator")
    return {
        "tests": statuses,
        "operators": {
            operator: _count(statuses, by_operator[operator], routes)
            for operator in sorted(by_operator, key=str.lower)
        },
        "summary": {
            "device": device,
            "routes": list(routes),
            "all": _count(statuses, tests, routes),
            "groups": {
                group: _count(statuses, members, routes)
                for group, members in _grouped(tests, "group").items()
            },
        },
        "details": {test.name: _details(test, rows[test.name], cells[test.name]) for test in tests},
    }


def _grouped(tests: Sequence[BackendTest], key: str) -> dict[str, list[BackendTest]]:
    groups: dict[str, list[BackendTest]] = {}
    for test in tests:
        groups.setdefault(getattr(test, key), []).append(test)
    return groups


def _models(tests: Sequence[BackendTest], cells: Cells) -> dict[str, str]:
    """The text of the model of every test that is not a pass everywhere; large ones are left out."""
    from onnx import printer

    found = {}
    for test in tests:
        if all(cell.status in ("pass", "") for cell in cells[test.name].values()):
            continue
        model = test.load_model()
        if model.ByteSize() <= _MODEL_BYTES:
            found[test.name] = _cut(printer.to_text(model), _MODEL_CHARS)
    return found


def _count(
    statuses: Mapping[str, Mapping[str, str]], tests: Sequence[BackendTest], routes: Sequence[str]
) -> dict[str, Any]:
    """Counts by route and status, and the number of tests."""
    counts: dict[str, Any] = {"tests": len(tests)}
    for route in routes:
        found = Counter(statuses[test.name][route] for test in tests)
        counts[route] = {status: found[status] for status in STATUSES}
    return counts


def _details(
    test: BackendTest, row: Mapping[str, Cell], steps: Mapping[str, Cell]
) -> dict[str, Any]:
    version, dtype = place_of(test)
    asked = {name: _cut(steps[name].message) for name in test.prepare}
    return {
        "group": test.group,
        "operator": test.operator,
        "version": version,
        "dtype": dtype,
        "cells": {route: _cell_details(cell) for route, cell in row.items()},
        **({"asked": asked} if asked else {}),
    }


def _cell_details(cell: Cell) -> dict[str, Any]:
    full = {"seconds": cell.seconds, "message": _cut(cell.message), "judge": cell.judge}
    return {key: value for key, value in full.items() if value != ""}


def _cut(text: str, limit: int = _MESSAGE_CHARS) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


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
