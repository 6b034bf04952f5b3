"""Inputs and outputs that are one thing many times: past_key_0, past_value_0, past_key_1, … are ``*past``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from burnx.codegen.expressions import call, group
from burnx.codegen.expressions import name as name_of
from burnx.codegen.literal import constant
from burnx.graph import Value

LEAST = 3  # rounds that make a family
_MEMBER = re.compile(r"^(.*?)[._]?([0-9]+)(?:[._](\w*[A-Za-z]\w*))?$")


@dataclass(frozen=True, slots=True)
class Family:
    """Values in rounds: each round has one of each of the ``names``, whose number is left open (``past_key_{}``)."""

    label: str
    names: tuple[str, ...]
    first: int
    values: tuple[Value, ...]

    @property
    def width(self) -> int:
        """Values of a round."""
        return len(self.names)

    def labels(self) -> list[str]:
        """The names of all values."""
        rounds = len(self.values) // self.width
        return [
            name.replace("{}", str(number))
            for number in range(self.first, self.first + rounds)
            for name in self.names
        ]


def find_families(values: Sequence[Value], labels: Sequence[str]) -> list[Family]:
    """The families among the inputs or the outputs of a model, each a part of the sequence."""
    found: list[Family] = []
    place = 0
    while place < len(values):
        names, rounds, first = _rounds(labels, place)
        if rounds >= LEAST and len(names) * rounds >= 2 * LEAST:
            end = place + len(names) * rounds
            label = _label(names)
            family = Family(label, tuple(names), first, tuple(values[place:end]))
            if _can_be_said(family, labels[place:end]) and label not in [f.label for f in found]:
                found.append(family)
            place = end
        else:
            place += 1
    return found


def _can_be_said(family: Family, labels: Sequence[str]) -> bool:
    """Whether the members are all different and named as the family says: ``past_00`` is not."""
    start, end = _ends(family.names)
    has_number = "{}" in start or "{}" in end
    is_whole = len(set(family.values)) == len(family.values)
    return bool(family.label and has_number and is_whole and family.labels() == list(labels))


def _ends(names: Sequence[str]) -> tuple[str, str]:
    """What all names begin and end with; of a single name all is its beginning."""
    start = _common(names)
    return start, _common([name[len(start) :][::-1] for name in names])[::-1]


def _rounds(labels: Sequence[str], place: int) -> tuple[list[str], int, int]:
    """The names of a round that begins here, how many rounds follow each other, and the first one's number."""
    members = list(_members(labels[place:]))
    if not members or members[0] is None:
        return [], 0, 0
    first = members[0][1]
    names = []
    for each in members:
        if each is None or each[1] != first or each[0] in names:
            break
        names.append(each[0])
    rounds = 0
    while [each and each[0] for each in _part(members, rounds, len(names))] == names and all(
        each is not None and each[1] == first + rounds
        for each in _part(members, rounds, len(names))
    ):
        rounds += 1
    return names, rounds, first


def _part(
    members: Sequence[tuple[str, int] | None], number: int, width: int
) -> Sequence[tuple[str, int] | None]:
    return members[number * width : (number + 1) * width]


def _members(labels: Sequence[str]) -> Iterator[tuple[str, int] | None]:
    for label in labels:
        match = _MEMBER.match(label)
        if match is None or "{" in label or "}" in label:
            yield None
        else:
            start, end = match.span(2)
            yield label[:start] + "{}" + label[end:], int(match[2])


def _label(names: Sequence[str]) -> str:
    """What the whole family is called: what its names begin with."""
    stem = _common([name.partition("{}")[0] for name in names])
    words = [word for word in re.split(r"[^A-Za-z]+", stem) if word]
    if len(names) > 1:
        return "_".join(words).lower()
    word = "_".join(words).lower()
    return word if word.endswith("s") else f"{word}s" if word else ""


def every_member(family: Family, declare: Callable[[ast.expr], ast.expr]) -> ast.expr:
    """``*(declare(f"past_{part}_{layer}") for layer in range(12) for part in ("key", "value"))``"""
    names = family.names
    start, end = _ends(names)
    parts = [name[len(start) : len(name) - len(end)] for name in names]
    layer, part = name_of("layer"), name_of("part")
    stop = family.first + len(family.values) // family.width
    numbers = [constant(family.first)] if family.first else []
    turns = [ast.comprehension(layer, call("range", *numbers, constant(stop)), [], 0)]
    pieces: list[ast.expr | None] = [*_pieces(start, layer)]
    if family.width > 1:
        turns.append(ast.comprehension(part, group(map(constant, parts)), [], 0))
        pieces.append(part)
    pieces += _pieces(end, layer) if family.width > 1 else []
    label = ast.JoinedStr([_piece(each) for each in pieces if each is not None])
    return ast.Starred(ast.GeneratorExp(declare(label), turns), ast.Load())


def _pieces(pattern: str, number: ast.expr) -> Iterator[ast.expr]:
    before, brace, after = pattern.partition("{}")
    yield from (ast.Constant(before),) if before else ()
    yield from (number,) if brace else ()
    yield from (ast.Constant(after),) if after else ()


def _piece(expr: ast.expr) -> ast.expr:
    return expr if isinstance(expr, ast.Constant) else ast.FormattedValue(expr, -1)


def _common(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    columns = zip(*texts, strict=False)
    return "".join(column[0] for column in takewhile(lambda each: len(set(each)) == 1, columns))
