"""The way back: what a function did is noted as the primitives it called; they are gone through from the last.

Source: reverse-mode differentiation as in Griewank and Walther 2008, chapter 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnx import waist
from burnx.dtype import is_complex, is_float
from burnx.errors import DTypeError
from burnx.gradients.rules import RULES, Step, filled
from burnx.program import Instruction
from burnx.tensor import Tensor, Undetermined, recorder_of
from burnx.types import TensorType


def gradients(
    function: Callable[[Sequence[Tensor]], Tensor], xs: Sequence[Tensor], others: Sequence[Tensor]
) -> list[Tensor]:
    """The derivatives of the sum of ``function([*xs, *others])`` by each of ``xs``.

    Raises: UnsupportedError naming the node that has no derivative; DTypeError if ``xs`` are no floats.
    """
    for x in xs:
        if not isinstance(x.type, TensorType) or not is_float(x.dtype):
            raise DTypeError(f"Gradient differentiates by floats, not by {x.type}")

    def run(places: Sequence[Tensor]) -> list[Tensor]:
        return [function([*places, *others])]

    found = pull_back(run, xs, None)
    return [filled(0, x) if each is None else each for x, each in zip(xs, found, strict=True)]


def pull_back(
    function: Callable[[Sequence[Tensor]], list[Tensor]],
    xs: Sequence[Tensor],
    by: Sequence[Tensor | None] | None,
) -> list[Tensor | None]:
    """The derivatives by ``xs``, given those by the results of ``function(xs)``; None stands for zeros.

    Without ``by`` it is the sum of the results that is differentiated.
    """
    builder: Any = recorder_of(xs)
    places = [_free(builder, x) for x in xs]
    start = len(builder.program.instructions)
    results = function(places)
    tape = builder.program.instructions[start:]
    given = [filled(1, each) for each in results] if by is None else by
    return _walk_back(builder, tape, places, list(zip(results, given, strict=True)))


def _free(builder: Any, x: Tensor) -> Tensor:
    """``x`` as a variable of its own, of which nothing is known: what is built must not take it for a constant."""
    place: Tensor = builder.emit("reshape", (x,), shape=x.shape)[0]
    place.ref.known = None
    return place


def _walk_back(
    builder: Any,
    tape: Sequence[Instruction],
    places: Sequence[Tensor],
    ends: Sequence[tuple[Tensor, Tensor | None]],
) -> list[Tensor | None]:
    active = _active(tape, {id(place.ref) for place in places})
    found: dict[int, Tensor] = {}

    def add(var: Any, slope: Tensor | None) -> None:
        if slope is not None and id(var) in active:
            before = found.get(id(var))
            found[id(var)] = slope if before is None else waist.map("add", before, slope)

    for result, slope in ends:
        add(builder.adopt(result), slope)
    for instruction in reversed(tape):
        given = [found.get(id(var)) for var in instruction.outputs]
        takes = [id(var) in active for var in instruction.inputs]
        if not any(takes) or all(each is None for each in given):
            continue
        slopes = _back(builder, instruction, given, tuple(takes))
        for var, slope in zip(instruction.inputs, slopes, strict=True):
            add(var, slope)
    return [found.get(id(place.ref)) for place in places]


def _active(tape: Sequence[Instruction], places: set[int]) -> set[int]:
    """The variables that depend on ``places`` without a step over whole numbers or truths."""
    active = set(places)
    for instruction in tape:
        if any(id(var) in active for var in instruction.inputs):
            active |= {id(var) for var in instruction.outputs if _is_smooth(var.type)}
    return active


def _is_smooth(kind: Any) -> bool:
    """Whether values of a type can have derivatives; a sequence may hold such."""
    return not isinstance(kind, TensorType) or is_float(kind.dtype) or is_complex(kind.dtype)


def _back(
    builder: Any,
    instruction: Instruction,
    given: Sequence[Tensor | None],
    takes: tuple[bool, ...],
) -> Sequence[Tensor | None]:
    def seen(var: Any) -> Any:
        return None if var is None else Tensor(builder, var)

    step = Step(
        instruction.primitive,
        tuple(map(seen, instruction.inputs)),
        tuple(map(seen, instruction.outputs)),
        instruction.attributes,
        takes,
        instruction.place,
    )
    back = RULES.get(instruction.primitive)
    if back is None:
        raise step.refuse(f"the primitive {instruction.primitive}")
    if any(each is not None and is_complex(each.dtype) for each in step.inputs if _is_tensor(each)):
        raise step.refuse("complex numbers")
    try:
        return back(step, *given)
    except Undetermined as need:
        need.args = (f"{need}, {step.place}",)  # it is the Gradient that will wait
        raise


def _is_tensor(x: Tensor | None) -> bool:
    return x is not None and isinstance(x.type, TensorType)
