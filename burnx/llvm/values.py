"""Values: what an expression is at this place, each shared part worked out once in a scope."""

from __future__ import annotations

from collections.abc import Callable

from burnx.dtype import DType, float32, int32
from burnx.kernels.ir import Apply, Cast, Constant, Inside, Load, Local, Position, Value, operands
from burnx.llvm.calculator import Calculator
from burnx.llvm.context import Context
from burnx.llvm.dtypes import like, mangled, memory_type
from burnx.llvm.functions import apply
from burnx.llvm.indices import indices_of_lanes, number, varies
from burnx.llvm.inside import inside
from burnx.llvm.literals import like_literal, literal, widen
from burnx.llvm.memory import load
from burnx.llvm.numbers import cast, from_index, reinterpret, resize_integer
from burnx.llvm.polynomials import exp_plus_one
from burnx.llvm.ranges import is_whole, range_of
from burnx.llvm.writer import Ssa

EXACT = 1 << 24  # below it float32 holds every integer


def evaluate(context: Context, value: Value, lanes: int) -> Ssa:
    """A value as a scalar or, with lanes, as a vector."""
    result = _find(context, value) or _work_out(context, value)
    return widen(context.writer, result, lanes)


def _find(context: Context, value: Value) -> Ssa | None:
    for scope in reversed(context.scopes):
        if id(value) in scope.values:
            found = scope.values[id(value)][1]
            if context.picked is None or not found.type.startswith("<"):
                return found
            return _keep(context, value, context.pick(found, context.picked))
    return None


def _keep(context: Context, value: Value, result: Ssa) -> Ssa:
    context.scopes[-1].values[id(value)] = (value, result)
    return result


def _work_out(context: Context, value: Value) -> Ssa:
    """Operands before what is made of them, without recursion: expressions may be very deep."""
    todo, known = [value], dict[int, Ssa]()
    while todo:
        current = todo[-1]
        found = known.get(id(current)) or _find(context, current)
        if found is not None:
            known[id(current)] = found
            todo.pop()
            continue
        parts = _parts(current)
        missing = [
            part for part in parts if id(part) not in known and not _found(context, known, part)
        ]
        if missing:
            todo.extend(missing)
            continue
        arguments = [known[id(part)] for part in parts]
        known[id(current)] = _keep(
            context, current, _EMITTERS[type(current)](context, current, arguments)
        )
        todo.pop()
    return known[id(value)]


def _parts(value: Value) -> tuple[Value, ...]:
    """What has to be worked out before a value."""
    if isinstance(value, Inside):
        return ()
    exponent = _of_exp_plus_one(value)
    return operands(value) if exponent is None else (exponent,)


def _of_exp_plus_one(value: Value) -> Value | None:
    """x of exp(x) + 1 in float32, which is less work than its parts; None of all else."""
    if not isinstance(value, Apply) or value.function != "add" or value.dtype != float32:
        return None
    for one, other in (value.arguments, value.arguments[::-1]):
        if isinstance(one, Constant) and one.value == 1 and isinstance(other, Apply):
            return other.arguments[0] if other.function == "exp" else None
    return None


def _found(context: Context, known: dict[int, Ssa], value: Value) -> bool:
    found = _find(context, value)
    if found is not None:
        known[id(value)] = found
    return found is not None


# --- one kind of value each -----------------------------------------------------------------------------------------


def _load(context: Context, value: Load, arguments: list[Ssa]) -> Ssa:
    return load(context, value.buffer, value.index)


def _constant(context: Context, value: Constant, arguments: list[Ssa]) -> Ssa:
    return literal(value.value, value.dtype)


def _apply(context: Context, value: Apply, arguments: list[Ssa]) -> Ssa:
    if _of_exp_plus_one(value) is not None:
        return exp_plus_one(Calculator(context.writer), arguments[0])
    lanes = context.count if any(each.type.startswith("<") for each in arguments) else 1
    whole = [widen(context.writer, each, lanes) for each in arguments]
    return apply(context, value.function, whole, value.arguments[-1].dtype)


def _cast(context: Context, value: Cast, arguments: list[Ssa]) -> Ssa:
    if value.bits:
        return reinterpret(context, arguments[0], value.value.dtype, value.dtype)
    low = _low_bits(context, value.value) if _is_short(value.dtype) else None
    if low is not None:
        return resize_integer(context, low, memory_type(value.dtype), True)
    source, known = value.value.dtype, range_of(value.value)
    return cast(context, arguments[0], source, value.dtype, value.saturate, known)


def _is_short(dtype: DType) -> bool:
    return dtype.kind in "iu" and dtype.itemsize <= 2


def _low_bits(context: Context, value: Value) -> Ssa | None:
    """An int32, right in its low 16 bits, that was made of a clipped and rounded float; else None.

    Processors round what they make an integer of, and make of NaN one whose low bits are 0.
    """
    if value.dtype != int32:
        return None
    if isinstance(value, Apply) and value.function in ("add", "sub"):
        left, right = value.arguments
        low = _low_bits(context, left) if isinstance(right, Constant) else None
        if low is None or not isinstance(right, Constant):
            return None
        operand = like_literal(int(right.value), low)
        return context.writer.binary(value.function, low, operand)
    if not isinstance(value, Cast) or value.bits or value.value.dtype != float32:
        return None
    number, known = value.value, range_of(value.value)
    if not is_whole(number) or not known.within(-EXACT, EXACT):
        return None
    if isinstance(number, Apply) and number.function == "round":
        (number,) = number.arguments
    found = _find(context, number)
    if found is None:
        return None
    type_ = like(found.type, "i32")
    return context.writer.call(type_, f"llvm.lrint.{mangled(type_)}.{mangled(found.type)}", found)


def _position(context: Context, value: Position, arguments: list[Ssa]) -> Ssa:
    if not varies(context, value.index):
        return from_index(context, number(context, value.index), value.dtype)
    return from_index(context, indices_of_lanes(context, value.index), value.dtype)


def _local(context: Context, value: Local, arguments: list[Ssa]) -> Ssa:
    found = context.find(value.name)
    if found.type.startswith("<") and context.picked is not None:
        return context.pick(found, context.picked)
    return found


def _inside(context: Context, value: Inside, arguments: list[Ssa]) -> Ssa:
    return inside(context, value)


_EMITTERS: dict[type, Callable[..., Ssa]] = {
    Load: _load,
    Constant: _constant,
    Apply: _apply,
    Cast: _cast,
    Position: _position,
    Local: _local,
    Inside: _inside,
}
