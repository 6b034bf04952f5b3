"""Where a verb's words go: results to stdout, everything else to stderr, JSON where it is wanted."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import click

from burnx.errors import UsageError

STDOUT = "-"


@dataclass(slots=True)
class Console:
    """``json_path`` is where the result goes as JSON: a file, ``-`` for stdout, or None.

    ``made_up`` is set once inputs are; ``stdout`` is where JSON goes while a model's own prints go to stderr.
    """

    verbose: bool = False
    json_path: str | None = None
    answered: bool = False
    made_up: bool = False
    stdout: Any = None

    def say(self, text: str) -> None:
        """A part of the result for people; it makes room on stdout for JSON."""
        click.echo(printable(text), err=self.json_path == STDOUT)

    def notice(self, text: str) -> None:
        """Something to know that is not the result."""
        click.echo(f"burnx: {printable(text)}", err=True)

    def result(self, value: Mapping[str, Any]) -> None:
        """The result as JSON, if it is wanted."""
        if self.json_path is None:
            return
        text = json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False)
        self.answered = True
        if self.json_path == STDOUT:
            click.echo(text, file=self.stdout)
            return
        with open(self.json_path, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def fail(self, message: str) -> None:
        """The one message of a failure; where stdout was to be JSON, it is still one document."""
        click.echo(f"burnx: error: {printable(message)}", err=True)
        if self.json_path == STDOUT and not self.answered:
            self.result({"error": message})

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A sign of life on stderr, on a terminal only, while something takes long."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console as Terminal

        with Terminal(stderr=True).status(what):
            yield

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A bar on stderr, on a terminal only; call what it gives with (done, all)."""
        if not sys.stderr.isatty():
            yield lambda done, total: None
            return
        from rich.console import Console as Terminal
        from rich.progress import Progress

        with Progress(console=Terminal(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--json PATH``; it is taken up by the console."""

    def take_up(context: click.Context, _: click.Parameter, path: str | None) -> None:
        console = context.find_object(Console)
        if console is not None and path == STDOUT:
            console.stdout = sys.stdout
            context.with_resource(redirect_stdout(sys.stderr))
        if path not in (None, STDOUT) and not Path(str(path)).resolve().parent.is_dir():
            raise UsageError(f"--json is a file in a folder that exists; found {path!r}")
        if console is not None:
            console.json_path = path

    return click.option(
        "--json",
        metavar="PATH",
        expose_value=False,
        is_eager=True,
        callback=take_up,
        help="Write the result as JSON; - is stdout.",
    )(command)


def printable(text: str) -> str:
    """Text of a model may hold what steers a terminal: such characters are shown, not sent."""
    return "".join(
        char if char.isprintable() or char in "\n\t " else ascii(char)[1:-1] for char in text
    )


def as_json(value: Any) -> Any:
    """``value`` in JSON's own types; what is not finite becomes text."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return as_json(asdict(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return as_json(value.item()) if hasattr(value, "item") else str(value)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as aligned columns; columns of numbers are aligned on the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(headings, *texts, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(headings))]
    lines = []
    for line in (headings, *texts):
        cells = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numeric, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float)) or str(cell)[:1].isdigit()
