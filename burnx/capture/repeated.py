"""Captured loops of rewritten functions: variables as the state of a Loop or Scan, appended lists as its items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burnx.capture.carried import (
    UNSET,
    Growing,
    Items,
    Site,
    as_tensor,
    dtype_of,
    is_number,
    is_same,
    is_worth,
    joined_dtype,
    leaves,
    rebuilt,
    structure,
)
from burnx.capture.flow import current_recorder, loop, scan
from burnx.capture.over import Source, Together
from burnx.capture.recorder import GraphRecorder
from burnx.dtype import DType, bool_, int64
from burnx.shape import Expr
from burnx.tensor import AMBIENT, Tensor
from burnx.types import TensorType

Turn = Callable[[Any, Sequence[Any]], tuple[Sequence[Any], Any]]


@dataclass(frozen=True, slots=True)
class Carry:
    """How the variables of a loop are carried: those of their leaves that are tensors, and as what dtype."""

    site: Site
    given: tuple[Any, ...]
    dtypes: tuple[DType | None, ...] = ()

    @property
    def state(self) -> tuple[Any, ...]:
        return self.given[: len(self.site.names)]

    @property
    def lists(self) -> tuple[Any, ...]:
        return self.given[len(self.site.names) :]

    @property
    def start(self) -> list[Any]:
        """The leaves that become tensors."""
        return [leaf for leaf in leaves(self.state) if is_worth(leaf)]

    def variables(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The variables with these tensors in them."""
        new = iter(tensors)
        found = (next(new) if is_worth(leaf) else leaf for leaf in leaves(self.state))
        values: tuple[Any, ...] = rebuilt(self.state, found)
        return values

    def fresh(self) -> list[Growing]:
        return [Growing() for _ in self.site.lists]

    def results(self, values: Sequence[Any]) -> list[Any]:
        """The leaves after a turn that were tensors before it.

        Raises: TraceError if another part of a variable has changed.
        """
        for number, (old, new) in enumerate(zip(self.state, values, strict=True)):
            if structure(old) != structure(new) or new is UNSET:
                label = self.site.label(number, len(self.state))
                raise self.site.refuse(
                    f"{label} changes its form from turn to turn; a captured loop carries the same number "
                    "of tensors, and lists grow by .append"
                )
        found = []
        for old, new in zip(leaves(self.state), leaves(tuple(values)), strict=True):
            if is_worth(old) and is_worth(new):
                found.append(new)
            elif not is_same(old, new):
                raise self.site.refuse(
                    f"a captured loop carries tensors: it cannot make {_told(new)} of {_told(old)}; "
                    "give the variable a tensor or number before the loop"
                )
        return found

    def as_tensors(self, recorder: GraphRecorder, values: Sequence[Any]) -> list[Tensor]:
        """The leaves of ``results`` or ``start`` as tensors of the dtypes that are carried."""
        found = []
        for value, dtype in zip(values, self.dtypes, strict=True):
            tensor = as_tensor(recorder, value, dtype)
            has = dtype_of(tensor)
            if dtype is not None and has is not None and has != dtype:
                raise self.site.refuse(
                    f"a variable of this loop begins as {dtype} and becomes {has}; "
                    "give it one dtype with .astype(...)"
                )
            found.append(tensor)
        return found

    def items(self, lists: Sequence[Any], fresh: Sequence[Growing]) -> list[Any]:
        """What a turn has appended, one to each list.

        Raises: TraceError if it is another number.
        """
        for name, each, mine in zip(self.site.lists, lists, fresh, strict=True):
            if each is not mine or len(mine.items) != 1:
                found = "in a loop inside of it" if each is not mine else f"{len(mine.items)} times"
                raise self.site.refuse(
                    f"a captured loop appends to {name!r} once in each turn, not {found}; "
                    "make a list inside the turn, and append burnx.stack(it)"
                )
        return [mine.items[0] for mine in fresh]


def _told(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, str) else f"a {type(value).__name__}"


def probed(recorder: GraphRecorder, call: Callable[[GraphRecorder], Any]) -> Any:
    """What a turn gives, captured to look at it and thrown away."""
    probe = recorder.child("probe")
    with probe.ambient():
        return call(probe)


def is_stopped_by_a_tensor(
    site: Site, turn: Callable[[Sequence[Any]], Any], given: tuple[Any, ...]
) -> bool:
    """Whether a turn of a loop says by a tensor whether there is another one."""
    has_arrays = any(is_worth(leaf) and not is_number(leaf) for leaf in leaves(given))
    if not site.breaks or site.effect or not (has_arrays or AMBIENT.get() is not None):
        return False
    recorder = current_recorder(*leaves(given))
    state = (*given[: len(site.names)], *(Growing() for _ in site.lists))
    return isinstance(probed(recorder, lambda _: turn(state))[1], Tensor)


def _carry(
    site: Site,
    recorder: GraphRecorder,
    given: tuple[Any, ...],
    turn: Callable[[GraphRecorder, Any], Any],
) -> Carry:
    """How a loop's variables are carried; a number takes the dtype that the first turn makes of it."""
    site.check_effect()
    for name, value in zip(site.names, given, strict=False):
        if value is UNSET:
            raise site.refuse(
                f"{name!r} is made in this loop, which may run no turn, and is used later; "
                "give it a value before the loop"
            )
    for name, value in zip(site.lists, given[len(site.names) :], strict=True):
        if not isinstance(value, (list, Items)):
            raise site.refuse(
                f"{name!r} grows in this loop and is a {type(value).__name__}, no list"
            )
    plain = Carry(site, given)
    start = plain.start
    found = start
    if not start or any(map(is_number, start)):  # what is given shows what is carried
        tensors = [each if is_number(each) else as_tensor(recorder, each) for each in start]
        state = (*plain.variables(tensors), *plain.fresh())
        values, _ = probed(recorder, lambda probe: turn(probe, state))
        found = plain.results(values[: len(site.names)])
    dtypes = (dtype_of(a) or dtype_of(b) or _usual(a, b) for a, b in zip(start, found, strict=True))
    return Carry(site, given, tuple(dtypes))


def _usual(left: Any, right: Any) -> DType | None:
    """The dtype of Python numbers that meet no tensor; None for a sequence."""
    if not (is_number(left) and is_number(right)):
        return None
    return joined_dtype([left, right]) or bool_


def repeat(
    site: Site,
    turn: Turn,
    given: tuple[Any, ...],
    *,
    trips: Any = None,
    condition: Any = None,
    again: Callable[[Sequence[Any], Any], Any],
    item: Callable[[Any], Any] = lambda turn: turn,
) -> Any:
    """A captured loop; ``again(variables, going)`` says after a turn whether there is another."""
    recorder = current_recorder(*leaves(given), trips, condition)

    def first(probe: GraphRecorder, state: Sequence[Any]) -> Any:
        return turn(item(probe.input("", _ITERATION)), state)

    carry = _carry(site, recorder, given, first)

    def body(number: Tensor, _: Tensor, *tensors: Tensor) -> list[Any]:
        fresh = carry.fresh()
        values, going = turn(item(number), (*carry.variables(tensors), *fresh))
        inner = current_recorder(number)
        count = len(site.names)
        results = carry.as_tensors(inner, carry.results(values[:count]))
        flag = again(carry.variables(results), going)
        return [flag, *results, *_tensors(inner, carry.items(values[count:], fresh))]

    start = carry.as_tensors(recorder, carry.start)
    if not start and not site.lists:
        return given
    count = as_tensor(recorder, trips) if isinstance(trips, (int, Expr)) else trips
    results = loop(body, *start, trips=count, condition=condition)
    return _after(carry, len(start), results)


_ITERATION = TensorType(int64, ())


def for_each(
    site: Site,
    source: Source,
    turn: Turn,
    given: tuple[Any, ...],
    flag: Callable[[Any], Any],
    start: Any = True,
) -> Any:
    """A captured ``for``: a Scan over the rows of tensors, else a Loop."""
    rows = source.rows()
    if rows is not None and not site.breaks:
        return _scanned(site, source, rows, turn, given)

    def again(_: Sequence[Any], going: Any) -> Any:
        return True if going is None else flag(going)

    return repeat(
        site,
        turn,
        given,
        trips=source.count,
        condition=start,
        again=again,
        item=lambda number: source.item(number, ()),
    )


def _scanned(
    site: Site, source: Source, rows: Sequence[Tensor], turn: Turn, given: tuple[Any, ...]
) -> Any:
    recorder = current_recorder(*leaves(given), *rows)

    def first(probe: GraphRecorder, state: Sequence[Any]) -> Any:
        kinds = (TensorType(each.dtype, each.shape[1:]) for each in rows)
        return turn(source.item(None, [probe.input("", kind) for kind in kinds]), state)

    carry = _carry(site, recorder, given, first)
    start = carry.as_tensors(recorder, carry.start)

    def body(*tensors: Tensor) -> list[Any]:
        fresh = carry.fresh()
        item = source.item(None, tensors[len(start) :])
        values, _ = turn(item, (*carry.variables(tensors[: len(start)]), *fresh))
        inner = current_recorder(*tensors)
        count = len(site.names)
        results = carry.as_tensors(inner, carry.results(values[:count]))
        return [*results, *_tensors(inner, carry.items(values[count:], fresh))]

    if not start and not site.lists:
        return given
    directions = source.directions if isinstance(source, Together) else [source.backwards]  # type: ignore[union-attr]
    backwards = [int(each) for each in directions] if any(directions) else None
    return _after(carry, len(start), scan(body, start, rows, backwards=backwards))


def _tensors(recorder: GraphRecorder, values: Sequence[Any]) -> list[Tensor]:
    return [as_tensor(recorder, value) for value in values]


def _after(carry: Carry, count: int, results: Any) -> tuple[Any, ...]:
    """The variables and the lists after a loop."""
    found = list(results) if isinstance(results, tuple) else [results]
    grown = [
        Items((*_parts(before), (stacked, False)))
        for before, stacked in zip(carry.lists, found[count:], strict=True)
    ]
    return (*carry.variables(found[:count]), *grown)


def _parts(before: Any) -> tuple[tuple[Any, bool], ...]:
    return before.parts if isinstance(before, Items) else tuple((each, True) for each in before)
