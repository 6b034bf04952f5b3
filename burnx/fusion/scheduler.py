"""Decides which values lie in memory and writes the kernels that put them there.

Start reading here.  ``schedule`` walks the instructions in order.  Products and reductions take what can run with them
into one kernel (``clusters.py``); what is left is worked out where it is read (``expressions.py``), unless it is costly
and read by several kernels: then it is a root and lies in memory, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from burnx.dtype import DType
from burnx.fusion.clusters import Cluster, Uses, find_clusters, is_widened, trim_widened
from burnx.fusion.expressions import MOVEMENT, VIRTUAL, Expressions, dtype_of, shape_of
from burnx.fusion.finishing import finish
from burnx.fusion.homes import find_homes
from burnx.fusion.margins import Margin, find_margins, without_padding
from burnx.fusion.orders import natural_order
from burnx.fusion.storage import Order, Schedule, Step, Storage
from burnx.fusion.weights import Derive, make_anew
from burnx.kernels.ir import Statement
from burnx.kernels.winograd import Scheme
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape, product


@dataclass(frozen=True, slots=True)
class Traits:
    """What the device wishes: ``lanes`` float32 elements at a time; the packing of a product's right side,
    by the dtypes of left and right and of the sums, and the columns.

    ``winograd``: whether convolutions may be transformed; ``scheme`` says how, by the height and width of the result, the
    channels and the outputs, None where nobody wishes anything.  ``narrow``: the low-precision floats that products read as
    they are, although they are added up in float32.  ``spread``: there are many threads, so loops whose turns are free of
    each other are worth being divided, even if others then run inside of them.  ``derive`` gives a constant that is laid
    out for a product; ``note`` is told of every step, of those too that are thrown away when clusters are taken apart.
    """

    lanes: int = 8
    packing: Callable[[DType, DType, DType, int], str] = lambda left, right, sums, columns: ""
    fuse: bool = True
    winograd: bool = True
    scheme: Callable[[int, int, int, int], Scheme | None] | None = None
    narrow: frozenset[DType] = frozenset()
    spread: bool = False
    derive: Derive = make_anew
    note: Callable[[Step], None] = lambda step: None


class Misfit(Exception):
    """A cluster that cannot be written as one kernel."""


Write = Callable[["Scheduler", Instruction], None]
WRITERS: dict[str, Write] = {}  # primitives that have kernels of their own


def writer(*primitives: str) -> Callable[[Write], Write]:
    """Register how the steps of a primitive are written."""

    def register(write: Write) -> Write:
        for name in primitives:
            WRITERS[name] = write
        return write

    return register


@dataclass(slots=True)
class Scheduler:
    """The state of scheduling one list of instructions."""

    uses: Uses
    traits: Traits
    owners: dict[Instruction, Cluster]
    roots: set[Var] = field(default_factory=set)
    outputs: frozenset[Var] = frozenset()
    margins: Mapping[Var, Margin] = field(default_factory=dict)
    homes: Mapping[Var, tuple[Var, tuple[Dim, ...]]] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    done: set[Instruction] = field(default_factory=set)
    copies: dict[tuple[Var, object], Storage] = field(default_factory=dict)
    parent: Scheduler | None = None  # of the instructions around a loop's or a branch's
    near: str = ""  # the place of what is written just now

    @property
    def memory(self) -> dict[Var, Storage]:
        return self.schedule.memory

    # --- where values lie -------------------------------------------------------------------------------------------

    def storage(self, var: Var) -> Storage | None:
        """Where a value lies; None if it is worked out where it is read."""
        found = self.memory.get(var)
        maker = self.uses.makers.get(var)
        if found is not None and (maker is None or maker in self.done):
            return found
        if maker is None:
            return self._outside(var)
        if self.is_virtual(var):
            return None
        self.emit(maker)
        return self.memory[var]

    def is_virtual(self, var: Var) -> bool:
        maker = self.uses.makers.get(var)
        return (
            maker is not None
            and maker not in self.owners
            and maker.primitive in VIRTUAL
            and var not in self.roots
            and var not in self.memory
        )

    def in_memory(self, var: Var) -> Storage:
        """Where a value lies, after putting it there if need be."""
        found = self.storage(var)
        if found is None:
            self.roots.add(var)
            self.emit(self.uses.makers[var])
            found = self.memory[var]
        return found

    def _outside(self, var: Var) -> Storage:
        if self.parent is not None:
            return self.parent.in_memory(var)
        role = "input" if var.array is None else "constant"
        storage = Storage(dtype_of(var), shape_of(var), role, array=var.array)
        self.memory[var] = storage
        return storage

    def allocate(self, var: Var, order: Order | None = None) -> Storage:
        """New memory for a value."""
        home = self._home(var, order)
        if var in self.outputs:
            storage = Storage(dtype_of(var), shape_of(var), "output")
        elif home is not None:
            storage = home
        else:
            margin = self.margins.get(var) or Margin(())
            chosen = order if order is not None else natural_order(self, var)
            storage = Storage(
                dtype_of(var),
                shape_of(var),
                order=chosen,
                margin=margin.widths,
                fill=margin.fill,
            )
        self.memory[var] = storage
        return storage

    def _home(self, var: Var, order: Order | None) -> Storage | None:
        """The part of a concatenation's memory that a value belongs into, if it would lie in the same order."""
        if var not in self.homes or var in self.margins:
            return None
        whole, start = self.homes[var]
        storage = self.memory.get(whole) or self.allocate(whole)
        wanted = order if order is not None else natural_order(self, var)
        if wanted != storage.order or storage.margin:
            return None
        return Storage(
            storage.dtype, shape_of(var), storage.role, storage.order, within=storage, start=start
        )

    def scratch(self, dtype: DType, shape: Shape) -> Storage:
        """Memory of one worker."""
        return Storage(dtype, shape, "scratch")

    # --- steps ------------------------------------------------------------------------------------------------------

    def expressions(self, members: Iterable[Instruction] = ()) -> Expressions:
        """Builds a kernel's values; those of ``members`` are worked out in the kernel itself."""
        inside = set(members)

        def find(var: Var) -> Storage | None:
            if self.uses.makers.get(var) in inside:
                return None
            return self.storage(var)

        return Expressions(self.uses.makers, find)

    def step(
        self,
        at: Expressions,
        body: Sequence[Statement],
        writes: Iterable[Storage],
        work: Dim,
    ) -> None:
        """Add a kernel to the schedule, for what is written just now."""
        kernel, sizes = finish(tuple(body), at.buffers.values(), at.lookups)
        step = Step(kernel, tuple(at.buffers), sizes, frozenset(writes), work, self.near)
        self.schedule.steps.append(step)
        self.traits.note(step)

    def emit(self, instruction: Instruction) -> None:
        """Write the steps that make an instruction's outputs, unless they are there."""
        if instruction in self.done:
            return
        cluster = self.owners.get(instruction)
        self.done.update(cluster.members if cluster is not None else [instruction])
        around = self.near
        self.near = (instruction if cluster is None else cluster.seed).place or around
        if cluster is not None:
            WRITERS[cluster.kind](self, cluster.seed)
        elif instruction.primitive in WRITERS:
            WRITERS[instruction.primitive](self, instruction)
        else:
            WRITERS["map"](self, instruction)
        self.near = around

    def exported(self, cluster: Cluster) -> list[Var]:
        """The values of a cluster that are read outside of it."""
        return [
            var
            for each in cluster.members
            for var in each.outputs
            if self.uses.read_outside(var, cluster.members)
        ]


def find_roots(
    uses: Uses, owners: Mapping[Instruction, Cluster], narrow: Collection[DType] = ()
) -> set[Var]:
    """Costly values that several kernels read, or that are read more often than they have elements.

    What is widened from one of the ``narrow`` dtypes is read in that one: it is half of the bytes.
    """
    roots = {var for var in uses.kept if var in uses.makers}
    targets: dict[Var, frozenset[object]] = {}
    for instruction in reversed(uses.instructions):
        for var in instruction.outputs:
            found: set[object] = set()
            for reader in uses.readers.get(var, ()):
                if reader in owners:
                    found.add(owners[reader])
                elif reader.primitive in VIRTUAL and reader.outputs[0] not in roots:
                    found |= targets[reader.outputs[0]]
                else:
                    found.add(reader)
            targets[var] = frozenset(found)
            if is_widened(instruction, narrow) or not _is_costly(instruction):
                continue
            if len(found) > 1 or _is_spread(var, uses, owners):
                roots.add(var)
    return roots | _find_deep(uses, owners, roots)


DEEPEST = 64  # instructions one behind the other that are worked out in one expression


def _find_deep(
    uses: Uses, owners: Mapping[Instruction, Cluster], roots: Collection[Var]
) -> set[Var]:
    """Values that are too far from memory: whoever reads an expression goes as deep as it is."""
    deep: set[Var] = set()
    depths: dict[Var, int] = {}
    for instruction in uses.instructions:
        if instruction in owners or instruction.primitive not in VIRTUAL:
            continue
        var = instruction.outputs[0]
        depth = 1 + max((depths.get(each, 0) for each in instruction.inputs if each), default=0)
        if depth >= (DEEPEST if _is_costly(instruction) else 2 * DEEPEST):
            deep.add(var)
        depths[var] = 0 if var in roots or var in deep else depth
    return deep


def _is_costly(instruction: Instruction) -> bool:
    return instruction.primitive in VIRTUAL and instruction.primitive not in MOVEMENT


def _is_spread(var: Var, uses: Uses, owners: Mapping[Instruction, Cluster]) -> bool:
    """Whether a value is read through a broadcast that repeats it."""
    size = product(shape_of(var))
    if size == 1 and all(dim == 1 for dim in shape_of(var)):
        maker = uses.makers[var]
        return maker.primitive == "map" and any(each is not None for each in maker.inputs)
    stack = list(uses.readers.get(var, ()))
    while stack:
        reader = stack.pop()
        if reader.primitive == "broadcast" and product(shape_of(reader.outputs[0])) != size:
            return True
        if reader.primitive in MOVEMENT and reader not in owners:
            stack.extend(uses.readers.get(reader.outputs[0], ()))
    return False


def schedule(
    instructions: Sequence[Instruction],
    kept: frozenset[Var],
    outputs: frozenset[Var],
    traits: Traits,
) -> Schedule:
    """The steps for instructions; ``kept`` values are needed afterwards, ``outputs`` among them by the caller."""
    from burnx.fusion import writers  # noqa: F401  (registers the writers)

    made = _schedule(instructions, kept, Scheduler(Uses((), kept), traits, {}, outputs=outputs))
    return made.schedule


def schedule_inner(
    parent: Scheduler,
    instructions: Sequence[Instruction],
    outputs: Sequence[Var],
    memory: Mapping[Var, Storage],
) -> Scheduler:
    """The steps of a loop's or branch's instructions; ``memory`` says where its inputs lie."""
    empty = Uses((), frozenset(outputs))
    start = Scheduler(
        empty,
        parent.traits,
        {},
        parent=parent,
        schedule=Schedule([], dict(memory)),
        near=parent.near,
    )
    return _schedule(instructions, frozenset(outputs), start)


def _schedule(
    instructions: Sequence[Instruction], kept: frozenset[Var], start: Scheduler
) -> Scheduler:
    from burnx.fusion.attention import find_attention

    traits, uses = start.traits, Uses(instructions, kept)
    if traits.fuse:
        instructions = without_padding(uses)
        uses = Uses(instructions, kept)
    owners = find_clusters(uses, traits.fuse)
    if traits.fuse:
        find_attention(uses, owners)
        trim_widened(uses, owners, traits.narrow)
    margins = find_margins(uses)
    while True:
        roots = find_roots(uses, owners, traits.narrow)
        if not traits.fuse:
            roots |= {var for each in instructions for var in each.outputs if _is_costly(each)}
        memory = Schedule([], dict(start.memory))
        made = replace(
            start,
            uses=uses,
            owners=dict(owners),
            roots=roots,
            margins=margins,
            homes=find_homes(uses, owners, roots) if traits.fuse else {},
            schedule=memory,
            done=set(),
            copies={},
        )
        try:
            for instruction in instructions:
                if not made.is_virtual(instruction.outputs[0]):
                    made.emit(instruction)
            return made
        except _Dissolved as found:
            if found.cluster not in owners.values():
                raise
            _take_apart(found.cluster, owners)


def _take_apart(cluster: Cluster, owners: dict[Instruction, Cluster]) -> None:
    """Attention becomes its three clusters again, another cluster its seed and its other reductions alone."""
    for part in cluster.before:
        for member in part.members:
            owners[member] = part
            cluster.members.remove(member)
    if not cluster.before:
        for member in cluster.members[:]:
            if member is cluster.seed:
                continue
            del owners[member]
            cluster.members.remove(member)
            if member.primitive == "reduce":
                owners[member] = Cluster(member, [member])
    cluster.before = ()


class _Dissolved(Exception):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster


def dissolve(cluster: Cluster) -> None:
    """Start again with the cluster taken apart.

    Raises: Misfit if only its seed is left.
    """
    if len(cluster.members) == 1:
        raise Misfit(f"no kernel for {cluster.seed.primitive} {cluster.seed.place}")
    raise _Dissolved(cluster)
