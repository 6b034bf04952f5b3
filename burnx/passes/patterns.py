"""Patterns: what a decomposition looks like, written as the expression it is.

    x = Operand("x")
    GELU = Op("Mul", Op("Mul", x, Op("Add", Op("Erf", Op("Div", x, Number(2**0.5))), Number(1))), Number(0.5))

A name stands for one value, and a named ``Op`` for one node, wherever it occurs.  Add and Mul match in either order
of their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import ml_dtypes

from burnx.dtype import FLOATS, INTEGERS
from burnx.graph import Node, Value

COMMUTATIVE = frozenset({"Add", "Mul"})


@dataclass(frozen=True, slots=True)
class Operand:
    """Any value; without a name, whichever it is."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of one element, near ``value`` as its dtype counts, or any if that is None."""

    value: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, init=False)
class Op:
    """The first output of an operator applied to these; inputs beyond them are left to the rule."""

    operator: str
    inputs: tuple[Pattern, ...]
    name: str
    domain: str

    def __init__(self, operator: str, *inputs: Pattern, name: str = "", domain: str = "") -> None:
        object.__setattr__(self, "operator", operator)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "domain", domain)


@dataclass(frozen=True, slots=True, init=False)
class OneOf:
    """Any of these."""

    options: tuple[Pattern, ...]

    def __init__(self, *options: Pattern) -> None:
        object.__setattr__(self, "options", options)


Pattern: TypeAlias = Operand | Number | Op | OneOf


@dataclass(frozen=True, slots=True)
class Found:
    """What a pattern matched: the values and nodes of its names, and every node it went through."""

    values: dict[str, Value] = field(default_factory=dict)
    named: dict[str, Node] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()


def product(*factors: Pattern) -> Pattern:
    """A product of three, however it is grouped."""
    first, second, third = factors
    return OneOf(
        Op("Mul", Op("Mul", first, second), third),
        Op("Mul", Op("Mul", first, third), second),
        Op("Mul", Op("Mul", second, third), first),
    )


def scalar(value: Value | None) -> float | None:
    """The number that a constant of one element holds."""
    if value is None or value.array is None or value.array.size != 1:
        return None
    if value.array.dtype not in FLOATS and value.array.dtype not in INTEGERS:
        return None
    return float(value.array.reshape(()))


def is_near(value: Value | None, wanted: float) -> bool:
    """Whether a constant is ``wanted``, rounded to its dtype or written with as many digits."""
    number = scalar(value)
    if number is None or value is None or value.array is None:
        return False
    dtype = value.array.dtype
    step = float(ml_dtypes.finfo(dtype).eps) if dtype in FLOATS else 0.0  # type: ignore[no-untyped-call]
    return number == wanted or bool(abs(number - wanted) <= max(2 * step, 1e-7) * abs(wanted))


Enter: TypeAlias = Callable[[Value], Node | None]


def find_all(pattern: Pattern, value: Value, found: Found, enter: Enter) -> Iterator[Found]:
    """Every way in which ``value`` is the pattern; ``enter`` gives the node behind a value, if it may be looked at."""
    match pattern:
        case Operand(name):
            known = found.values.get(name)
            if not name:
                yield found
            elif known is None:
                yield replace(found, values={**found.values, name: value})
            elif known is value:
                yield found
        case Number(wanted, name):
            if scalar(value) is not None and (wanted is None or is_near(value, wanted)):
                yield replace(found, values={**found.values, name: value}) if name else found
        case OneOf(options):
            for option in options:
                yield from find_all(option, value, found, enter)
        case Op():
            yield from _find_op(pattern, value, found, enter)


def _find_op(pattern: Op, value: Value, found: Found, enter: Enter) -> Iterator[Found]:
    node = enter(value)
    if node is None or (node.operator, node.domain) != (pattern.operator, pattern.domain):
        return
    if len(node.inputs) < len(pattern.inputs) or found.named.get(pattern.name, node) is not node:
        return
    named = {**found.named, pattern.name: node} if pattern.name else found.named
    here = replace(found, named=named, nodes=(*found.nodes, node))
    yield from _find_inputs(pattern.inputs, node.inputs, here, enter)
    if pattern.operator in COMMUTATIVE and len(pattern.inputs) == 2:
        yield from _find_inputs(pattern.inputs[::-1], node.inputs, here, enter)


def _find_inputs(
    patterns: tuple[Pattern, ...], values: list[Value | None], found: Found, enter: Enter
) -> Iterator[Found]:
    if not patterns:
        yield found
        return
    first = values[0]
    if first is None:
        return
    for each in find_all(patterns[0], first, found, enter):
        yield from _find_inputs(patterns[1:], values[1:], each, enter)
