"""Which instructions share a kernel: elementwise work behind a product, and rows around their reductions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from burnx.dtype import DType, is_float
from burnx.fusion.expressions import MOVEMENT, dtype_of, shape_of
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape

PRODUCTS = frozenset(("contract", "conv"))
ELEMENTWISE = frozenset(("map", "cast", "bitcast"))
MEMBERS_MOST = (
    64  # of a cluster: its values are expressions of each other, and must not be too deep
)


@dataclass(slots=True, eq=False)
class Cluster:
    """Instructions of one kernel, in order; ``seed`` is the product or the first reduction.

    ``before`` are clusters that run in the same kernel first: the scores and the softmax of attention.
    """

    seed: Instruction
    members: list[Instruction] = field(default_factory=list)
    before: tuple[Cluster, ...] = ()

    @property
    def kind(self) -> str:
        """What writes its kernel."""
        return "attention" if self.before else self.seed.primitive

    @property
    def is_rows(self) -> bool:
        return self.seed.primitive == "reduce"


@dataclass(slots=True)
class Uses:
    """Who makes and who reads each value of a list of instructions; ``kept`` are read from outside as well."""

    instructions: Sequence[Instruction]
    kept: frozenset[Var]
    makers: dict[Var, Instruction] = field(default_factory=dict)
    readers: dict[Var, list[Instruction]] = field(default_factory=dict)
    order: dict[Instruction, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, instruction in enumerate(self.instructions):
            self.order[instruction] = place
            for var in instruction.outputs:
                self.makers[var] = instruction
            for operand in dict.fromkeys(instruction.inputs):
                if operand is not None:
                    self.readers.setdefault(operand, []).append(instruction)

    def read_outside(self, var: Var, members: Iterable[Instruction]) -> bool:
        inside = set(members)
        return var in self.kept or any(each not in inside for each in self.readers.get(var, ()))


def find_clusters(uses: Uses, fuse: bool = True) -> dict[Instruction, Cluster]:
    """The cluster of each instruction that is in one."""
    owners: dict[Instruction, Cluster] = {}
    for wanted in (PRODUCTS, frozenset(("reduce",))):
        for instruction in uses.instructions:
            if instruction.primitive not in wanted or instruction in owners:
                continue
            cluster = Cluster(instruction, [instruction])
            owners[instruction] = cluster
            if fuse and not _is_narrow(instruction):
                _grow(cluster, uses, owners)
                _trim(cluster, uses, owners, _moves)
    return owners


def _is_narrow(instruction: Instruction) -> bool:
    """Whether a product has one column: what follows it is quicker by itself, many elements at a time."""
    return instruction.primitive == "conv" and shape_of(instruction.outputs[0])[1] == 1


def _grow(cluster: Cluster, uses: Uses, owners: dict[Instruction, Cluster]) -> None:
    """Add readers of the cluster's values for as long as they fit and wait for nothing outside that waits for it."""
    fits = _fits_rows if cluster.is_rows else _fits_behind
    spaces: dict[Var, object] = dict.fromkeys(cluster.seed.outputs, "seed")
    queue = [reader for var in cluster.seed.outputs for reader in uses.readers.get(var, ())]
    tried: set[Instruction] = set()
    while queue and len(cluster.members) < MEMBERS_MOST:
        queue.sort(key=uses.order.__getitem__, reverse=True)
        candidate = queue.pop()
        if candidate in owners or candidate in tried:
            continue
        space = fits(candidate, cluster, spaces)
        if space is None or _waits(candidate, cluster, uses, owners):
            tried.add(candidate)
            continue
        owners[candidate] = cluster
        cluster.members.append(candidate)
        spaces[candidate.outputs[0]] = space
        new = uses.readers.get(candidate.outputs[0], ())
        queue.extend(new)
        tried.difference_update(new)
    cluster.members.sort(key=uses.order.__getitem__)


def _waits(
    candidate: Instruction, cluster: Cluster, uses: Uses, owners: Mapping[Instruction, Cluster]
) -> bool:
    """Whether an operand from outside depends on the cluster, other clusters taken as wholes."""
    inside = set(cluster.members)
    first = min(uses.order[each] for each in inside)
    seen: set[Instruction] = set()
    stack = [
        maker
        for var in candidate.inputs
        if var is not None and (maker := uses.makers.get(var)) is not None and maker not in inside
    ]
    while stack:
        instruction = stack.pop()
        if instruction in seen:
            continue
        unit = owners[instruction].members if instruction in owners else [instruction]
        seen.update(unit)
        if max(uses.order[each] for each in unit) < first:
            continue
        for each in unit:
            for var in each.inputs:
                maker = uses.makers.get(var) if var is not None else None
                if maker in inside:
                    return True
                if maker is not None and maker not in seen:
                    stack.append(maker)
    return False


def _trim(
    cluster: Cluster,
    uses: Uses,
    owners: dict[Instruction, Cluster],
    is_spare: Callable[[Instruction], bool],
) -> None:
    """Leave out what is spare at the ends: whoever reads it can do that by itself."""
    while True:
        ends = [
            each
            for each in cluster.members
            if each is not cluster.seed
            and is_spare(each)
            and each.outputs[0] not in uses.kept
            and not any(owners.get(r) is cluster for r in uses.readers.get(each.outputs[0], ()))
        ]
        if not ends:
            return
        for each in ends:
            cluster.members.remove(each)
            del owners[each]


def _moves(instruction: Instruction) -> bool:
    return instruction.primitive in MOVEMENT


def trim_widened(uses: Uses, owners: dict[Instruction, Cluster], narrow: Collection[DType]) -> None:
    """Leave out what is only widened at the ends of products and rows: it is read as the narrow one that it was."""
    for cluster in dict.fromkeys(owners.values()):
        if not cluster.before:
            _trim(cluster, uses, owners, lambda each: _moves(each) or is_widened(each, narrow))


def is_widened(instruction: Instruction, narrow: Collection[DType]) -> bool:
    """Whether it only makes one of the ``narrow`` floats wider."""
    if instruction.primitive != "cast":
        return False
    (source,) = instruction.inputs
    assert source is not None
    before, after = dtype_of(source), dtype_of(instruction.outputs[0])
    return before in narrow and is_float(after) and after.itemsize > before.itemsize


def _member_operands(candidate: Instruction, spaces: Mapping[Var, object]) -> list[Var]:
    return [var for var in candidate.inputs if var is not None and var in spaces]


def _fits_behind(
    candidate: Instruction, cluster: Cluster, spaces: Mapping[Var, object]
) -> object | None:
    """The space of the candidate's result behind a product: how its elements were moved since."""
    operands = _member_operands(candidate, spaces)
    if candidate.primitive in ELEMENTWISE:
        found = {spaces[var] for var in operands}
        return found.pop() if len(found) == 1 else None
    if candidate.primitive in ("reshape", "transpose"):
        detail = candidate.attributes.get("perm") or shape_of(candidate.outputs[0])
        return (spaces[operands[0]], candidate.primitive, detail)
    return None


def row_shape(seed: Instruction) -> tuple[Shape, tuple[int, ...]]:
    """The shape that a reduction reads, and the axes it reduces."""
    source = seed.inputs[0]
    assert source is not None
    rank = len(shape_of(source))
    return shape_of(source), tuple(sorted(axis % rank for axis in seed.attributes["axes"]))


def without_ones(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def _fits_rows(
    candidate: Instruction, cluster: Cluster, spaces: Mapping[Var, object]
) -> object | None:
    """ "rows" for a value per row, "full" for one per element, None if it is neither."""
    full, axes = row_shape(cluster.seed)
    kept = tuple(size for axis, size in enumerate(full) if axis not in axes)
    shape = shape_of(candidate.outputs[0])
    operands = _member_operands(candidate, spaces)
    found = {"rows" if spaces[var] == "seed" else spaces[var] for var in operands}
    if len(found) != 1:
        return None
    (space,) = found
    if candidate.primitive in ELEMENTWISE:
        return space
    if candidate.primitive == "reshape" and space == "rows":
        return space if without_ones(shape) == without_ones(kept) else None
    if candidate.primitive == "broadcast" and space == "rows":
        source = shape_of(operands[0])
        aligned = _keeps_axes(source, full, axes)
        return "full" if shape == full and aligned else None
    if candidate.primitive == "reduce" and space == "full":
        return "rows" if row_shape(candidate) == (full, axes) else None
    return None


def _keeps_axes(source: Shape, full: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a per-row value has 1 in place of each reduced axis."""
    lead: tuple[Dim, ...] = (1,) * (len(full) - len(source))
    wide = (*lead, *source)
    return all(size == 1 if axis in axes else size == full[axis] for axis, size in enumerate(wide))
