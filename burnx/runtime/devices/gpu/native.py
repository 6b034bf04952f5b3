"""A segment on a device: planned for each set of sizes, bound to memory, and run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from burnx.errors import ShapeError
from burnx.fusion.storage import Storage
from burnx.gpu.code import Form
from burnx.program import Var
from burnx.runtime.compiled.spent import describe_call
from burnx.runtime.devices.gpu.driver import Array, DeviceArray, Driver, Launch, Place
from burnx.runtime.devices.gpu.flow import Flow, Run
from burnx.runtime.devices.gpu.launches import Body, Ends, Failed, Launched, Plan
from burnx.runtime.devices.gpu.library import bind_product
from burnx.runtime.devices.gpu.pages import note_call, take_arena
from burnx.runtime.profile import Times, note

if TYPE_CHECKING:
    from burnx.runtime.devices.gpu.tuning import Line
    from burnx.runtime.tuning.racing import Outcome

PLANS_MOST = 16  # sets of sizes that are kept ready
AT_ONCE = 16  # turns of an open loop that are launched before the host asks whether there are more


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Bound:
    """A plan in an arena: launches that are ready, and the whole as one where no question to the host is in it."""

    plan: Plan
    memory: Any
    launches: list[Launch | None]
    whole: Launch | None = None
    runs: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)


class Native:
    """A segment's work on a device; with ``tune`` its kernels are raced when sizes come for the first time."""

    def __init__(
        self,
        ends: Ends,
        body: Body,
        driver: Driver,
        tune: bool = False,
    ) -> None:
        self.inputs, self.outputs = ends
        self.body, self.driver, self.tune = body, driver, tune
        driver.users.add(self)
        self._plans: OrderedDict[tuple[int, ...], _Bound] = OrderedDict()

    @property
    def plans(self) -> dict[tuple[int, ...], Plan]:
        """The plans that are ready, by the symbols' sizes."""
        return {sizes: bound.plan for sizes, bound in self._plans.items()}

    def add_plan(self, key: tuple[int, ...], plan: Plan) -> _Bound:
        """Have a plan ready for the symbols' sizes; of many the oldest goes."""
        sizes = dict(zip(self.body.symbols, key, strict=True))
        bound = self._plans[key] = _Bound(plan, None, [], sizes=sizes)
        while len(self._plans) > PLANS_MOST:
            self._plans.popitem(last=False)
        return bound

    def run(
        self,
        values: MutableMapping[Var, Any],
        sizes: Mapping[str, int],
        stay: Callable[[Var], bool],
        times: Times | None = None,
    ) -> None:
        """Put the segment's outputs into ``values``: on the device where ``stay`` says so.

        Raises: Failed, ShapeError, Unplanned.
        """
        driver = self.driver
        with driver.lock:
            bound = self._bound(sizes)
            plan = bound.plan
            self._enter(bound, values)
            if plan.checked:
                driver.fill(self._error, 4, 0)
            self._carry_out(bound, times)
            for var, shape, storage in plan.made:
                values[var] = self._leave(bound, var, shape, storage, stay(var))
            if plan.checked and self._has_failed():
                raise Failed
            note_call(driver, HEAD + plan.size)

    @property
    def weights_bytes(self) -> int:
        return self.body.weights_bytes

    def forget_memory(self) -> None:
        """Let go of an arena that is to be another one."""
        for bound in self._plans.values():
            bound.memory = bound.whole = None
            bound.launches = []

    # --- memory -----------------------------------------------------------------------------------------------------

    @property
    def _error(self) -> Place:
        return self.driver.arena.memory, 0

    def _has_failed(self) -> bool:
        found = np.zeros(1, np.int32)
        self.driver.download(self._error, found)
        return bool(found[0])

    def _place(self, plan: Plan, storage: Storage) -> Place:
        root = storage.root
        if root.role == "constant":
            return self.body.constants[root]
        return self.driver.arena.memory, HEAD + plan.offsets[root]

    def _enter(self, bound: _Bound, values: Mapping[Var, Any]) -> None:
        driver, plan = self.driver, bound.plan
        if driver.arena.user is None or driver.arena.user() is not bound:
            _clear(driver, plan)
            driver.arena.user = ref(bound)
        for var, shape, storage in plan.given:
            place = self._place(plan, storage)
            value = values[var]
            if isinstance(value, DeviceArray) and value.driver is driver:
                if value.shape != shape:
                    raise ShapeError(f"a value of shape {shape} is needed here, not {value.shape}")
                driver.copy(place, value.place, value.nbytes)
            else:
                array = _laid_out(value, shape, storage.dtype)
                if array.nbytes:
                    driver.upload(place, array)

    def _leave(
        self, bound: _Bound, var: Var, shape: tuple[int, ...], storage: Storage, stays: bool
    ) -> Any:
        driver = self.driver
        array = np.empty(shape, storage.dtype) if not stays else None
        place = self._place(bound.plan, storage)
        if array is None:
            size = int(np.prod(shape, dtype=np.int64)) * storage.dtype.itemsize
            target: Place = (driver.allocate(max(size, 1)), 0)
            driver.copy(target, place, size)
            return DeviceArray(driver, target, shape, storage.dtype)
        if array.nbytes:
            driver.download(place, array)
        return array

    # --- launches ---------------------------------------------------------------------------------------------------

    def _bound(self, sizes: Mapping[str, int]) -> _Bound:
        key = tuple([sizes[name] for name in self.body.symbols])
        bound = self._plans.get(key)
        if bound is None:
            bound = self.add_plan(key, self.body.plan(sizes))
        arena = self.driver.arena
        size = HEAD + bound.plan.size
        if arena.memory is None or arena.size < size:
            take_arena(self.driver, size)
        if bound.memory is not arena.memory:
            self._bind(bound)
        return bound

    def _bind(self, bound: _Bound) -> None:
        bound.memory = bound.whole = None  # as long as not all launches are there
        bound.launches = [self._bind_one(bound.plan, each) for each in bound.plan.launches]
        bound.memory, bound.runs = self.driver.arena.memory, 0

    def _bind_one(self, plan: Plan, planned: Launched) -> Launch | None:
        if 0 in planned.groups:
            return None
        places = [self._place(plan, storage) for storage in planned.storages]

        def bind(every: Sequence[Place]) -> Launch:
            function, code = planned.function, planned.code
            return self.driver.bind(
                function, code, planned.groups, [*every, self._error], planned.sizes
            )

        if planned.asked is None:
            return bind(places)
        rest = bind if planned.function.handle is not None else None
        fixed = [each.root.role == "constant" for each in planned.storages]
        return bind_product(self.driver, planned.asked, places, fixed, rest)

    def _carry_out(self, bound: _Bound, times: Times | None) -> None:
        flow = self.body.flow
        if self.tune and bound.runs == 0:
            bound.runs = 1
            self._tune(bound)
        elif times is not None:
            self._walk(bound, flow, partial(self._watch, bound, times))
        else:
            self._launch(bound)

    def _tune(self, bound: _Bound) -> None:
        """Carry out a call, its kernels raced one by one before they run; the next call takes the winners."""
        from burnx.runtime.devices.gpu.tuning import build_ahead, stamp_results

        won: list[object] = []
        raced: list[object] = []
        build_ahead(self.driver, bound.plan)

        def launch(line: int) -> None:
            if bound.launches[line] is None:
                return
            if self._is_wanted(bound.plan, line):
                outcome = self._tune_line(bound.plan, line)
                if outcome is not None:
                    raced.append(outcome)
                    if outcome.best != bound.plan.launches[line].code.form:
                        won.append(outcome)
            _run(bound, line)

        self._walk(bound, self.body.flow, launch)
        if raced:
            stamp_results(self.driver)
        if won:
            plan = self.body.plan(bound.sizes)
            bound.memory, bound.plan = None, plan  # its launches are those of another one
            self._bind(bound)
            bound.runs = 1

    def _tune_line(self, plan: Plan, line: int) -> Outcome[Form] | None:
        from burnx.runtime.devices.gpu.tuning import tune_line

        failed = plan.checked and self._has_failed()
        outcome = tune_line(self.driver, self._open_line(plan, line))
        if plan.checked and not failed:  # what it read of its own output was nobody's numbers
            self.driver.fill(self._error, 4, 0)
        return outcome

    def _is_wanted(self, plan: Plan, line: int) -> bool:
        """Whether a kernel's guards let it run now: one that does nothing is as fast as any."""
        planned = plan.launches[line]
        values = planned.code.form.guards
        guards = planned.storages[len(planned.storages) - len(values) :]
        return all(
            self._is_true(plan, guard) == value for guard, value in zip(guards, values, strict=True)
        )

    def _watch(self, bound: _Bound, times: Times, line: int) -> None:
        """Launch a kernel, and add what it takes on the device, unless its guards keep it from doing anything."""
        launch, origin = bound.launches[line], bound.plan.origins[line]
        if launch is not None and self._is_wanted(bound.plan, line):
            elapsed_ns = self.driver.timed(launch)
            note(times, describe_call(origin.task, origin.symbols, elapsed_ns))

    def _open_line(self, plan: Plan, line: int) -> Line:
        from burnx.runtime.devices.gpu.tuning import open_line

        return open_line(self.driver, plan, line, self._bind_one, partial(self._place, plan))

    def _launch(self, bound: _Bound) -> None:
        """Launch all; from the second call on as one, if no question to the host is among them."""
        flow = self.body.flow
        bound.runs += 1
        if bound.whole is None and bound.runs > 1:
            listed = _listed(flow, bound.launches)
            if listed is not None and len(listed) <= RECORDED_MOST:
                bound.whole = self.driver.record(listed, bound.plan.waits)
        if bound.whole is not None:
            bound.whole()
        else:
            self._walk(bound, flow, partial(_run, bound))

    def _walk(self, bound: _Bound, flow: Sequence[Flow], launch: Callable[[int], None]) -> None:
        """Launch the kernels of lines one by one."""
        for each in flow:
            if isinstance(each, Run):
                launch(each.line)
            elif each.count is not None:
                for _ in range(each.count):
                    self._walk(bound, each.body, launch)
            else:
                assert each.running is not None
                while self._is_true(bound.plan, each.running):
                    for _ in range(AT_ONCE):
                        self._walk(bound, each.body, launch)

    def _is_true(self, plan: Plan, storage: Storage) -> bool:
        found = np.zeros(1, np.uint8)
        self.driver.download(self._place(plan, storage), found)
        return bool(found[0])


HEAD = 256  # bytes in front of an arena: the error flag
RECORDED_MOST = 20_000


def _clear(driver: Driver, plan: Plan) -> None:
    """The zeros, and other numbers, around data that kernels read and never write."""
    memory, (start, stop) = driver.arena.memory, plan.zeroed
    if stop > start:
        driver.fill((memory, HEAD + start), stop - start, 0)
    for first, last, byte in plan.filled:
        driver.fill((memory, HEAD + first), last - first, byte)


def _listed(flow: Sequence[Flow], launches: Sequence[Launch | None]) -> list[Launch] | None:
    """All launches in order, with those that do nothing; None where only the host can say how many there are."""
    found: list[Launch] = []
    for each in flow:
        if isinstance(each, Run):
            found.append(launches[each.line] or _do_nothing)
            continue
        inner = _listed(each.body, launches) if each.count is not None else None
        if inner is None:
            return None
        found += inner * (each.count or 0)
    return found


def _do_nothing() -> None:
    """The launch of a kernel that has no groups."""


def _run(bound: _Bound, line: int) -> None:
    launch = bound.launches[line]
    if launch is not None:
        launch()


def _laid_out(value: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    array = np.asarray(value)
    if array.shape != shape:
        raise ShapeError(f"a value of shape {shape} is needed here, not {array.shape}")
    return np.require(array, dtype, ["C"])
