"""burnx conformance: the backend tests of the ONNX standard."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from burnx.cli.console import STDOUT, Console, json_option, table


@click.command("conformance")
@click.option("--device", metavar="D", help="reference, cpu, opencl:N or cuda:N.")
@click.option("--route", metavar="LIST", default="run,source,roundtrip", help="Default: all.")
@click.option("--filter", "pattern", metavar="REGEX", help="Only tests whose name matches.")
@click.option("--jobs", type=click.IntRange(min=1), help="Tests at a time.")
@click.option("--html", metavar="FILE", help="Write a report to look at.")
@click.option("--markdown", metavar="FILE", help="Write a report to read.")
@json_option
@click.pass_obj
def conformance_command(console: Console, /, route: str, **options: Any) -> None:
    """Run the backend tests of the installed onnx package."""
    from burnx.conformance import report, suite
    from burnx.runtime.device import find_device

    options["device"] = find_device(options["device"]).name
    writers = {"html": report.render_html, "markdown": report.render_markdown}
    files = {kind: options.pop(kind) for kind in writers}
    options["jobs"] = options["jobs"] or max(1, len(os.sched_getaffinity(0)))
    routes = [name.strip() for name in route.split(",") if name.strip()]
    with console.progress("conformance") as progress:
        results = suite.run_conformance(routes=routes, progress=progress, **options)
    for kind, path in files.items():
        if path == STDOUT:
            console.say(writers[kind](results))
        elif path is not None:
            Path(path).write_text(writers[kind](results), encoding="utf-8")
            console.notice(f"wrote {path}")
    console.say(_counts(results))
    console.result(results)


def _counts(results: Mapping[str, Any]) -> str:
    """How many tests ended how, by route."""
    counts = results["summary"]["all"]
    by_route = {name: row for name, row in counts.items() if isinstance(row, Mapping)}
    statuses = list(dict.fromkeys(status for row in by_route.values() for status in row))
    rows = [
        (route, *(row.get(status, 0) for status in statuses)) for route, row in by_route.items()
    ]
    return table(("route", *statuses), rows)
