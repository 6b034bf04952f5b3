"""Lists whose elements differ in one number: ``(block(channels) for channels in (64, 128, 256))``."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from burnx.codegen.expressions import group, name, text
from burnx.codegen.literal import constant
from burnx.codegen.names import LOCAL_RESERVED, Names
from burnx.codegen.parameters import Number, Replace, word_of

FEWEST = 3  # elements that are worth a comprehension


def counted(
    items: Sequence[ast.expr], known: Mapping[str, Sequence[str]]
) -> ast.GeneratorExp | None:
    """The elements of a list as one for each of some numbers; None where they differ in more, or read well.

    ``known`` are the parameters of the classes so far.
    """
    if len(items) < FEWEST or not all(map(_is_long, items)):
        return None
    found = [_numbers(item, known) for item in items]
    if len({outline for outline, _ in found}) != 1:
        return None
    columns = list(zip(*(numbers for _, numbers in found), strict=True))
    varying = {tuple(repr(value) for value, _ in column) for column in columns}
    varying = {each for each in varying if len(set(each)) > 1}
    if len(varying) != 1:
        return None
    (written,) = varying
    places = [tuple(repr(value) for value, _ in column) == written for column in columns]
    pairs = list(zip(columns, places, strict=True))
    roles = [column[0][1] for column, is_varying in pairs if is_varying]
    values = next([value for value, _ in column] for column, is_varying in pairs if is_varying)
    label = Names(LOCAL_RESERVED).fresh(word_of(roles))
    turn = iter(places)
    element = Replace(lambda _, __, ___: name(label) if next(turn) else None, known).visit(items[0])
    target = ast.Name(label, ast.Store())
    over = group([constant(value) for value in values])
    return ast.GeneratorExp(element, [ast.comprehension(target, over, [], 0)])


def _is_long(item: ast.expr) -> bool:
    """Whether an element holds calls of its own."""
    return sum(isinstance(each, ast.Call) for each in ast.walk(item)) > 1


def _numbers(
    item: ast.expr, known: Mapping[str, Sequence[str]]
) -> tuple[str, list[tuple[Number, str]]]:
    """An expression without its numbers, and these with what they are for."""
    numbers: list[tuple[Number, str]] = []

    def take(value: Number, role: str, _: bool) -> ast.expr:
        numbers.append((value, role))
        return name(f"_{type(value).__name__}")

    return text(Replace(take, known).visit(item)), numbers
