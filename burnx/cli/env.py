"""burnx env: what was compiled, planned and tuned, as files to hand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from burnx.cli.console import Console, json_option, table

# kind of entry -> what several are called
_KINDS = {
    "kernel": "kernels",
    "plan": "plans",
    "constant": "packed weights",
    "tuning": "tuning results",
}


def _name_option(command: Callable[..., Any]) -> Callable[..., Any]:
    help_text = "The environment; else that of BURNX_ENV, else default."
    return click.option("--name", metavar="NAME", help=help_text)(command)


@click.group("env")
def env_command() -> None:
    """Compiled kernels, kept plans, packed weights and tuning results: list, hand on, remove."""


@env_command.command("list")
@json_option
@click.pass_obj
def list_command(console: Console, /) -> None:
    """List the environments in the folder of BURNX_CACHE."""
    from burnx.runtime.environments.carry import NOTHING_KEPT, summarize

    found = summarize()
    if not found:
        console.say(NOTHING_KEPT)
    rows = [
        (each.name, *(each.entries.get(kind, 0) for kind in _KINDS), f"{each.size_bytes / 1e6:.1f}")
        for each in found
    ]
    console.say(table(("environment", *_KINDS.values(), "MB"), rows))
    console.result({"environments": found})


@env_command.command("export")
@click.argument("file")
@_name_option
@json_option
@click.pass_obj
def export_command(console: Console, /, file: str, name: str | None) -> None:
    """Write an environment as one FILE."""
    from burnx.runtime.environments.carry import export_environment

    with console.working("writing"):
        found = export_environment(_environment(name), file)
    console.say(f"wrote {file}: {_counts(found.entries)}, of environment {found.name}")
    console.result({"file": file, "environment": found})


@env_command.command("import")
@click.argument("file")
@click.option(
    "--name", metavar="NAME", help="The environment to put it in; else that of BURNX_ENV."
)
@json_option
@click.pass_obj
def import_command(console: Console, /, file: str, name: str | None) -> None:
    """Take over a FILE that somebody exported.

    It holds native code, which models will run: import only what you would run as a program.
    """
    from burnx.runtime.environments.carry import import_environment

    with console.working("reading"):
        report = import_environment(file, _environment(name))
    console.say(f"environment {report.name} (exported by burnx {report.burnx})")
    console.say(f"usable      {_counts(report.taken)}")
    console.say(f"not usable  {_counts(report.left)}")
    for why, count in sorted(report.reasons.items(), key=lambda row: -row[1]):
        console.say(f"  {count}: {why}")
    console.result({"file": file, **_report(report)})


@env_command.command("clear")
@_name_option
@json_option
@click.pass_obj
def clear_command(console: Console, /, name: str | None) -> None:
    """Remove what an environment holds."""
    from burnx.runtime.environments.carry import clear

    found = clear(_environment(name))
    console.say(f"removed {_counts(found.entries)} from environment {found.name}")
    console.result({"removed": found})


def _environment(name: str | None) -> str:
    from burnx.runtime.compiled.kept_files import check_environment, name_environment

    return name_environment() if name is None else check_environment(name, "--name")


def _report(report: Any) -> dict[str, Any]:
    return {
        "environment": report.name,
        "burnx": report.burnx,
        "usable": report.taken,
        "not_usable": report.left,
        "reasons": report.reasons,
    }


def _counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kinds.get(kind, 0)} {name}" for kind, name in _KINDS.items())
