"""The data of the HTML report: every test at its place in the matrix, with the status of each route and device.

Compact, because there are tens of thousands of cells: names are numbers into lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from burnx.conformance.statuses import STATUSES

Results = Mapping[str, Any]

_DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int64",
    "int32",
    "int16",
    "int8",
    "int4",
    "int2",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "uint4",
    "uint2",
    "bool",
    "string",
    "complex64",
    "complex128",
]
"""The columns, in this order; a last one is for tests that are about no single dtype."""


def devices_of(results: Results) -> list[tuple[str, Results]]:
    """The results of each device, the first one first."""
    first = (str(results["summary"]["device"]), results)
    return [first, *results.get("devices", {}).items()]


def page_data(results: Results) -> dict[str, Any]:
    """What the page's script reads; see ``report.js.j2`` for how."""
    devices = devices_of(results)
    combinations = [
        (route, device) for device, found in devices for route in found["summary"]["routes"]
    ]
    operators = _numbered(detail["operator"] for _, detail in _details(devices))
    groups = _numbered(detail["group"] for _, detail in _details(devices))
    rows: dict[str, list[Any]] = {}
    for name, detail in _details(devices):
        if name not in rows:
            rows[name] = _row(name, detail, operators, groups, len(combinations))
    notes: dict[str, dict[int, str]] = {}
    for place, (route, device) in enumerate(combinations):
        _fill(rows, notes, dict(devices)[device], place, route)
    return {
        "statuses": list(STATUSES),
        "combinations": [list(each) for each in combinations],
        "operators": list(operators),
        "groups": list(groups),
        "dtypes": [*_DTYPES, ""],
        "tests": list(rows.values()),
        "notes": notes,
        "models": results.get("models", {}),
    }


def as_script(data: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element whatever it holds."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _details(devices: list[tuple[str, Results]]) -> Iterator[tuple[str, Any]]:
    for _, found in devices:
        yield from found["details"].items()


def _numbered(names: Iterator[str]) -> dict[str, int]:
    ordered = sorted(set(names), key=str.lower)
    return {name: number for number, name in enumerate(ordered)}


def _row(
    name: str,
    detail: Mapping[str, Any],
    operators: Mapping[str, int],
    groups: Mapping[str, int],
    count: int,
) -> list[Any]:
    """(name, operator, version, dtype, group, verdict, status of each combination; -1 where it was not tried)."""
    dtype = detail.get("dtype", "")
    column = _DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES)
    verdict = detail.get("asked", {}).get("verdict", "")
    return [
        name,
        operators[detail["operator"]],
        detail.get("version", 0),
        column,
        groups[detail["group"]],
        verdict,
        [-1] * count,
    ]


def _fill(
    rows: Mapping[str, list[Any]],
    notes: dict[str, dict[int, str]],
    found: Results,
    place: int,
    route: str,
) -> None:
    """Put the statuses and messages of one route on one device where they belong."""
    for name, statuses in found["tests"].items():
        if route not in statuses:
            continue
        rows[name][6][place] = STATUSES.index(statuses[route])
        message = found["details"][name]["cells"][route].get("message", "")
        if message:
            notes.setdefault(name, {})[place] = message
