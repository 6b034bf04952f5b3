"""Attention as one kernel: a strip of rows of scores at a time, in a worker's scratch memory.

Scores, softmax and the weighted sum run one after the other on the strip, so the matrix of scores is never stored.
Masks, scales and what else lies between are part of the clusters that are joined here.
"""

from __future__ import annotations

from dataclasses import dataclass

from burnx.dtype import DType
from burnx.fusion.behind import Behind, write_behind
from burnx.fusion.clusters import Cluster, Uses, row_shape
from burnx.fusion.expressions import Expressions, Index, dtype_of, shape_of
from burnx.fusion.indices import reshaped
from burnx.fusion.products import (
    Operand,
    accumulating,
    at_least_one,
    index_of,
    lanes_of,
    loops_of,
    sides,
    strided,
    variables,
)
from burnx.fusion.rows import Rows, nested, write_member
from burnx.fusion.scaling import scaled, widened_from
from burnx.fusion.scheduler import Scheduler, dissolve, writer
from burnx.fusion.storage import Storage
from burnx.kernels.ir import Contract, Load, Local, Loop, Statement, Store, in_loops
from burnx.program import Instruction, Var
from burnx.shape import Dim, minimum, product, substitute, symbols

STRIP = 24  # rows of scores that a worker holds
Loops = list[tuple[str, Dim]]


def find_attention(uses: Uses, owners: dict[Instruction, Cluster]) -> None:
    """Join the clusters of scores, softmax and weighted sum where nothing else reads what is between."""
    for cluster in dict.fromkeys(owners.values()):
        if cluster.seed.primitive != "contract" or cluster.before:
            continue
        found = _parts(uses, owners, cluster)
        if found is not None:
            cluster.before = found
            for part in found:
                cluster.members = [*part.members, *cluster.members]
            cluster.members.sort(key=uses.order.__getitem__)
            for member in cluster.members:
                owners[member] = cluster


def _parts(
    uses: Uses, owners: dict[Instruction, Cluster], cluster: Cluster
) -> tuple[Cluster, Cluster] | None:
    """(scores, rows) of the attention that a product ends, if it is one."""
    left, right = sides(cluster.seed)
    if left.var.array is not None or right.var.array is not None:
        return None
    weights = _through_reshapes(uses, left.var)
    rows = owners.get(uses.makers.get(weights, cluster.seed))
    if rows is None or not rows.is_rows or len(left.inner) != 1 or len(left.free) != 1:
        return None
    full, axes = row_shape(rows.seed)
    if (
        axes != (len(full) - 1,)
        or shape_of(weights) != full
        or left.inner[0] != len(left.shape) - 1
    ):
        return None
    if _exported(uses, rows) != [weights] or not _read_only_by(uses, weights, left.var, cluster):
        return None
    source = rows.seed.inputs[0]
    if source is None or source not in uses.makers or source in uses.kept:
        return None
    scores = owners.get(uses.makers[source])
    if scores is None or scores.seed.primitive != "contract" or scores.before:
        return None
    one, two = sides(scores.seed)
    if _exported(uses, scores) != [source] or len(one.free) != 1 or len(two.free) != 1:
        return None
    if one.var.array is not None or two.var.array is not None:
        return None
    if len(right.free) != 1:
        return None
    inside = all(owners.get(each) is rows for each in uses.readers.get(source, ()))
    return (scores, rows) if inside and one.shape[one.free[0]] == left.shape[left.free[0]] else None


def _through_reshapes(uses: Uses, var: Var) -> Var:
    maker = uses.makers.get(var)
    while maker is not None and maker.primitive == "reshape" and maker.inputs[0] is not None:
        var = maker.inputs[0]
        maker = uses.makers.get(var)
    return var


def _read_only_by(uses: Uses, weights: Var, last: Var, cluster: Cluster) -> bool:
    """Whether reshapes lead from ``weights`` to ``last`` and the product, and nowhere else."""
    var = last
    while True:
        readers = uses.readers.get(var, [])
        if len(readers) != 1 or var in uses.kept:
            return False
        if var is weights:
            return True
        source = uses.makers[var].inputs[0]
        if source is None:
            return False
        var = source


def _exported(uses: Uses, cluster: Cluster) -> list[Var]:
    return [
        var
        for each in cluster.members
        for var in each.outputs
        if uses.read_outside(var, cluster.members)
    ]


@dataclass(slots=True)
class _Strip:
    """What the stages of one kernel share: its loops, and the rows of scores."""

    scheduler: Scheduler
    at: Expressions
    batch: list[Dim]
    row: Dim  # of the whole
    inside: Dim  # of the strip
    height: Dim
    scores: Storage

    def stored(self, *operands: Operand) -> DType:
        """The dtype that operands are read in: a narrow one that all are, or are widened from."""
        found = {widened_from(self.scheduler, side.var) for side in operands}
        dtype = found.pop() if len(found) == 1 else None
        return dtype if dtype in self.scheduler.traits.narrow else self.scores.dtype

    def held(self, inside: Dim, column: Dim) -> Load:
        return self.at.load(self.scores, (inside, column))


@writer("attention")
def write_attention(scheduler: Scheduler, seed: Instruction) -> None:
    """The step of an attention; its parts are written by themselves where they do not fit together."""
    cluster = scheduler.owners[seed]
    try:
        _write(scheduler, cluster)
    except KeyError:
        dissolve(cluster)


def _write(scheduler: Scheduler, cluster: Cluster) -> None:
    first, rows = cluster.before
    one, two = sides(first.seed)
    at = scheduler.expressions(cluster.members)
    batch = variables(at, one.shape, one.batch)
    count = one.shape[one.free[0]]
    strip_rows = _strip_rows(count)
    blocks = (count + strip_rows - 1) // strip_rows
    block = at.variable(blocks)
    height = minimum(strip_rows, count - block * strip_rows)
    inside = at.variable(height)
    at.ranges[str(inside)] = strip_rows
    row = inside if blocks == 1 else block * strip_rows + inside
    sums = accumulating(dtype_of(one.var), first.seed.attributes["dtype"])
    scores = scheduler.scratch(sums, (strip_rows, two.shape[two.free[0]]))
    strip = _Strip(scheduler, at, batch, row, inside, height, scores)
    scored, index, column = _score(strip, first, one, two)
    softened = _soften(strip, rows, index, column)
    (weights,) = scheduler.exported(rows)
    last = Cluster(cluster.seed, _own_members(cluster))
    summed, writes = _gather(strip, last, index, weights)
    body: list[Statement] = [scored, *softened, summed]
    loops = [*loops_of(at, batch), (str(block), at.ranges[str(block)])]
    work = product((*one.shape, two.shape[two.free[0]])) * 2
    scheduler.step(at, in_loops(loops, body, parallel=True), writes, work)


def _strip_rows(count: Dim) -> int:
    """Rows of a strip, so that strips are about equal."""
    if not isinstance(count, int) or count == 0:
        return STRIP
    strips = -(-count // STRIP)
    return -(-count // strips)


def _own_members(cluster: Cluster) -> list[Instruction]:
    before = {member for part in cluster.before for member in part.members}
    return [member for member in cluster.members if member not in before]


def _score(
    strip: _Strip, first: Cluster, one: Operand, two: Operand
) -> tuple[Statement, Index, Dim]:
    """(the contraction that fills the strip, the index of a score as the softmax reads it, its column)."""
    at, sums = strip.at, strip.scores.dtype
    inner = variables(at, one.shape, one.inner)
    column = at.variable(two.shape[two.free[0]])
    factors: list[float] = []
    stored = strip.stored(one, two)
    left = strided(
        strip.scheduler,
        at,
        one.var,
        index_of(one, strip.batch, [strip.row], inner),
        stored,
        factors=factors,
    )
    index = index_of(two, strip.batch, [column], inner)
    right = lanes_of(strip.scheduler, at, two, index, stored, factors)
    name = at.name("p")

    def hold(made: Behind, var: Var) -> None:
        place = at.place(strip.scores, (strip.inside, column))
        made.body.append(Store(at.buffer(strip.scores), place, made.values[var]))

    index = (*strip.batch, strip.row, column)
    total = scaled(name, sums, factors)
    behind = write_behind(strip.scheduler, at, first, total, index, (), hold)
    (exported,) = strip.scheduler.exported(first)
    if behind.values[exported].dtype != sums:
        raise KeyError(exported)
    loops = at_least_one(at, loops_of(at, inner))
    rows = ((str(strip.inside), strip.height),)
    statement = Contract(
        name,
        rows,
        (str(column), at.ranges[str(column)]),
        loops,
        left,
        right,
        sums,
        tuple(behind.body),
    )
    return statement, behind.indices[exported], column


def _soften(strip: _Strip, cluster: Cluster, index: Index, column: Dim) -> list[Statement]:
    """The rows of the strip, from scores to weights."""
    full, axes = row_shape(cluster.seed)
    if index[-1] != column or any(symbols(each) & symbols(column) for each in index[:-1]):
        raise KeyError(index)
    row = {axis: index[axis] for axis in range(len(full) - 1)}
    rows = Rows(strip.scheduler, cluster, strip.at, full, axes, row, True)
    source = cluster.seed.inputs[0]
    (weights,) = strip.scheduler.exported(cluster)
    assert source is not None
    rows.kept[source] = lambda place: strip.held(strip.inside, place[0])
    for member in cluster.members:
        write_member(rows, member, [])
    loops, place = rows.element()
    value = strip.at.value(weights, place)
    spot = strip.at.place(strip.scores, (strip.inside, place[-1]))
    store = Store(strip.at.buffer(strip.scores), spot, value)
    rows.body.extend(nested(loops, [store], True))
    return [Loop(str(strip.inside), strip.height, tuple(rows.body))]


def _gather(
    strip: _Strip, last: Cluster, index: Index, weights: Var
) -> tuple[Statement, list[Storage]]:
    """The contraction of weights and values, and what it writes."""
    at, scheduler, sums = strip.at, strip.scheduler, strip.scores.dtype
    left, right = sides(last.seed)
    inner = at.variable(left.shape[left.inner[0]])
    # as one variable the row is known to stay below its extent
    row = at.variable(left.shape[left.free[0]])
    opened = {str(strip.inside): row - (strip.row - strip.inside)}
    whole = [substitute(each, opened) for each in index[:-1]]
    place = _followed(scheduler.uses, weights, left.var, (*whole, inner), at)
    batch = [substitute(place[axis], {str(row): strip.row}) for axis in left.batch]
    if place[left.free[0]] != row or place[left.inner[0]] != inner:
        raise KeyError(place)
    columns = variables(at, right.shape, right.free)
    values = lanes_of(
        scheduler, at, right, index_of(right, batch, columns, [inner]), strip.stored(right)
    )
    name = at.name("p")
    order = tuple(range(len(shape_of(last.seed.outputs[0]))))
    behind = write_behind(
        scheduler, at, last, Local(name, sums), (*batch, strip.row, *columns), order
    )
    loops = ((str(inner), at.ranges[str(inner)]),)
    rows = ((str(strip.inside), strip.height),)
    (column,) = at_least_one(at, loops_of(at, columns))
    return Contract(
        name,
        rows,
        column,
        loops,
        strip.held(strip.inside, inner),
        values,
        sums,
        tuple(behind.body),
    ), behind.writes


def _followed(uses: Uses, source: Var, last: Var, index: Index, at: Expressions) -> Index:
    """The index in ``last``, to which reshapes lead from ``source``."""
    chain = [last]
    while chain[-1] is not source:
        before = uses.makers[chain[-1]].inputs[0]
        assert before is not None
        chain.append(before)
    for before, after in zip(chain[::-1], chain[-2::-1], strict=False):
        index = reshaped(index, shape_of(before), shape_of(after), at.ranges)
    return index
