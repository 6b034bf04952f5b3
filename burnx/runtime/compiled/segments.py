"""A program cut into runs of instructions that become native code, and those that Python carries out between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burnx.dtype import is_complex, is_low_precision, string
from burnx.fusion.compaction import count_first
from burnx.fusion.expressions import VIRTUAL
from burnx.fusion.folding import fold
from burnx.fusion.quantized import as_bytes
from burnx.fusion.scheduler import WRITERS
from burnx.fusion.sorting import COUNTED_MOST
from burnx.program import Instruction, Program, Var
from burnx.shape import symbols
from burnx.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Instructions that become native code.  ``inputs`` come from outside, ``outputs`` are needed there."""

    instructions: tuple[Instruction, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]


Unit = Segment | Instruction


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The units of a program in order; ``folded`` are values that turned out to be constants."""

    units: tuple[Unit, ...]
    folded: dict[Var, Var]


def cut(program: Program, bytewise: bool = False, spread: bool = False) -> Cut:
    """The units of a program; ``bytewise``: products of what was quantized are worth being those of bytes.

    ``spread``: there are many threads, so rows of any length are worth being sorted by kernels, and searched.
    """
    folded: dict[Var, Var] = {}
    instructions: Sequence[Instruction] = program.instructions
    if bytewise:
        instructions = as_bytes(instructions, program.outputs)
    if spread:
        instructions = count_first(instructions)
    instructions = _keys_first(fold(instructions, folded, program.outputs))
    kept = {folded.get(var, var) for var in program.outputs}
    units: list[Unit] = [
        run if isinstance(run, Instruction) else Segment(tuple(run), (), ())
        for run in _runs(instructions, spread)
    ]
    return Cut(tuple(_linked(units, kept)), folded)


def _keys_first(instructions: Sequence[Instruction]) -> list[Instruction]:
    """What random numbers are drawn with reads nothing: at the beginning it divides no run."""
    return sorted(instructions, key=lambda each: each.primitive != "draw_key")


def _runs(
    instructions: Sequence[Instruction], spread: bool
) -> Iterator[list[Instruction] | Instruction]:
    run: list[Instruction] = []
    for instruction in instructions:
        if is_native(instruction, spread):
            run.append(instruction)
            continue
        if run:
            yield run
        run = []
        yield instruction
    if run:
        yield run


def is_native(instruction: Instruction, spread: bool) -> bool:
    """Whether the compiler has kernels for an instruction; ``spread`` is what ``cut`` is given."""
    from burnx.fusion import writers  # noqa: F401  (registers the writers)

    name = instruction.primitive
    if name not in WRITERS and name not in VIRTUAL:
        return False
    values = [var for var in (*instruction.inputs, *instruction.outputs) if var is not None]
    if not all(_has_native_type(var) for var in values):
        return False
    if name == "conv" and not _has_known_kernel(instruction):
        return False
    if name == "sort" and not spread and not _is_short(instruction):
        return False
    if name in ("cond", "loop"):
        return not instruction.binds and _has_native_bodies(instruction, spread)
    combined = instruction.attributes.get("reduction", "none") != "none"
    return not (combined and is_low_precision(values[0].type.dtype))  # type: ignore[union-attr]


def _has_known_kernel(conv: Instruction) -> bool:
    """A convolution over spread data is taken apart by its kernel's size, and margins are numbers."""
    if not all(isinstance(size, int) for pair in conv.attributes["pads"] for size in pair):
        return False
    if all(step == 1 for step in conv.attributes["spread"]):
        return True
    kind = conv.inputs[1].type if conv.inputs[1] is not None else None
    return isinstance(kind, TensorType) and all(isinstance(dim, int) for dim in kind.shape or ())


def _is_short(sort: Instruction) -> bool:
    """Whether so few elements are sorted that their places are counted."""
    kind = sort.outputs[0].type
    assert isinstance(kind, TensorType) and kind.shape is not None
    length = kind.shape[sort.attributes["axis"]]
    return isinstance(length, int) and length <= COUNTED_MOST


def _has_native_bodies(instruction: Instruction, spread: bool) -> bool:
    """Whether all inside is native and no shape changes from turn to turn or from branch to branch."""
    given = instruction.attributes
    programs: Sequence[Program] = given["programs"] if "programs" in given else (given["program"],)
    for program in programs:
        if not all(is_native(each, spread) and not each.binds for each in program.instructions):
            return False
        if not all(_has_native_type(var) for var in (*program.inputs, *program.outputs)):
            return False
        if instruction.primitive == "cond" and not _same_types(
            program.outputs, instruction.outputs
        ):
            return False
        if instruction.primitive == "loop" and not _keeps_types(instruction, program):
            return False
    return True


def _keeps_types(loop: Instruction, program: Program) -> bool:
    count = len(program.inputs) - 2
    carried = loop.inputs[2 : 2 + count]
    if any(var is None for var in carried):
        return False
    outputs = program.outputs[1 : 1 + count]
    stacked = zip(program.outputs[1 + count :], loop.outputs[count:], strict=True)
    return (
        _same_types(program.inputs[2:], carried)  # type: ignore[arg-type]
        and _same_types(outputs, carried)  # type: ignore[arg-type]
        and all(_stacks(item, whole) for item, whole in stacked)
        and not _free_symbols(loop, program)
    )


def _free_symbols(loop: Instruction, program: Program) -> bool:
    """Whether the body binds sizes of its own."""
    own = {
        n
        for var in program.inputs[2:]
        if isinstance(var.type, TensorType)
        for d in var.type.shape or ()
        for n in symbols(d)
    }
    around = {
        n
        for var in loop.inputs
        if var is not None and isinstance(var.type, TensorType)
        for d in var.type.shape or ()
        for n in symbols(d)
    }
    return not own <= around


def _stacks(item: Var, whole: Var) -> bool:
    one, two = item.type, whole.type
    assert isinstance(one, TensorType) and isinstance(two, TensorType)
    return one.shape is not None and two.shape is not None and two.shape[1:] == one.shape


def _same_types(left: Sequence[Var], right: Sequence[Var]) -> bool:
    return all(one.type == two.type for one, two in zip(left, right, strict=True))


def _has_native_type(var: Var) -> bool:
    kind = var.type
    if not isinstance(kind, TensorType) or kind.shape is None:
        return False
    return kind.dtype != string and not is_complex(kind.dtype)


def _linked(units: list[Unit], kept: set[Var]) -> Iterator[Unit]:
    """Units whose segments know what they take and give."""
    needed = set(kept)
    linked: list[Unit] = []
    for unit in reversed(units):
        members = (unit,) if isinstance(unit, Instruction) else unit.instructions
        made = {var for each in members for var in each.outputs}
        if isinstance(unit, Segment):
            outputs = tuple(var for var in made if var in needed)
            read = [var for each in members for var in each.inputs if var is not None]
            inputs = tuple(dict.fromkeys(v for v in read if v not in made and v.array is None))
            unit = Segment(members, inputs, _in_order(outputs, members))
        needed |= {var for each in members for var in each.inputs if var is not None}
        linked.append(unit)
    return reversed(linked)


def _in_order(outputs: Sequence[Var], members: Sequence[Instruction]) -> tuple[Var, ...]:
    wanted = set(outputs)
    return tuple(var for each in members for var in each.outputs if var in wanted)
