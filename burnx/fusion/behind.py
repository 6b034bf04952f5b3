"""What follows a product in its kernel: bias, activation, residual, and stores of what others read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from burnx.fusion.clusters import Cluster
from burnx.fusion.expressions import (
    VIRTUAL,
    Expressions,
    Index,
    applied,
    as_stored,
    dtype_of,
    narrowed,
    shape_of,
    working_dtype,
)
from burnx.fusion.indices import reshaped
from burnx.fusion.orders import reshaped_order, wanted_order
from burnx.fusion.scheduler import Scheduler
from burnx.fusion.storage import Order, Storage
from burnx.kernels.ir import Cast, Statement, Store, Value
from burnx.program import Instruction, Var


@dataclass(slots=True)
class Behind:
    """Statements at one element of a product's result, and how each value of the cluster lies there."""

    scheduler: Scheduler
    at: Expressions
    values: dict[Var, Value] = field(default_factory=dict)
    indices: dict[Var, Index] = field(default_factory=dict)
    orders: dict[Var, Order | None] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    writes: list[Storage] = field(default_factory=list)


def write_behind(
    scheduler: Scheduler,
    at: Expressions,
    cluster: Cluster,
    value: Value,
    index: Index,
    order: Order,
    export: Callable[[Behind, Var], None] | None = None,
) -> Behind:
    """Follow a product's ``value`` at ``index`` through its cluster, storing what is read outside."""
    (var,) = cluster.seed.outputs
    made = Behind(scheduler, at)
    made.values[var] = _rounded(value, var)
    made.indices[var], made.orders[var] = index, order
    exported = set(scheduler.exported(cluster))
    for member in cluster.members:
        if member is not cluster.seed:
            _FOLLOW[member.primitive](made, member)
        if member.outputs[0] in exported:
            (export or _export)(made, member.outputs[0])
    return made


def _rounded(value: Value, var: Var) -> Value:
    wanted = working_dtype(dtype_of(var))
    return narrowed(value if value.dtype == wanted else Cast(value, wanted), dtype_of(var))


def _export(made: Behind, var: Var) -> None:
    order = wanted_order(made.scheduler, var) or made.orders[var]
    storage = made.scheduler.memory.get(var) or made.scheduler.allocate(var, order)
    place = made.at.place(storage, made.indices[var])
    value = as_stored(made.values[var], dtype_of(var))
    made.body.append(Store(made.at.buffer(storage), place, value))
    made.writes.append(storage)


def _operand(made: Behind, member: Instruction) -> Var:
    return next(var for var in member.inputs if var is not None and var in made.values)


def _follow_map(made: Behind, member: Instruction) -> None:
    lead = _operand(made, member)
    index = made.indices[lead]
    arguments = tuple(
        made.values[var] if var in made.values else made.at.value(var, index)
        for var in member.inputs
        if var is not None
    )
    (var,) = member.outputs
    made.values[var] = applied(member.attributes["function"], arguments, dtype_of(var))
    made.indices[var], made.orders[var] = index, made.orders[lead]


def _follow_cast(made: Behind, member: Instruction) -> None:
    lead, (var,) = _operand(made, member), member.outputs
    given = made.at.given
    key = (lead, made.indices[lead])
    given[key] = made.values[lead]
    made.values[var] = VIRTUAL[member.primitive](made.at, member, made.indices[lead])
    made.indices[var], made.orders[var] = made.indices[lead], made.orders[lead]


def _follow_reshape(made: Behind, member: Instruction) -> None:
    lead, (var,) = _operand(made, member), member.outputs
    source, target = shape_of(lead), shape_of(var)
    made.values[var] = made.values[lead]
    made.indices[var] = reshaped(made.indices[lead], source, target, made.at.ranges)
    order = made.orders[lead]
    made.orders[var] = reshaped_order(order, source, target) if order is not None else None


def _follow_transpose(made: Behind, member: Instruction) -> None:
    lead, (var,) = _operand(made, member), member.outputs
    perm = member.attributes["perm"]
    made.values[var] = made.values[lead]
    made.indices[var] = tuple(made.indices[lead][axis] for axis in perm)
    order = made.orders[lead]
    place = {origin: axis for axis, origin in enumerate(perm)}
    made.orders[var] = tuple(place[axis] for axis in order) if order is not None else None


_FOLLOW = {
    "map": _follow_map,
    "cast": _follow_cast,
    "bitcast": _follow_cast,
    "reshape": _follow_reshape,
    "transpose": _follow_transpose,
}
