"""What the generated cases cover, and how the other engines answered them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from burnx.conformance.backend_tests import BackendTest
from burnx.conformance.cases.collect import Case, Cell, all_cases, all_cells
from burnx.conformance.cases.disagreements import Disagreement, find_disagreement
from burnx.conformance.cases.expected import ENGINES
from burnx.conformance.cases.models import output_types
from burnx.conformance.cases.tests import VERDICT


def summarise(
    tests: Sequence[BackendTest], cells: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Cells of the schemas with and without a case, and the decided disagreements of the other engines."""
    without = cells_without_case()
    asked = {test.name: cells[test.name] for test in tests if test.prepare}
    return {
        "cells": sum(1 for _ in all_cells()),
        "without_case": [" ".join(map(str, cell)).strip() for cell in without],
        "ran": _engines_that_ran(asked),
        "disagreements": _disagreements([test for test in tests if test.prepare], cells),
    }


@cache
def cells_without_case() -> tuple[Cell, ...]:
    """Every operator, version, variable and type that no case has."""
    covered = {cell for case in all_cases() for cell in _cells_of(case)}
    return tuple(cell for cell in all_cells() if cell not in covered)


def _cells_of(case: Case) -> list[Cell]:
    """The cells that a case stands in: its types among the inputs, and those of its outputs."""
    schema = case.schema
    if not schema.variables:
        return [(schema.operator, schema.since, "", "")]
    return [
        (schema.operator, schema.since, variable, kind) for variable, kind in output_types(case)
    ]


def _engines_that_ran(asked: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """How many cases each set of engines answered."""
    counts: Counter[str] = Counter()
    for steps in asked.values():
        ran = [
            engine for engine in ENGINES if steps[engine].status == "" and not steps[engine].message
        ]
        counts[" and ".join(ran) or "none"] += 1
    return dict(counts.most_common())


def _disagreements(
    tests: Sequence[BackendTest], cells: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each entry of the list with the cases it decided in this run."""
    found: dict[Disagreement, list[BackendTest]] = {}
    for test in tests:
        entry = find_disagreement(test.name)
        if entry is not None and entry.why in cells[test.name][VERDICT].message:
            found.setdefault(entry, []).append(test)
    return [
        {
            "operators": list(dict.fromkeys(test.operator for test in members)),
            "cases": [test.name for test in members],
            "count": len(members),
            "follows": entry.follows,
            "why": entry.why,
        }
        for entry, members in found.items()
    ]
