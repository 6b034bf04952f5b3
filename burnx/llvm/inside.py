"""``Inside``: a value where indices are within bounds.  What is outside is never read."""

from __future__ import annotations

from collections.abc import Callable

from burnx.kernels.ir import Constant, Inside, Value, operands
from burnx.llvm.calculator import Calculator
from burnx.llvm.context import Context
from burnx.llvm.dtypes import register_type
from burnx.llvm.indices import indices_of_lanes, value_varies, varies
from burnx.llvm.literals import widen
from burnx.llvm.writer import Ssa, integer
from burnx.shape import Dim

Check = tuple[Dim, Dim, Dim]


def inside(context: Context, value: Inside) -> Ssa:
    """A branch where the checks are the same in all lanes; else all, none or each of the lanes."""
    for part in _always_needed(value):
        context.value(part, 1)
    same = [check for check in value.checks if not _check_varies(context, check)]
    other = [check for check in value.checks if _check_varies(context, check)]
    lanes = context.count if other or value_varies(context, value) else 1
    if not same:
        return _in_lanes(context, value, other)
    condition = _all_hold(context, same)
    return choose(
        context,
        condition,
        lambda: _in_lanes(context, value, other) if other else context.value(value.value, lanes),
        lambda: context.value(value.otherwise, lanes),
    )


def _always_needed(value: Inside) -> list[Value]:
    """What both ways need without further checks: worked out before the branch, it is written once."""
    yes, no = _unguarded(value.value), _unguarded(value.otherwise)
    return [part for key, part in yes.items() if key in no and not isinstance(part, Constant)]


def _unguarded(value: Value) -> dict[int, Value]:
    seen: dict[int, Value] = {}
    todo = [value]
    while todo:
        current = todo.pop()
        if id(current) not in seen:
            seen[id(current)] = current
            todo.extend(() if isinstance(current, Inside) else operands(current))
    return seen


def _check_varies(context: Context, check: Check) -> bool:
    return any(varies(context, dim) for dim in check)


def _all_hold(context: Context, checks: list[Check]) -> Ssa:
    """One i1, or a vector of them where a check varies."""
    calc, result = Calculator(context.writer), Ssa("true", "i1")
    for low, index, high in checks:
        lanes = context.count if _check_varies(context, (low, index, high)) else 1
        low_, index_, high_ = (_number(context, dim, lanes) for dim in (low, index, high))
        holds = calc.both(
            calc.compare("icmp sle", low_, index_), calc.compare("icmp slt", index_, high_)
        )
        result = holds if result.name == "true" else calc.both(result, holds)
    return result


def _number(context: Context, dim: Dim, lanes: int) -> Ssa:
    if lanes > 1 and varies(context, dim):
        return indices_of_lanes(context, dim)
    return widen(context.writer, context.index(dim), lanes)


def choose(context: Context, condition: Ssa, yes: Callable[[], Ssa], no: Callable[[], Ssa]) -> Ssa:
    """One of two values of one type, only that one worked out."""
    writer = context.writer
    then, other, after = (writer.fresh(stem) for stem in ("then", "else", "after"))
    writer.branch(condition, then, other)
    results = []
    for label, work_out in ((then, yes), (other, no)):
        writer.label(label)
        with context.scope():
            result = work_out()
        results.append((result, writer.block))
        writer.jump(after)
    writer.label(after)
    pairs = ", ".join(f"[{result.name}, %{block}]" for result, block in results)
    type_ = results[0][0].type
    return writer.value(type_, f"phi {type_} {pairs}")


def _in_lanes(context: Context, value: Inside, checks: list[Check]) -> Ssa:
    """Checks that vary: all lanes hold, none does, or one lane after the other."""
    calc, lanes = Calculator(context.writer), context.count
    if lanes == 1 or not checks:
        return _one(context, value, checks)
    mask = _all_hold(context, checks)
    return choose(
        context,
        calc.every(mask),
        lambda: context.value(value.value, lanes),
        lambda: choose(
            context,
            calc.some(mask),
            lambda: _lane_by_lane(context, value, checks),
            lambda: context.value(value.otherwise, lanes),
        ),
    )


def _one(context: Context, value: Inside, checks: list[Check]) -> Ssa:
    if not checks:
        return context.value(value.value, 1)
    return choose(
        context,
        _all_hold(context, checks),
        lambda: context.value(value.value, 1),
        lambda: context.value(value.otherwise, 1),
    )


def _lane_by_lane(context: Context, value: Inside, checks: list[Check]) -> Ssa:
    lanes = context.count
    type_ = register_type(value.dtype, lanes)

    def turn(lane: Ssa, values: list[Ssa]) -> list[Ssa]:
        with context.one_lane(lane):
            element = _one(context, value, checks)
        return [context.writer.value(type_, f"insertelement {values[0]}, {element}, {lane}")]

    first = [Ssa("zeroinitializer", type_)]
    return context.writer.loop(integer(0), integer(lanes), integer(1), turn, first)[0]
