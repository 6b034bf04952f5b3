"""Constants that are worked out beforehand: which are stored, and for how long what they came from is kept."""

from __future__ import annotations

import tracemalloc

import numpy as np

from burnx.dtype import DType, float32, int8, int32
from burnx.fusion.folding import fold
from burnx.program import Instruction, Var
from burnx.types import TensorType


def _value(dtype: DType, *shape: int) -> Var:
    return Var(TensorType(dtype, shape))


def _constant(array: np.ndarray) -> Var:
    return Var(TensorType(array.dtype, array.shape), array)


def test_a_vector_that_is_spread_out_is_stored_as_a_vector() -> None:
    vector, x = _constant(np.arange(4, dtype=np.float32).reshape(4, 1)), _value(float32, 4, 5)
    wide, y = _value(float32, 4, 5), _value(float32, 4, 5)
    instructions = [
        Instruction("broadcast", (vector,), (wide,), {"shape": (4, 5)}),
        Instruction("map", (x, wide), (y,), {"function": "add"}),
    ]
    assert fold(instructions, {}, [y]) == instructions


def test_what_is_made_of_a_spread_vector_is_a_constant() -> None:
    vector, other = np.ones((4, 1), np.float32), np.full((4, 5), 2, np.float32)
    wide, y = _value(float32, 4, 5), _value(float32, 4, 5)
    instructions = [
        Instruction("broadcast", (_constant(vector),), (wide,), {"shape": (4, 5)}),
        Instruction("map", (_constant(other), wide), (y,), {"function": "add"}),
    ]
    folded: dict[Var, Var] = {}
    assert fold(instructions, folded, [y]) == []
    assert folded[y].array is not None and (folded[y].array == 3).all()


def test_widened_constants_are_kept_until_they_are_read() -> None:
    instructions, sums = [], []
    for _ in range(6):
        narrow, wide, total = (
            _constant(np.ones((1 << 11, 1 << 10), np.int8)),
            _value(int32, 1 << 11, 1 << 10),
            _value(int32, 1 << 10),
        )
        attributes = {"dtype": int32, "saturate": True}
        instructions.append(Instruction("cast", (narrow,), (wide,), attributes))
        instructions.append(
            Instruction("reduce", (wide,), (total,), {"function": "sum", "axes": (0,)})
        )
        sums.append(total)
    assert narrow.array is not None and narrow.array.dtype == int8
    folded: dict[Var, Var] = {}
    tracemalloc.start()
    left = fold(instructions, folded, sums)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left == [] and all((folded[each].array == 1 << 11).all() for each in sums)
    assert peak < 3 * (4 << 21), "more than two of the widened ones at once"
