"""burnx conformance: the backend tests of the ONNX standard, and cases generated from its schemas."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from burnx.cli.console import STDOUT, Console, json_option, table


@click.command("conformance")
@click.option("--device", metavar="LIST", help="reference, cpu, opencl:N or cuda:N.")
@click.option(
    "--cases",
    type=click.Choice(["backend", "generated", "all"]),
    default="backend",
    help="Default: backend.",
)
@click.option("--route", metavar="LIST", default="run,source,roundtrip", help="Default: all.")
@click.option("--filter", "pattern", metavar="REGEX", help="Only tests whose name matches.")
@click.option("--jobs", type=click.IntRange(min=1), help="Tests at a time.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    help="Longest for one test on one route, by default 60: more where compilers are slow.",
)
@click.option("--html", metavar="FILE", help="Write a report to look at.")
@click.option(
    "--add",
    "earlier",
    metavar="FILE",
    multiple=True,
    help="JSON of another run, shown with this one.",
)
@click.option("--markdown", metavar="FILE", help="Write a report to read.")
@json_option
@click.pass_obj
def conformance_command(
    console: Console, /, route: str, earlier: tuple[str, ...], **options: Any
) -> None:
    """Run the backend tests of the installed onnx package, or cases generated from its schemas."""
    from burnx.conformance import report, suite
    from burnx.conformance.results import merge_results, read_results
    from burnx.conformance.workers import ask_child

    options["device"] = ask_child(partial(_names_of, options["device"]))
    writers = {"html": report.render_html, "markdown": report.render_markdown}
    files = {kind: options.pop(kind) for kind in writers}
    jobs = options.pop("jobs") or max(1, len(os.sched_getaffinity(0)))
    options["pace"] = suite.Pace(jobs, options.pop("timeout_s"))
    routes = [name.strip() for name in route.split(",") if name.strip()]
    with console.progress("conformance") as progress:
        results = suite.run_conformance(routes=routes, progress=progress, **options)
    for path in earlier:
        results = merge_results(results, read_results(path))
    for kind, path in files.items():
        if path == STDOUT:
            console.say(writers[kind](results))
        elif path is not None:
            Path(path).write_text(writers[kind](results), encoding="utf-8")
            console.notice(f"wrote {path}")
    console.say(_counts(results))
    console.result(results)


def _names_of(listed: str | None) -> str:
    """The full names of devices, with commas; without any, that of the default one."""
    from burnx.runtime.device import find_device

    names = listed.split(",") if listed else [None]
    return ",".join(find_device(name and name.strip()).name for name in names)


def _counts(results: Mapping[str, Any]) -> str:
    """How many tests ended how, by route."""
    counts = results["summary"]["all"]
    by_route = {name: row for name, row in counts.items() if isinstance(row, Mapping)}
    statuses = list(dict.fromkeys(status for row in by_route.values() for status in row))
    rows = [
        (route, *(row.get(status, 0) for status in statuses)) for route, row in by_route.items()
    ]
    return table(("route", *statuses), rows)
