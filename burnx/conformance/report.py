"""Results of the suite for people: one HTML page, Markdown, and the table of the README.

Every text from a model or an error is escaped: it may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from burnx.conformance.page import as_script, devices_of, page_data
from burnx.conformance.peers import PEERS, RECIPE, TESTS
from burnx.conformance.statuses import STATUSES

if TYPE_CHECKING:
    from jinja2 import Environment

Results = Mapping[str, Any]

_GROUP_TITLES = {
    "node": "operators (node tests)",
    "node-expanded": "operators as their function bodies",
    "simple": "simple models",
    "pytorch-operator": "PyTorch operators",
    "pytorch-converted": "PyTorch layers",
    "light": "image classifiers",
    "generated": "generated cases",
}
_PEER_GROUPS = ("node", "node-expanded", "simple", "pytorch-operator", "pytorch-converted", "light")


_PLAIN = {"skip": "not compared", "wrong": "wrong value"}
_PAGE = ("data", "devices", "peers", "recipe", "all_tests", "own", "generated")
"""What only the page shows."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that is not a pass on some route, with the messages by route."""

    test: str
    statuses: tuple[str, ...]
    messages: tuple[tuple[str, str, str], ...]
    """(route, status, message) of every route that is not a pass."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator of the report."""

    operator: str
    tests: int
    counts: tuple[Mapping[str, int], ...]
    """Counts by status, one a route."""
    failures: tuple[Failure, ...]

    @property
    def worst(self) -> str:
        """The status that most needs attention among the operator's cells."""
        order = ("wrong", "error", "unsupported", "skip")
        found = (status for status in order if any(count[status] for count in self.counts))
        return next(found, "pass")


def render_html(results: Results) -> str:
    """One page that needs no other file: the matrix of operators, each cell with its tests and messages."""
    from markupsafe import Markup

    devices = [(name, _titled(found["summary"])) for name, found in devices_of(results)]
    return _render(
        "report.html.j2",
        {
            **results,
            "data": Markup(as_script(page_data(results))),
            "devices": devices,
            "peers": PEERS,
            "recipe": RECIPE,
            "all_tests": TESTS,
            "own": [(name, own_total(summary)) for name, summary in devices],
            "generated": results.get("generated"),
        },
    )


def render_markdown(results: Results) -> str:
    """The summary, and for each operator the tests that do not pass."""
    return _render("report.md.j2", results)


def readme_table(results: Results) -> str:
    """The short table for the README; needs ``summary`` and ``versions`` only."""
    return _render("readme.md.j2", {**results, "operators": {}, "details": {}})


def operator_rows(results: Results) -> list[OperatorRow]:
    """The rows of the report, in the order of the results."""
    routes = results["summary"]["routes"]
    failures: dict[str, list[Failure]] = {}
    for name, detail in results["details"].items():
        failure = _find_failure(name, results["tests"][name], detail)
        if failure is not None:
            failures.setdefault(detail["operator"], []).append(failure)
    return [
        OperatorRow(
            operator,
            counts["tests"],
            tuple(counts[route] for route in routes),
            tuple(failures.get(operator, ())),
        )
        for operator, counts in results["operators"].items()
    ]


def _find_failure(
    name: str, statuses: Mapping[str, str], detail: Mapping[str, Any]
) -> Failure | None:
    messages = tuple(
        (route, status, detail["cells"][route].get("message", ""))
        for route, status in statuses.items()
        if status != "pass"
    )
    return Failure(name, tuple(statuses.values()), messages) if messages else None


def own_total(summary: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The counts of the run route over all the tests that the peers were measured on; None if some were left out."""
    groups = [count for key, count in summary["groups"].items() if key in _PEER_GROUPS]
    if "run" not in summary["routes"] or sum(count["tests"] for count in groups) != TESTS:
        return None
    return {status: sum(count["run"][status] for count in groups) for status in STATUSES}


def _titled(summary: Mapping[str, Any]) -> dict[str, Any]:
    titles = [(_GROUP_TITLES.get(key, key), count) for key, count in summary["groups"].items()]
    return {**summary, "titled": titles}


def _render(template: str, results: Results) -> str:
    summary = results["summary"]
    groups = _titled(summary)["titled"]
    return (
        _environment()
        .get_template(template)
        .render(
            versions=results["versions"],
            device=summary["device"],
            routes=summary["routes"],
            everything=summary["all"],
            groups=groups,
            judges=_count_judges(results["details"].values()),
            rows=() if "data" in results else operator_rows(results),
            limitations=results.get("limitations", []),
            statuses=STATUSES,
            **{key: results[key] for key in _PAGE if key in results},
        )
    )


def _count_judges(details: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many roundtrips each engine judged right."""
    counts: dict[str, int] = {}
    for detail in details:
        judge = detail["cells"].get("roundtrip", {}).get("judge")
        if judge:
            counts[judge] = counts.get(judge, 0) + 1
    return counts


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("burnx.conformance"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["share"] = _share
    environment.filters["code"] = _code
    environment.filters["plain"] = lambda status: _PLAIN.get(status, status)
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment


def _share(counts: Mapping[str, int], status: str = "pass") -> str:
    """A count and its part of the whole; cut, so that 100% means all."""
    whole = sum(counts.values())
    if whole == 0:
        return "–"
    thousandths = counts[status] * 1000 // whole
    return f"{counts[status]:,} ({thousandths // 10}.{thousandths % 10}%)"


def _code(text: str) -> str:
    """Text as one Markdown code span, which shows it literally."""
    line = " ".join(str(text).split()).replace("`", "'")
    return f"`{line}`" if line else ""
