"""Where the elements are that are not zero: counted up to each element, then looked for, all of them at once.

How many they are is the one thing that the host has to know, for it is a size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from burnx.dtype import bool_, int64, is_complex, string
from burnx.fusion.expressions import shape_of
from burnx.fusion.finishing import SHORT
from burnx.fusion.scheduler import Scheduler, writer
from burnx.fusion.searching import Integers, binary_search
from burnx.kernels.ir import Apply, Constant, Position, Statement, Store, Value, in_loops
from burnx.program import Binding, Instruction, Var
from burnx.shape import Dim, product, symbol
from burnx.types import TensorType

_MOST_TURNS = 40  # of a search among a number of elements that is not known yet


def count_first(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Instructions in which each ``nonzero`` is a running count, a size that the host reads, and a search."""
    return [part for each in instructions for part in _parts_of(each)]


def _parts_of(instruction: Instruction) -> Iterator[Instruction]:
    kind = instruction.inputs[0].type if instruction.inputs and instruction.inputs[0] else None
    wanted = instruction.primitive == "nonzero" and len(instruction.binds) == 1
    if not wanted or not isinstance(kind, TensorType) or not kind.shape:
        yield instruction
        return
    if kind.dtype == string or is_complex(kind.dtype):
        yield instruction
        return
    total = product(kind.shape)

    def made(
        primitive: str, given: tuple[Var | None, ...], type_: TensorType, **more: object
    ) -> Var:
        made_of.append(Instruction(primitive, given, (Var(type_),), more, instruction.place))
        return made_of[-1].outputs[0]

    made_of: list[Instruction] = []
    found = made("cast", instruction.inputs, TensorType(bool_, kind.shape), dtype=bool_)
    ones = made("cast", (found,), TensorType(int64, kind.shape), dtype=int64)
    row = made("reshape", (ones,), TensorType(int64, (total,)), shape=(total,))
    steps = {"function": "sum", "axis": 0, "reverse": False, "exclusive": False}
    counts = made("cumulate", (row,), TensorType(int64, (total,)), **steps)
    count = made("reduce", (row,), TensorType(int64, ()), function="sum", axes=(0,))
    name = instruction.binds[0].name
    view = Var(TensorType(bool_, (symbol(name),)))
    bound = (Binding(name, 0, 0),)
    yield from made_of
    yield Instruction("size_of", (count,), (view,), {}, instruction.place, bound)
    shape = {"shape": kind.shape}
    yield Instruction("compact", (counts, view), instruction.outputs, shape, instruction.place)


@writer("compact")
def write_compact(scheduler: Scheduler, instruction: Instruction) -> None:
    """Each place is looked for by itself: the first one up to which there are more than come before it."""
    source, (var,) = instruction.inputs[0], instruction.outputs
    assert source is not None
    counts, storage = scheduler.in_memory(source), scheduler.allocate(var)
    (total,), (_, many) = shape_of(source), shape_of(var)
    at = scheduler.expressions()
    place = at.variable(many)
    own = Position(place, int64)

    def comes(found: Dim) -> Value:
        return Apply("le", (at.load(counts, (found,)), own), bool_)

    turns = max(total.bit_length(), SHORT + 1) if isinstance(total, int) else _MOST_TURNS
    work = Integers(at, int64)
    within = (Constant(0, int64), Position(total, int64), total)
    carry, found = binary_search(work, within, turns, comes)
    body: list[Statement] = [carry]
    shape = instruction.attributes["shape"]
    for axis, size in enumerate(shape):
        inner = product(shape[axis + 1 :])
        part: Value = found
        if inner != 1:
            part = Apply("div", (part, Position(inner, int64)), int64)
        if axis:
            part = Apply("trunc_mod", (part, Position(size, int64)), int64)
        body.append(Store(at.buffer(storage), at.place(storage, (axis, place)), part))
    nested = in_loops([(str(place), many)], body, parallel=True)
    scheduler.step(at, nested, [storage], many * 4 * turns)
