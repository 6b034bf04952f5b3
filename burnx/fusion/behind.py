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
from burnx.fusion.orders import wanted_order
from burnx.fusion.scheduler import Scheduler
from burnx.fusion.storage import Order, Storage
from burnx.kernels.ir import Cast, Statement, Store, Value
from burnx.program import Instruction, Var
from burnx.shape import layouts
from burnx.shape.layouts import Layout, layout_of, order_of


@dataclass(slots=True)
class Behind:
    """Statements at one element of a product's result, and how each value of the cluster lies there."""

    scheduler: Scheduler
    at: Expressions
    values: dict[Var, Value] = field(default_factory=dict)
    indices: dict[Var, Index] = field(default_factory=dict)
    layouts: dict[Var, Layout | None] = field(default_factory=dict)
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
    made.indices[var], made.layouts[var] = index, layout_of(shape_of(var), order)
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
    layout = made.layouts[var]
    order = wanted_order(made.scheduler, var) or (None if layout is None else order_of(layout))
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
    made.indices[var], made.layouts[var] = index, made.layouts[lead]


def _follow_cast(made: Behind, member: Instruction) -> None:
    lead, (var,) = _operand(made, member), member.outputs
    given = made.at.given
    key = (lead, made.indices[lead])
    given[key] = made.values[lead]
    made.values[var] = VIRTUAL[member.primitive](made.at, member, made.indices[lead])
    made.indices[var], made.layouts[var] = made.indices[lead], made.layouts[lead]


def _follow_reshape(made: Behind, member: Instruction) -> None:
    lead, (var,) = _operand(made, member), member.outputs
    source, target = shape_of(lead), shape_of(var)
    made.values[var] = made.values[lead]
    made.indices[var] = reshaped(made.indices[lead], source, target, made.at.ranges)
    layout = made.layouts[lead]
    made.layouts[var] = None if layout is None else layouts.reshaped(layout, target)


def _follow_transpose(made: Behind, member: Instruction) -> None:
    lead, (var,) = _operand(made, member), member.outputs
    perm = member.attributes["perm"]
    made.values[var] = made.values[lead]
    made.indices[var] = tuple(made.indices[lead][axis] for axis in perm)
    layout = made.layouts[lead]
    made.layouts[var] = None if layout is None else layouts.transposed(layout, perm)


_FOLLOW = {
    "map": _follow_map,
    "cast": _follow_cast,
    "bitcast": _follow_cast,
    "reshape": _follow_reshape,
    "transpose": _follow_transpose,
}
