"""What statements and values use: indices, other values, names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from burnx.kernels.ir import (
    Apply,
    Buffer,
    Carry,
    Contract,
    Fold,
    Inside,
    Let,
    Load,
    Local,
    Lookup,
    Loop,
    Position,
    Statement,
    Store,
    Value,
    operands,
    walk,
)
from burnx.llvm.context import Context
from burnx.shape import Dim, symbols


def used_indices(context: Context, body: tuple[Statement, ...]) -> list[tuple[Buffer | None, Dim]]:
    """All indices in statements and their values, those inside others included, each once."""
    key = ("indices", tuple(map(id, body)))
    found = context.facts.get(key)
    if isinstance(found, list):
        return found
    seen: dict[tuple[int, Dim], tuple[Buffer | None, Dim]] = {}
    values: list[Value] = []
    for statement in body:
        for buffer, dim in _own_indices(statement):
            seen.setdefault((id(buffer), dim), (buffer, dim))
        values.extend(statement_values(statement))
        if isinstance(statement, (Loop, Fold, Carry, Contract)):
            for buffer, dim in used_indices(context, statement.body):
                seen.setdefault((id(buffer), dim), (buffer, dim))
    for value in nodes(values):
        for buffer, dim in _value_indices(value):
            seen.setdefault((id(buffer), dim), (buffer, dim))
    result = list(seen.values())
    context.facts[key] = result
    return result


def _own_indices(statement: Statement) -> list[tuple[Buffer | None, Dim]]:
    match statement:
        case Store():
            return [(statement.buffer, statement.index)]
        case Lookup():
            return [(None, statement.limit)]
        case Loop() | Carry():
            return [(None, statement.extent)]
        case Fold():
            return [(None, extent) for _, extent in statement.loops]
        case Contract():
            loops = (*statement.rows, statement.column, *statement.inner)
            loads = [(load.buffer, load.index) for load in (statement.left, statement.right)]
            return [*loads, *((None, extent) for _, extent in loops)]
        case _:
            return []


def _value_indices(value: Value) -> list[tuple[Buffer | None, Dim]]:
    match value:
        case Load():
            return [(value.buffer, value.index)]
        case Position():
            return [(None, value.index)]
        case Inside():
            return [(None, dim) for check in value.checks for dim in check]
        case _:
            return []


def statement_values(statement: Statement) -> list[Value]:
    """The values that a statement itself takes, those of its body not."""
    match statement:
        case Store() | Let() | Lookup():
            return [statement.value]
        case Fold():
            return [each.value for each in statement.accumulators]
        case Carry():
            return [
                value for _, first, following in statement.carried for value in (first, following)
            ]
        case _:
            return []


def nodes(values: Iterable[Value]) -> list[Value]:
    """All values that these are made of, themselves included, each once."""
    seen: dict[int, Value] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            todo.extend(operands(value))
    return list(seen.values())


@dataclass(frozen=True, slots=True)
class Needs:
    """What a value is made of: names of locals and index symbols, and ids of buffers; it is kept alive here."""

    value: Value
    names: frozenset[str]
    buffers: frozenset[int]


def free_names(context: Context, value: Value) -> frozenset[str]:
    """The names of locals and index symbols in a value."""
    return _needs(context, value).names


def read_buffers(context: Context, value: Value) -> frozenset[int]:
    """The ids of the buffers that a value is loaded from."""
    return _needs(context, value).buffers


def _needs(context: Context, value: Value) -> Needs:
    todo = [value]
    while todo:
        current = todo[-1]
        known = [context.facts.get(("needs", id(part))) for part in operands(current)]
        if None in known:
            todo.extend(
                part for part in operands(current) if ("needs", id(part)) not in context.facts
            )
            continue
        parts = [each for each in known if isinstance(each, Needs)]
        found = {current.name} if isinstance(current, Local) else set[str]()
        for _, dim in _value_indices(current):
            found |= symbols(dim)
        names = frozenset(found).union(*(each.names for each in parts))
        own = {id(current.buffer)} if isinstance(current, Load) else set[int]()
        buffers = frozenset(own).union(*(each.buffers for each in parts))
        context.facts["needs", id(current)] = Needs(current, names, buffers)
        todo.pop()
    result = context.facts["needs", id(value)]
    assert isinstance(result, Needs)
    return result


def written_buffers(body: tuple[Statement, ...]) -> set[int]:
    """The ids of the buffers that statements store to."""
    return {id(each.buffer) for each in walk(body) if isinstance(each, Store)}


def may_repeat(context: Context, body: tuple[Statement, ...], values: Iterable[Value] = ()) -> bool:
    """Whether it makes no difference to run plain statements for an element once more, and take values again."""
    written = written_buffers(body)
    taken = [*values, *(value for each in body for value in statement_values(each))]
    return (
        all(isinstance(each, (Let, Store)) for each in body)
        and not any((isinstance(each, Store) and each.combine != "") for each in body)
        and all(read_buffers(context, value).isdisjoint(written) for value in taken)
    )


_HEAVY = frozenset(
    ("exp", "expm1", "log", "log1p", "tanh", "erf", "pow", "sin", "cos", "softplus", "div", "sqrt")
)


def weight(values: Iterable[Value]) -> int:
    """About how many instructions values take."""
    return sum(
        16 if isinstance(each, Apply) and each.function in _HEAVY else 1 for each in nodes(values)
    )
