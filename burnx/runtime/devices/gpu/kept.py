"""A segment's launches as texts and numbers, and back: without kernels, which are found by their binaries.

For the sizes of the first run there is all that a launch needs.  What other plans would be made of is not kept; who meets
other sizes makes the segment anew (``Unplanned``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from burnx.dtype import DTYPES, dtype_name
from burnx.fusion.storage import Storage
from burnx.gpu.code import Code, Form
from burnx.program import Var
from burnx.runtime.devices.gpu.constants import put_constants
from burnx.runtime.devices.gpu.driver import Built, Driver
from burnx.runtime.devices.gpu.flow import Flow, Guard, Run, Turns
from burnx.runtime.devices.gpu.launches import Body, End, Ends, Launched, Plan, refuse
from burnx.runtime.devices.gpu.library import LIBRARY, as_row, from_row, library_of
from burnx.runtime.devices.gpu.native import Native
from burnx.runtime.devices.gpu.results import results_of
from burnx.runtime.kept.codec import Unkeepable
from burnx.runtime.kept.constants import Find, Places, read_constant
from burnx.runtime.kept.identity import Stamp


def plan_stamp(driver: Driver) -> Stamp:
    """What plans of this device depend on; those that were made with other results of races are not taken."""
    limits = {**asdict(driver.limits), "matrices": sorted(driver.limits.matrices)}
    found = results_of(driver)
    makers = [sorted(found.about.items()), driver.workers, found.find("stamp")]
    return Stamp([driver.stamp["for"], limits], makers, found.about)


# --- writing ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Table:
    """Functions and storages, each once, by number."""

    plan: Plan
    constants: dict[Storage, int]
    functions: dict[tuple[str, str], int] = field(default_factory=dict)
    function_rows: list[Any] = field(default_factory=list)
    storages: dict[Storage, int] = field(default_factory=dict)
    storage_rows: list[Any] = field(default_factory=list)

    def function(self, launched: Launched) -> int:
        """-1 where a library does it all.

        Raises: Unkeepable if its binary is not kept.
        """
        built, code = launched.function, launched.code
        if launched.asked is not None and built.handle is None:
            return -1
        if not built.binary:
            raise Unkeepable("a function whose binary is not kept")
        key = (built.binary, built.name)
        if key not in self.functions:
            self.functions[key] = len(self.function_rows)
            form = code.form
            shape = [form.kind, form.group, form.wide, list(form.guards), code.local_bytes]
            self.function_rows.append([*key, *shape])
        return self.functions[key]

    def storage(self, part: Storage) -> int:
        root = part.root
        if root not in self.storages:
            self.storages[root] = len(self.storage_rows)
            constant = self.constants.get(root, -1)
            offset = self.plan.offsets[root] if constant < 0 else -1
            self.storage_rows.append([dtype_name(root.dtype), offset, constant])
        return self.storages[root]

    def flow(self, flow: Sequence[Flow]) -> list[Any]:
        rows: list[Any] = []
        for each in flow:
            if isinstance(each, Run):
                guards = [[self.storage(one.storage), one.value] for one in each.guards]
                rows.append(["run", each.line, guards])
            else:
                running = -1 if each.running is None else self.storage(each.running)
                rows.append(["turns", self.flow(each.body), each.count, running])
        return rows


def write_native(native: Native, places: Places) -> tuple[Any, Any]:
    """(head, body) of a segment that has been planned for; the latest sizes are those that are kept.

    Raises: Unkeepable.
    """
    if not native.plans:
        raise Unkeepable("a segment that has not run")
    body = native.body
    sizes, plan = list(native.plans.items())[-1]
    constants = {storage: place for place, storage in enumerate(body.constants)}
    table = _Table(plan, constants)
    launches = [
        [
            table.function(each),
            list(each.groups),
            [table.storage(one) for one in each.storages],
            list(each.sizes),
            None if each.asked is None else as_row(each.asked),
        ]
        for each in plan.launches
    ]
    flow = table.flow(body.flow)
    ends = [_write_ends(native.inputs, plan.given, table)]
    ends.append(_write_ends(native.outputs, plan.made, table))
    head = {
        "symbols": list(body.symbols),
        "sizes": list(sizes),
        "launches": launches,
        "flow": flow,
        "ends": ends,
        "functions": table.function_rows,
        "storages": table.storage_rows,
        "constants": [
            places.write(each.array) for each in body.constants if each.array is not None
        ],
        "arena": [plan.size, list(plan.zeroed), [list(each) for each in plan.filled]],
        "checked": plan.checked,
        "waits": [list(each) for each in plan.waits],
    }
    return head, None


def _write_ends(values: Sequence[Var], ends: Sequence[End], table: _Table) -> list[Any]:
    return [
        [values.index(var), list(shape), table.storage(storage)] for var, shape, storage in ends
    ]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_native(
    head: Any,
    find_body: Callable[[], Any],
    ends: Ends,
    find: Mapping[str, Find],
    driver: Driver,
) -> Native | None:
    """The segment of an entry; None if a binary of it is not kept any more, or a library is not here.

    Raises: any of LookupError, TypeError, ValueError and BurnxError if the entry is damaged.
    """
    asked = {library_of(row[4]) for row in head["launches"] if row[4] is not None}
    if not all(driver.libraries.get(each) for each in asked):
        return None
    with driver.lock:
        built = driver.load([(row[0], row[1]) for row in head["functions"]])
    if built is None:
        return None
    functions = [
        _read_function(row, one) for row, one in zip(head["functions"], built, strict=True)
    ]
    functions.append((Code("", "", Form(LIBRARY, 0)), Built(None, "")))  # number -1
    arrays = [read_constant(entry, find) for entry in head["constants"]]
    kept = [Storage(each.dtype, each.shape, "constant", array=each) for each in arrays]
    weights_bytes = sum(each.nbytes for each in arrays)
    storages = [_read_storage(row, kept) for row in head["storages"]]
    plan = _read_plan(head, ends, storages, functions)
    flow = _read_flow(head["flow"], storages, len(plan.launches))
    constants = put_constants(kept, driver)
    for each in kept:  # what lies on the device is not needed here any more
        each.array = None
    symbols = tuple(map(str, head["symbols"]))
    native = Native(ends, Body(flow, constants, symbols, weights_bytes, refuse, True), driver)
    native.add_plan(tuple(head["sizes"]), plan)
    return native


def _read_function(row: Sequence[Any], built: Built) -> tuple[Code, Built]:
    _, name, kind, group, wide, guards, local_bytes = row
    form = Form(kind, group, wide=wide, guards=tuple(guards))
    return Code(name, "", form, local_bytes=local_bytes), built


def _read_storage(row: Sequence[Any], kept: Sequence[Storage]) -> tuple[Storage, int]:
    dtype, offset, constant = row
    if constant >= 0:
        return kept[constant], -1
    return Storage(DTYPES[dtype], ()), int(offset)


Storages = Sequence[tuple[Storage, int]]


def _read_plan(
    head: Any, ends: Ends, storages: Storages, functions: Sequence[tuple[Code, Built]]
) -> Plan:
    size, (first, last), filled = head["arena"]
    offsets = {storage: offset for storage, offset in storages if offset >= 0}
    if any(not 0 <= offset <= size for offset in offsets.values()):
        raise ValueError("a value lies outside of the arena")
    launches = [
        Launched(
            functions[function][0],
            functions[function][1],
            (groups[0], groups[1], groups[2]),
            tuple([storages[each][0] for each in used]),
            tuple(sizes),
            None if asked is None else from_row(asked),
        )
        for function, groups, used, sizes, asked in head["launches"]
    ]
    given, made = [
        tuple([(vars[place], tuple(shape), storages[used][0]) for place, shape, used in part])
        for vars, part in zip(ends, head["ends"], strict=True)
    ]
    rows = tuple([(start, stop, byte) for start, stop, byte in filled])
    checked = bool(head["checked"])
    waits = tuple([tuple(each) for each in head["waits"]])
    if waits and len(waits) != len(launches):
        raise ValueError("launches of which nobody says what they wait for")
    if any(not 0 <= each < line for line, found in enumerate(waits) for each in found):
        raise ValueError("a launch that waits for one that is not before it")
    launched = tuple(launches)
    return Plan(launched, offsets, size, (first, last), rows, given, made, checked, waits=waits)


def _read_flow(rows: Sequence[Any], storages: Storages, lines: int) -> list[Flow]:
    flow: list[Flow] = []
    for kind, first, *rest in rows:
        if kind == "run":
            if not 0 <= first < lines:
                raise ValueError("a launch that there is not")
            guards = [Guard(storages[storage][0], value) for storage, value in rest[0]]
            flow.append(Run(first, tuple(guards)))
        else:
            count, running = rest
            whose = storages[running][0] if running >= 0 else None
            flow.append(Turns(tuple(_read_flow(first, storages, lines)), count, whose))
    return flow
