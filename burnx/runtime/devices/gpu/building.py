"""A segment becomes a device's work: scheduled, its constants put there, planned when sizes come."""

from __future__ import annotations

from functools import partial

from burnx.dtype import bfloat16, float16
from burnx.errors import ShapeError
from burnx.fusion import writers  # noqa: F401  (registers the writers)
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import steps_in
from burnx.runtime.compiled.checks import Demands, check_sizes, find_demands, find_inner_demands
from burnx.runtime.compiled.segments import Segment
from burnx.runtime.compiled.symbols import find_symbols
from burnx.runtime.devices.gpu.constants import put_constants
from burnx.runtime.devices.gpu.driver import Driver
from burnx.runtime.devices.gpu.flow import make_flows
from burnx.runtime.devices.gpu.launches import Body, Ends, Failed, Plan, Sizes
from burnx.runtime.devices.gpu.native import Native
from burnx.runtime.devices.gpu.plans import Work, make_plan, name_kernels

NARROW = frozenset((float16, bfloat16))


def build_native(segment: Segment, driver: Driver, fuse: bool, tune: bool = False) -> Native:
    """The work of a segment on a device; its constants are put there."""
    kept = frozenset(segment.outputs)
    traits = Traits(1, fuse=fuse, winograd=False, narrow=NARROW, spread=True)
    found = schedule(segment.instructions, kept, kept, traits)
    flows = make_flows(found.steps)
    every = (*segment.inputs, *segment.outputs)
    memory = {var: found.memory[var] for var in every if var in found.memory}
    roots = {s.root for line in flows.lines.lines for s in line.storages}  # type: ignore[union-attr]
    roots |= {storage.root for storage in memory.values()}
    constants = put_constants([each for each in roots if each.role == "constant"], driver)
    work = Work(flows, name_kernels(flows.kernels), memory, constants)
    demands = find_demands(segment.instructions), find_inner_demands(segment.instructions)
    ends = segment.inputs, segment.outputs
    plan = partial(_plan, work, demands, ends, driver)
    symbols = find_symbols(segment, list(steps_in(found.steps)))
    weights_bytes = sum(each.array.nbytes for each in constants if each.array is not None)
    return Native(ends, Body(flows.flow, constants, symbols, weights_bytes, plan), driver, tune)


def _plan(
    work: Work, demands: tuple[Demands, Demands], ends: Ends, driver: Driver, sizes: Sizes
) -> Plan:
    """The plan for sizes; the second ``demands`` are those of bodies that may never run.

    Raises: ShapeError, Failed.
    """
    check_sizes(demands[0], sizes)
    try:
        check_sizes(demands[1], sizes)
    except ShapeError as error:  # whether that body runs is not known here
        raise Failed from error
    return make_plan(work, sizes, ends, driver)
