"""The reference with every rounding left to chance: how far results move when last bits do.

Engines add in other orders and round at other places, so a float result is only known up to a last bit. Each run here
is one such engine. Where a model rounds to few steps, or compares, its outputs move by much more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.dtype import is_complex, is_float
from burnx.errors import UnsupportedError
from burnx.program import Instruction, Var
from burnx.runtime.devices.reference.interpreter import Interpreter, Sizes, Step

Array = np.ndarray[Any, Any]
STORED_WHOLE = ("float16", "bfloat16", "float32", "float64")
# what combines or bends numbers; all else moves, chooses or rounds them, which every engine does alike
_ROUNDS: dict[str, frozenset[str] | None] = {
    "contract": None,
    "conv": None,
    "reduce": frozenset({"sum", "prod"}),
    "window_reduce": frozenset({"sum"}),
    "cumulate": frozenset({"sum", "prod"}),
    "map": frozenset(
        [
            "add",
            "sub",
            "mul",
            "div",
            "pow",
            "atan2",
            "sqrt",
            "exp",
            "expm1",
            "log",
            "log1p",
            "softplus",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "erf",
        ]
    ),
}


@dataclass(slots=True, eq=False)
class Stirred(Interpreter):
    """Moves about half of all float results to a neighbour, as ``random`` draws.

    Raises: UnsupportedError for a program that draws random numbers without a seed, since no two runs of it are comparable.
    """

    random: np.random.Generator = field(default_factory=np.random.default_rng)

    def step(self, step: Step, values: dict[Var, Any], sizes: Sizes) -> None:
        drawn = step.instruction
        if drawn.primitive == "draw_key" and drawn.attributes["seed"] is None:
            raise UnsupportedError(f"results of chance do not compare, {step.instruction.place}")
        Interpreter.step(self, step, values, sizes)
        if _rounds(step.instruction):
            for var in step.instruction.outputs:
                values[var] = stir(values[var], self.random)


def _rounds(instruction: Instruction) -> bool:
    name = instruction.primitive
    functions = _ROUNDS.get(name, frozenset())
    return functions is None or instruction.attributes.get("function") in functions


def stir(array: Any, random: np.random.Generator) -> Any:
    """An array with half of its elements moved to the next number of its dtype, up or down.

    Whole numbers stay: as a rule they are exact, such as counts, places and masks.
    """
    if not isinstance(array, np.ndarray):
        return array
    if is_complex(array.dtype):
        parts = stir(array.real, random), stir(array.imag, random)
        return (parts[0] + 1j * parts[1]).astype(array.dtype)
    if not is_float(array.dtype) or array.dtype.name not in STORED_WHOLE:
        return array
    draw = random.integers(0, 4, array.shape, np.uint8)
    towards = np.where(draw == 0, np.inf, -np.inf).astype(array.dtype)
    with np.errstate(all="ignore"):
        stays = (draw > 1) | ~np.isfinite(array) | (np.rint(array) == array)
        return np.where(stays, array, np.nextafter(array, towards))
