"""Numbers that all elements of an operand are multiplied by, taken out of the products: the sums are, instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnx.dtype import DType, float16, float32
from burnx.fusion.expressions import dtype_of, is_uniform
from burnx.kernels.ir import Apply, Cast, Constant, Load, Local, Value
from burnx.program import Instruction, Var

if TYPE_CHECKING:
    from burnx.fusion.scheduler import Scheduler

SMALLEST = 2.0**-14


def widened_from(scheduler: Scheduler, var: Var) -> DType:
    """The dtype of what a value is widened from, where it is read so; of float16 it may be a multiple.

    What is rounded on its way is not: ``unscaled``, which takes such values apart, has to find what is looked for here.
    """
    found, is_scaled = var, False
    while scheduler.is_virtual(found):
        maker = scheduler.uses.makers[found]
        widens = maker.primitive == "cast" and dtype_of(found) == float32
        source = maker.inputs[0] if widens or maker.primitive in _MOVED else None
        if maker.primitive == "map" and not is_scaled:
            source, is_scaled = _multiplied(scheduler, maker), True
        if source is None:
            break
        found = source
    dtype = dtype_of(found)
    is_read = not scheduler.is_virtual(found) and (dtype == float16 or not is_scaled)
    return dtype if is_read else dtype_of(var)


_MOVED = frozenset(("reshape", "transpose"))  # what is read is still what lies in memory


def _multiplied(scheduler: Scheduler, maker: Instruction) -> Var | None:
    """What is multiplied by a number that ``unscaled`` takes out; None if it is something else."""
    if maker.attributes["function"] != "mul" or dtype_of(maker.outputs[0]) != float32:
        return None
    for one, two in (maker.inputs, maker.inputs[::-1]):
        number = two
        source = scheduler.uses.makers.get(two) if two is not None else None
        if source is not None and source.primitive == "broadcast":
            number = source.inputs[0]
        if number is not None and number.array is not None and is_uniform(number):
            size = abs(float(number.array.flat[0]))
            return one if SMALLEST <= size <= 1 else None
    return None


def unwidened(value: Value, dtype: DType) -> Value:
    """What is read, if it is of this dtype and only widened."""
    inner = value
    while isinstance(inner, Cast) and not inner.bits and inner.dtype in (float32, dtype):
        inner = inner.value
    return inner if _is_read(inner, dtype) else value


def unscaled(value: Value) -> tuple[Value, float]:
    """(what is read, the number that it is multiplied by): of float16 by at most 1, all else as it is.

    The sums of such products are float32 and far from its limits, so they may as well be multiplied afterwards.
    """
    inner = value
    while isinstance(inner, Cast) and not inner.bits and inner.dtype in (float16, float32):
        inner = inner.value
    if not isinstance(inner, Apply) or inner.function != "mul" or inner.dtype != float32:
        return value, 1.0
    read = [one for each in inner.arguments if _is_read(one := unwidened(each, float16), float16)]
    numbers = [float(each.value) for each in inner.arguments if isinstance(each, Constant)]
    if len(read) != 1 or len(numbers) != 1 or not SMALLEST <= abs(numbers[0]) <= 1:
        return value, 1.0
    return read[0], numbers[0]


def scaled(name: str, dtype: DType, factors: Sequence[float]) -> Value:
    """A sum of products, multiplied by what was left out of its operands."""
    total, number = Local(name, dtype), math.prod(factors)
    return total if number == 1 else Apply("mul", (total, Constant(number, dtype)), dtype)


def _is_read(value: Value, dtype: DType) -> bool:
    return isinstance(value, Load) and value.dtype == dtype
