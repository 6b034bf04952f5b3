"""What rewritten functions call: Python's own branches and loops, or captured ones where a tensor decides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from burnx.capture.carried import (
    UNSET,
    Growing,
    Items,
    Site,
    as_tensor,
    dtype_of,
    is_same,
    is_worth,
    joined_dtype,
    leaves,
    rebuilt,
    structure,
)
from burnx.capture.flow import current_recorder
from burnx.capture.over import Range, Source, over, source_of
from burnx.capture.recorder import GraphRecorder
from burnx.capture.repeated import for_each, is_stopped_by_a_tensor, probed, repeat
from burnx.errors import DecisionError, ShapeError, TraceError
from burnx.ops import find
from burnx.tensor import Tensor
from burnx.types import TensorType

__all__ = ["Site", "both", "branch", "choose", "either", "for_loop", "is_unset", "negation"]
__all__ += ["over", "plain", "value_or_unset", "while_loop"]


def value_or_unset(read: Callable[[], Any]) -> Any:
    """The value of a variable that may have none."""
    try:
        return read()
    except NameError:
        return UNSET


def is_unset(value: Any) -> bool:
    return value is UNSET


def plain(place: str, word: str, reason: str, value: Any) -> Any:
    """What decides where it stays Python's.

    Raises: TraceError if it is a tensor; in an expression or assert, if the tensor's value is not known.
    """
    if isinstance(value, Tensor) and word not in ("if", "while", "for"):
        with suppress(TraceError):
            return bool(value)
    if isinstance(value, (Tensor, Items)) or source_of(value) is not None:
        raise DecisionError(
            f"{place}: this {word} cannot be captured for a tensor, because {reason}; "
            f"{_ADVICE[word]}"
        )
    return value


def unless_refused() -> None:
    """Stands first in every handler: what was refused goes on to the caller."""
    error = sys.exception()
    if isinstance(error, DecisionError):
        raise error


_ADVICE = {
    "if": "let both sides assign a variable or return, or use burnx.cond or ops.where",
    "while": "keep what is found in a variable and leave by break, or use burnx.loop",
    "for": "keep what is found in a variable and leave by break, or use burnx.loop or burnx.scan",
    "if else": "assign before it, or use burnx.cond or ops.where",
    "and": "assign before it, or use & on tensors",
    "or": "assign before it, or use | on tensors",
    "if of a comprehension": "choose items by ops.compress, or values by ops.where",
    "assert": "check sizes and types instead, which are known while it is captured",
    "case": "use if and elif",
}


# ------------------------------------------------------------------------------- conditions
def _flag(place: str, value: Any) -> Any:
    """A value as a condition: what Python decides as a bool, a tensor as a bool tensor of one element."""
    if not isinstance(value, Tensor):
        return bool(value)
    if isinstance(value.type, TensorType):
        shape = value.type.shape
        if shape is not None and any(isinstance(dim, int) and dim != 1 for dim in shape):
            raise TraceError(
                f"{place}: a decision takes a tensor of one element, not {value.type}; "
                "say .all() or .any() by ops.reduce_min or ops.reduce_max, or use & and | on elements"
            )
    is_bool = dtype_of(value) == np.bool_
    whole = value if is_bool else find("", "Cast")(value, to="bool")
    return whole if whole.type == _BOOL else find("", "Reshape")(whole, np.zeros(0, np.int64))


_BOOL = TensorType(np.dtype(np.bool_), ())


def negation(place: str, value: Any) -> Any:
    """``not value``"""
    flag = _flag(place, value)
    return find("", "Not")(flag) if isinstance(flag, Tensor) else not flag


def both(place: str, certain: bool, *values: Callable[[], Any]) -> Any:
    """``a and b``; where ``certain``, nothing can go wrong in what Python would not have come to."""
    return _joined(place, certain, values, False)


def either(place: str, certain: bool, *values: Callable[[], Any]) -> Any:
    """``a or b``"""
    return _joined(place, certain, values, True)


def _joined(place: str, certain: bool, values: Sequence[Callable[[], Any]], end: bool) -> Any:
    first = values[0]()
    if len(values) == 1:
        return first
    if not isinstance(first, Tensor):
        return first if bool(first) is end else _joined(place, certain, values[1:], end)
    flag = _flag(place, first)

    def rest() -> Any:
        return _flag(place, _joined(place, certain, values[1:], end))

    if certain:
        other = rest()
        if isinstance(other, Tensor):
            return find("", "Or" if end else "And")(flag, other)
        return other if other is end else flag
    if end:
        return branch(Site(place), flag, lambda: True, rest, ())
    return branch(Site(place), flag, rest, lambda: False, ())


def choose(place: str, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """``then if test else otherwise``"""
    return branch(Site(place), test, then, otherwise, ())


# ------------------------------------------------------------------------------- if
def branch(
    site: Site,
    test: Any,
    then: Callable[..., Any],
    otherwise: Callable[..., Any],
    given: Sequence[Any],
) -> Any:
    """What the branch that is taken gives; both are captured where a tensor decides."""
    if not isinstance(test, Tensor):
        return (then if test else otherwise)(*given)
    site.check_effect()
    flag = _flag(site.place, test)
    recorder = current_recorder(flag)
    sides = [recorder.child("then_branch"), recorder.child("else_branch")]
    found = []
    try:
        for side, function in zip(sides, (then, otherwise), strict=True):
            with side.ambient():
                found.append(function(*given))
    except ShapeError:
        if recorder.depth >= 0:
            raise
        # in a plain call sizes are numbers, which the side that is not taken need not fit
        return (then if bool(flag) else otherwise)(*given)
    return _chosen(site, recorder, flag, sides, found)


def _chosen(
    site: Site,
    recorder: GraphRecorder,
    flag: Tensor,
    sides: Sequence[GraphRecorder],
    found: Sequence[Any],
) -> Any:
    """The results of two captured branches as one."""
    _check_alike(site, *found)
    pairs = list(zip(*map(leaves, found), strict=True))
    differ = [pair for pair in pairs if not is_same(*pair)]
    if not differ:
        return found[0]
    for pair in differ:
        _check_pair(site, *pair)
    for number, side in enumerate(sides):
        with side.ambient():
            tensors = [as_tensor(side, pair[number], joined_dtype(pair)) for pair in differ]
            side.graph.outputs = [side.own(each) for each in tensors]
        side.graph.output_names = [""] * len(tensors)
    attributes = {"then_branch": sides[0].graph, "else_branch": sides[1].graph}
    made = recorder.record(find("", "If"), [recorder.own(flag)], dict(attributes), len(differ))
    new = iter(made)
    return rebuilt(found[0], iter([a if is_same(a, b) else next(new) for a, b in pairs]))


def _check_alike(site: Site, left: Any, right: Any) -> None:
    """Raises: TraceError unless both sides give the same variables, lists and tuples."""
    parts = [each if isinstance(each, tuple) and site.names else (each,) for each in (left, right)]
    for number, (a, b) in enumerate(zip(*parts, strict=True)):
        label = site.label(number, len(parts[0]))
        if (a is UNSET) is not (b is UNSET):
            raise site.refuse(
                f"{label} gets a value on one side of this if only, and is used later; "
                "give it one before the if, or on both sides"
            )
        if (a is None) is not (b is None) and not site.names:
            raise site.refuse(
                "one side of this if returns a value and the other does not; let both return one"
            )
        if structure(a) != structure(b):
            raise site.refuse(
                f"{label} is {_told(a)} on one side of this if and {_told(b)} on the other; "
                "both give the same number of tensors"
            )


def _check_pair(site: Site, left: Any, right: Any) -> None:
    """Raises: TraceError unless two leaves can be one tensor."""
    if not (is_worth(left) and is_worth(right)):
        raise site.refuse(
            f"a tensor cannot decide between {_told(left)} and {_told(right)}; both sides give a tensor"
        )
    a, b = dtype_of(left), dtype_of(right)
    if a is not None and b is not None and a != b:
        raise site.refuse(f"the sides of this if give {a} and {b}; convert one with .astype(...)")


def _told(value: Any) -> str:
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return (
        repr(value)
        if value is None or isinstance(value, (str, int))
        else f"a {type(value).__name__}"
    )


# ------------------------------------------------------------------------------- loops
def while_loop(
    site: Site, test: Callable[..., Any], turn: Callable[..., Any], given: tuple[Any, ...]
) -> Any:
    """The variables after a ``while``; it is captured from where a tensor decides."""
    while True:
        asked = test(*given)
        if isinstance(asked, Tensor):
            return _while(site, test, turn, given, _flag(site.place, asked))
        if not asked:
            return given
        if is_stopped_by_a_tensor(site, lambda state: turn(*state), given):
            return _while(site, test, turn, given, True)
        given, going = turn(*given)
        if isinstance(going, Tensor):
            return _while(site, test, turn, given, _again(site, test, given, going))
        if going is False:
            return given


def _while(
    site: Site,
    test: Callable[..., Any],
    turn: Callable[..., Any],
    given: tuple[Any, ...],
    start: Any,
) -> Any:
    def again(state: Sequence[Any], going: Any) -> Any:
        return _again(site, test, (*state, *(Growing() for _ in site.lists)), going)

    return repeat(site, lambda _, state: turn(*state), given, condition=start, again=again)


def _again(site: Site, test: Callable[..., Any], given: Sequence[Any], going: Any) -> Any:
    """Whether there is another turn: the loop was not left, and its condition holds."""
    flag = True if going is None else _flag(site.place, going)
    if isinstance(flag, Tensor):
        asked = probed(current_recorder(flag), lambda _: test(*given))
        if not isinstance(asked, Tensor):
            return flag if asked else False
    return _flag(site.place, both(site.place, False, lambda: flag, lambda: test(*given)))


def for_loop(site: Site, items: Any, turn: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """The variables after a ``for``; it is captured where it goes over a tensor, or a tensor stops it."""

    def once(item: Any, state: Sequence[Any]) -> Any:
        return turn(item, *state)

    def captured(source: Source, start: Any = True) -> Any:
        return for_each(site, source, once, given, lambda flag: _flag(site.place, flag), start)

    source = source_of(items)
    if source is not None:
        return captured(source)
    is_range = isinstance(items, range)
    if (
        is_range
        and len(items)
        and is_stopped_by_a_tensor(site, lambda state: once(items[0], state), given)
    ):
        return captured(Range(items.start, items.step, len(items)))
    for place, item in enumerate(items):
        given, going = once(item, given)
        if isinstance(going, Tensor) and is_range:
            rest = items[place + 1 :]
            return captured(Range(rest.start, rest.step, len(rest)), _flag(site.place, going))
        if isinstance(going, Tensor):
            raise site.refuse(
                "a tensor decides to leave this loop, which goes over Python objects; "
                "go over range(n) or a tensor"
            )
        if going is False:
            break
    return given
