"""What a captured ``for`` goes over: a range with an end that is a tensor, the rows of tensors, sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burnx.capture.carried import Items, dtype_of, stack
from burnx.errors import TraceError
from burnx.ops import find
from burnx.shape import Expr
from burnx.tensor import Tensor, caller
from burnx.types import SequenceType


@dataclass(frozen=True, slots=True)
class Range:
    """``start + step * turn`` for each of ``count`` turns."""

    start: Any
    step: int
    count: Any

    def rows(self) -> list[Tensor] | None:
        return None

    def item(self, turn: Any, rows: Sequence[Any]) -> Any:
        scaled = turn if self.step == 1 else turn * self.step
        return scaled if isinstance(self.start, int) and self.start == 0 else scaled + self.start


@dataclass(frozen=True, slots=True)
class Rows:
    """The parts of a tensor along its first axis."""

    tensor: Tensor
    backwards: bool = False

    @property
    def count(self) -> Any:
        return self.tensor.shape[0]

    def rows(self) -> list[Tensor] | None:
        return [self.tensor]

    def item(self, turn: Any, rows: Sequence[Any]) -> Any:
        """The row that is given, or that of a turn where none is."""
        if rows:
            return rows[0]
        place = -1 - turn if self.backwards else turn
        return find("", "Gather")(self.tensor, place, axis=0)


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a sequence."""

    tensor: Tensor

    @property
    def count(self) -> Any:
        return find("", "SequenceLength")(self.tensor)

    def rows(self) -> list[Tensor] | None:
        return None

    def item(self, turn: Any, rows: Sequence[Any]) -> Any:
        return find("", "SequenceAt")(self.tensor, turn)


@dataclass(frozen=True, slots=True)
class Numbered:
    """``enumerate(inner)``"""

    inner: Any

    @property
    def count(self) -> Any:
        return self.inner.count

    def rows(self) -> list[Tensor] | None:
        return None

    def item(self, turn: Any, rows: Sequence[Any]) -> Any:
        return turn, self.inner.item(turn, ())


@dataclass(frozen=True, slots=True)
class Together:
    """``zip`` of tensors of one length."""

    inner: tuple[Any, ...]

    @property
    def count(self) -> Any:
        return self.inner[0].count

    def rows(self) -> list[Tensor] | None:
        found = [each.rows() for each in self.inner]
        if any(each is None or len(each) != 1 for each in found):
            return None
        return [each[0] for each in found if each]

    @property
    def directions(self) -> list[bool]:
        return [each.backwards for each in self.inner]

    def item(self, turn: Any, rows: Sequence[Any]) -> Any:
        return tuple(
            each.item(turn, rows[place : place + 1]) for place, each in enumerate(self.inner)
        )


Source = Range | Rows | Elements | Numbered | Together
_SOURCES = (Range, Rows, Elements, Numbered, Together)


def source_of(items: Any) -> Source | None:
    """What a loop has to be captured for; None for what Python goes over."""
    if isinstance(items, _SOURCES):
        return items
    if isinstance(items, Items):
        return Rows(stack(items))
    if not isinstance(items, Tensor):
        return None
    return Elements(items) if isinstance(items.type, SequenceType) else Rows(items)


def over(function: Callable[..., Any], *args: Any) -> Any:
    """``range``, ``zip``, ``enumerate`` or ``reversed`` of tensors; of other things, and others, as ever."""
    rule = next((rule for builtin, rule in _RULES.items() if builtin is function), None)
    found = rule(*args) if rule is not None and args else None
    return function(*args) if found is None else found


def _range(*args: Any) -> Range | None:
    if not any(isinstance(each, (Tensor, Expr)) for each in args):
        return None
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if not isinstance(step, int) or step == 0:
        raise TraceError(f"{caller()}: the step of a captured range is a number, not a tensor")
    for each in (start, stop):
        if isinstance(each, Tensor) and getattr(dtype_of(each), "kind", "") not in "iu":
            raise TraceError(f"{caller()}: a range counts in integers, not in {each.type}")
    start, stop = (_wide(each) for each in (start, stop))
    if isinstance(start, int) and start == 0 and step == 1:
        return Range(0, 1, stop)
    way = 1 if step > 0 else -1
    distance = (stop - start) * way
    return Range(start, step, _quotient(distance + (abs(step) - 1), abs(step)))


def _quotient(value: Any, by: int) -> Any:
    if by == 1:
        return value
    return find("", "Div")(value, by) if isinstance(value, Tensor) else value // by


def _wide(value: Any) -> Any:
    is_narrow = isinstance(value, Tensor) and dtype_of(value) != "int64"
    return find("", "Cast")(value, to="int64") if is_narrow else value


def _zip(*args: Any) -> Together | None:
    sources = [source_of(each) for each in args]
    found = [each for each in sources if each is not None]
    if not found:
        return None
    if len(found) != len(sources):
        raise TraceError(f"{caller()}: zip() takes tensors, or what Python goes over, not both")
    return Together(tuple(found))


def _enumerate(*args: Any) -> Numbered | None:
    source = source_of(args[0])
    if source is None:
        return None
    if len(args) > 1:
        raise TraceError(f"{caller()}: enumerate() of a tensor starts at 0")
    return Numbered(source)


def _reversed(*args: Any) -> Source | None:
    source = source_of(args[0])
    if isinstance(source, Rows):
        return Rows(source.tensor, not source.backwards)
    if source is not None:
        raise TraceError(f"{caller()}: reversed() takes a tensor, whose rows it turns round")
    return None


_RULES: dict[Any, Callable[..., Source | None]] = {
    range: _range,
    zip: _zip,
    enumerate: _enumerate,
    reversed: _reversed,
}
