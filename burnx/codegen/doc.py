"""Text with possible line breaks, and the printer that chooses among them.

A ``Doc`` is a string, a tuple of docs, or one of the nodes below. A group prints flat when
everything up to the next certain line break fits the line, else its own breaks become newlines.
``print_doc`` follows the measuring rules of ruff's printer closely enough that what it prints is
what ruff would print.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

INDENT: Final = 4


class Mode(Enum):
    FLAT = 0
    EXPANDED = 1


class Measure(Enum):
    """How far a measurement goes: to the first break, over all lines, or over all lines whatever
    their width.
    """

    FIRST_LINE = 0
    ALL_LINES = 1
    ALL_LINES_ANY_WIDTH = 2


@dataclass(frozen=True, slots=True)
class Line:
    """A possible line break; flat it is ``flat``."""

    flat: str
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Breaks together. With ``when``, a group only if the group of that id broke; ``expand`` breaks
    it always.
    """

    content: Doc
    id: int | None = None
    when: int | None = None
    expand: bool = False


@dataclass(frozen=True, slots=True)
class Indent:
    """One level deeper; with ``when``, only if the group of that id broke."""

    content: Doc
    when: int | None = None


@dataclass(frozen=True, slots=True)
class IfMode:
    """Printed only if the group (of that id, else the enclosing one) has this mode."""

    content: Doc
    mode: Mode
    id: int | None = None


@dataclass(frozen=True, slots=True)
class FitsExpanded:
    """Inside a flat group of that id: counts as fitting if its broken form fits."""

    content: Doc
    id: int


@dataclass(frozen=True, slots=True)
class BestFit:
    """Gets parentheses of its own only if these make it fit."""

    content: Doc
    id: int


@dataclass(frozen=True, slots=True)
class Variants:
    """The first alternative that fits, else the last one broken."""

    choices: tuple[Doc, ...]


Doc = str | tuple["Doc", ...] | Line | Group | Indent | IfMode | FitsExpanded | BestFit | Variants

SOFT: Final = Line("")
LINE: Final = Line(" ")
HARD: Final = Line("", hard=True)


class Item(NamedTuple):
    """A doc that waits to be printed or measured."""

    doc: Doc
    indent: int
    mode: Mode
    measure: Measure = Measure.FIRST_LINE


def text_width(text: str) -> int:
    """Columns that ``text`` takes: two for a wide East Asian character, none for a mark."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def print_doc(doc: Doc, indent: int, width: int) -> str:
    """Lay ``doc`` out at ``indent`` columns in lines of ``width``; the first line carries no
    indent.
    """
    printer = _Printer(width, indent)
    printer.stack.append(Item(doc, indent, Mode.EXPANDED))
    while printer.stack:
        item = printer.stack.pop()
        _PRINT[type(item.doc)](printer, item)
    return "".join(printer.parts)


class _Printer:
    """State of one ``print_doc``."""

    __slots__ = ("column", "measured", "modes", "parts", "stack", "width")

    def __init__(self, width: int, column: int) -> None:
        self.width = width
        self.column = column
        self.stack: list[Item] = []
        self.parts: list[str] = []
        self.modes: dict[int, Mode] = {}
        self.measured = False

    def mode_of(self, id: int | None, item: Item) -> Mode:
        return item.mode if id is None else self.modes[id]

    def newline(self, indent: int) -> None:
        self.parts.append("\n" + " " * indent)
        self.column = indent
        self.measured = False

    def choose(self, content: Doc, item: Item, id: int | None) -> Mode:
        """The mode in which a group prints here."""
        if item.mode is Mode.FLAT and self.measured:
            return Mode.FLAT
        self.measured = True
        if id is not None:
            self.modes[id] = Mode.FLAT
        fits = _fits(self, [Item(content, item.indent, Mode.FLAT)])
        return Mode.FLAT if fits else Mode.EXPANDED


def _print_text(printer: _Printer, item: Item) -> None:
    text = item.doc
    assert isinstance(text, str)
    printer.parts.append(text)
    printer.column += text_width(text)


def _print_tuple(printer: _Printer, item: Item) -> None:
    assert isinstance(item.doc, tuple)
    printer.stack.extend(item._replace(doc=part) for part in reversed(item.doc))


def _print_line(printer: _Printer, item: Item) -> None:
    line = item.doc
    assert isinstance(line, Line)
    if line.hard or item.mode is Mode.EXPANDED:
        printer.newline(item.indent)
    elif line.flat:
        printer.parts.append(line.flat)
        printer.column += len(line.flat)


def _print_group(printer: _Printer, item: Item) -> None:
    group = item.doc
    assert isinstance(group, Group)
    mode = item.mode
    if group.when is None or printer.modes[group.when] is Mode.EXPANDED:
        expanded = group.expand
        mode = Mode.EXPANDED if expanded else printer.choose(group.content, item, group.id)
        if group.id is not None:
            printer.modes[group.id] = mode
    printer.stack.append(Item(group.content, item.indent, mode))


def _print_indent(printer: _Printer, item: Item) -> None:
    printer.stack.append(_indented(printer, item))


def _indented(printer: _Printer, item: Item) -> Item:
    doc = item.doc
    assert isinstance(doc, Indent)
    deeper = doc.when is None or printer.modes[doc.when] is Mode.EXPANDED
    return item._replace(doc=doc.content, indent=item.indent + INDENT if deeper else item.indent)


def _print_if_mode(printer: _Printer, item: Item) -> None:
    doc = item.doc
    assert isinstance(doc, IfMode)
    if printer.mode_of(doc.id, item) is doc.mode:
        printer.stack.append(item._replace(doc=doc.content))


def _print_fits_expanded(printer: _Printer, item: Item) -> None:
    doc = item.doc
    assert isinstance(doc, FitsExpanded)
    if printer.modes[doc.id] is Mode.FLAT:
        printer.measured = False
    printer.stack.append(item._replace(doc=doc.content))


def _print_best_fit(printer: _Printer, item: Item) -> None:
    doc = item.doc
    assert isinstance(doc, BestFit)
    mode = printer.choose(doc.content, item, doc.id)
    wrapped: Doc = ("(", Indent((HARD, doc.content)), HARD, ")")
    if mode is Mode.EXPANDED:
        printer.modes[doc.id] = Mode.EXPANDED
        if not _fits(printer, [item._replace(doc=wrapped, measure=Measure.ALL_LINES)]):
            mode = Mode.FLAT
    printer.modes[doc.id] = mode
    content = doc.content if mode is Mode.FLAT else wrapped
    printer.stack.append(Item(content, item.indent, mode))


def _print_variants(printer: _Printer, item: Item) -> None:
    doc = item.doc
    assert isinstance(doc, Variants)
    printer.measured = True
    for choice in doc.choices[:-1]:
        flat = Item(choice, item.indent, Mode.FLAT)
        if _fits(printer, [flat]):
            printer.stack.append(flat)
            return
    printer.stack.append(Item(doc.choices[-1], item.indent, Mode.EXPANDED))


_PRINT: Final[dict[type, Callable[[_Printer, Item], None]]] = {
    str: _print_text,
    tuple: _print_tuple,
    Line: _print_line,
    Group: _print_group,
    Indent: _print_indent,
    IfMode: _print_if_mode,
    FitsExpanded: _print_fits_expanded,
    BestFit: _print_best_fit,
    Variants: _print_variants,
}


def _fits(printer: _Printer, queue: list[Item]) -> bool:
    """True if ``queue``, then what waits to be printed, fits up to the first certain line break."""
    waiting = len(printer.stack)
    column = printer.column
    on_first_line = True
    while queue or waiting:
        if queue:
            item = queue.pop()
        else:
            waiting -= 1
            item = printer.stack[waiting]
        doc = item.doc
        if isinstance(doc, Line) and (doc.hard or item.mode is Mode.EXPANDED):
            if item.mode is Mode.FLAT or item.measure is Measure.FIRST_LINE:
                return True
            column, on_first_line = item.indent, False
        elif isinstance(doc, str | Line):
            column += text_width(doc if isinstance(doc, str) else doc.flat)
            free = item.measure is Measure.ALL_LINES_ANY_WIDTH and not on_first_line
            if column > printer.width and not free:
                return False
        else:
            queue.extend(_MEASURE[type(doc)](printer, item))
    return True


def _measure_tuple(printer: _Printer, item: Item) -> list[Item]:
    assert isinstance(item.doc, tuple)
    return [item._replace(doc=part) for part in reversed(item.doc)]


def _measure_group(printer: _Printer, item: Item) -> list[Item]:
    group = item.doc
    assert isinstance(group, Group)
    applies = group.when is None or printer.modes[group.when] is Mode.EXPANDED
    mode = Mode.EXPANDED if group.expand and applies else item.mode
    if group.id is not None:
        printer.modes[group.id] = mode
    return [item._replace(doc=group.content, mode=mode)]


def _measure_indent(printer: _Printer, item: Item) -> list[Item]:
    return [_indented(printer, item)]


def _measure_if_mode(printer: _Printer, item: Item) -> list[Item]:
    doc = item.doc
    assert isinstance(doc, IfMode)
    shown = printer.mode_of(doc.id, item) is doc.mode
    return [item._replace(doc=doc.content)] if shown else []


def _measure_fits_expanded(printer: _Printer, item: Item) -> list[Item]:
    doc = item.doc
    assert isinstance(doc, FitsExpanded)
    if item.mode is Mode.FLAT and printer.modes[doc.id] is Mode.FLAT:
        return [Item(doc.content, item.indent, Mode.EXPANDED, Measure.ALL_LINES_ANY_WIDTH)]
    return [item._replace(doc=doc.content)]


def _measure_best_fit(printer: _Printer, item: Item) -> list[Item]:
    doc = item.doc
    assert isinstance(doc, BestFit)
    printer.modes[doc.id] = item.mode
    return [item._replace(doc=doc.content)]


def _measure_variants(printer: _Printer, item: Item) -> list[Item]:
    doc = item.doc
    assert isinstance(doc, Variants)
    return [item._replace(doc=doc.choices[0 if item.mode is Mode.FLAT else -1])]


_MEASURE: Final[dict[type, Callable[[_Printer, Item], list[Item]]]] = {
    tuple: _measure_tuple,
    Group: _measure_group,
    Indent: _measure_indent,
    IfMode: _measure_if_mode,
    FitsExpanded: _measure_fits_expanded,
    BestFit: _measure_best_fit,
    Variants: _measure_variants,
}
