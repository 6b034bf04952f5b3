"""The text of a module: statements as plain lines, then laid out by ``ruff format``.

A statement's note (the shapes of its results) stands after it, or after its closing bracket where it takes several
lines, and is dropped where the line would grow past the width.
"""

from __future__ import annotations

import ast
import re
import subprocess
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from burnx.codegen import literal
from burnx.codegen.expressions import bare, text
from burnx.errors import UnsupportedError

WIDTH: Final = 100
"""The longest line that is printed where there is a choice."""
OPTIONS: Final = (
    *("format", "--isolated", "--no-cache", "--no-preview"),
    *("--target-version", "py311", "--line-length", str(WIDTH), "-"),
)
# Until a line has its final length its note is a comment that ruff takes for an order to a linter, and so leaves out
# of the line's width. The last character tells it from all other text: there it would be escaped.
_NOTE: Final = "  # noqa:\ue000"


@dataclass(frozen=True, slots=True)
class Assign:
    """``target: kind = value  # note``"""

    target: ast.expr
    value: ast.expr
    note: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    """``return value  # note``"""

    value: ast.expr
    note: str = ""


@dataclass(frozen=True, slots=True)
class For:
    """``for target in iterable:``; ``captured`` where it is a Loop or Scan."""

    target: str
    iterable: ast.expr
    body: tuple[Stmt, ...]
    captured: bool = False


@dataclass(frozen=True, slots=True)
class While:
    """``while test:``"""

    test: ast.expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If:
    """``if test:``, and ``else:`` where there are statements for it"""

    test: ast.expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Do:
    """A call for what it does."""

    value: ast.expr


@dataclass(frozen=True, slots=True)
class Break:
    """``break``"""


@dataclass(frozen=True, slots=True)
class Function:
    """``def name(params) -> returns:``; a parameter may have an annotation and a default."""

    name: str
    params: tuple[str, ...]
    body: tuple[Stmt, ...]
    returns: str = ""
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Class:
    """``class name(nn.Module):``"""

    name: str
    body: tuple[Stmt, ...]


Stmt = Assign | Return | For | While | If | Do | Break | Function | Class


def plain_text(body: Iterable[Stmt], *, notes: bool = True) -> str:
    """Statements one a line, however long; ``formatted`` makes source of it."""
    lines = (line for stmt in body for line in _lines(stmt, ""))
    return "\n".join(line if notes else line.partition(_NOTE)[0] for line in lines) + "\n"


def with_notes(code: str) -> str:
    """Source whose trailing comments that start with a bracket are notes."""
    return re.sub(r"  # (?=\()", _NOTE, code)


def docstring(words: str) -> str:
    """A module's docstring, long lines broken at spaces; any text is made safe."""
    lines = literal.docstring_text(words).split("\n")
    if len(lines) > 1 or _width(lines[0]) > WIDTH - 6:
        lines = [part for line in lines for part in _wrapped(line, WIDTH - 3)]
    end = "\n" if len(lines) > 1 else ""
    return '"""' + "\n".join(lines) + end + '"""\n'


def formatted(code: str) -> str:
    """``code`` as ruff lays it out, with the notes for which there is room.

    Raises: UnsupportedError if ruff is missing or fails.
    """
    lines = _run_ruff(code).split("\n")
    return "\n".join(_with_note(line) if _NOTE in line else line for line in lines)


def _run_ruff(code: str) -> str:
    try:
        from ruff import find_ruff_bin

        command = [find_ruff_bin(), *OPTIONS]
        done = subprocess.run(command, input=code.encode(), capture_output=True, check=False)
    except (ImportError, OSError) as error:
        raise UnsupportedError(
            f"generated source is laid out by ruff: it cannot be run ({error}); pip install ruff"
        ) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise UnsupportedError(f"generated source is laid out by ruff: it failed with {said!r}")
    return done.stdout.decode()


def _with_note(line: str) -> str:
    code, _, note = line.partition(_NOTE)
    whole = f"{code}  # {note}"
    return whole if _width(whole) <= WIDTH else code


def _width(line: str) -> int:
    """Columns of a line: East Asian characters take two."""
    if line.isascii():
        return len(line)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def _wrapped(line: str, width: int) -> list[str]:
    if _width(line) <= width:
        return [line]
    margin = line[: len(line) - len(line.lstrip())]
    return wrap(
        line,
        width,
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=margin,
    )


def _lines(stmt: Stmt, indent: str) -> Iterator[str]:
    match stmt:
        case Assign(target, value, note, kind):
            annotated = f"{bare(target)}: {kind}" if kind else bare(target)
            yield f"{indent}{annotated} = {text(value)}{_noted(note)}"
        case Return(value, note):
            yield f"{indent}return {bare(value)}{_noted(note)}"
        case For(target, iterable):
            yield f"{indent}for {target} in {text(iterable)}:"
        case While(test):
            yield f"{indent}while {text(test)}:"
        case If(test):
            yield f"{indent}if {text(test)}:"
        case Do(value):
            yield f"{indent}{text(value)}"
        case Break():
            yield f"{indent}break"
        case Function(name, params, _, returns):
            yield from (f"{indent}@{each}" for each in stmt.decorators)
            arrow = f" -> {returns}" if returns else ""
            yield f"{indent}def {name}({', '.join(params)}){arrow}:"
        case Class(name):
            yield f"{indent}class {name}(nn.Module):"
    for inner in getattr(stmt, "body", ()):
        yield from _lines(inner, indent + "    ")
    if isinstance(stmt, If) and stmt.orelse:
        yield from _else_lines(stmt.orelse, indent)


def _else_lines(orelse: tuple[Stmt, ...], indent: str) -> Iterator[str]:
    if len(orelse) == 1 and isinstance(orelse[0], If):
        first, *rest = _lines(orelse[0], indent)
        yield f"{indent}el{first.lstrip()}"
        yield from rest
        return
    yield f"{indent}else:"
    for inner in orelse:
        yield from _lines(inner, indent + "    ")


def _noted(note: str) -> str:
    words = literal.comment(note, WIDTH)
    return _NOTE + words if words else ""
