"""What a rule is: from the derivatives by a primitive's outputs to those by its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from burnx import waist
from burnx.errors import UnsupportedError
from burnx.shape import Dim, Undecided, same
from burnx.tensor import Tensor, Undetermined

Cotangents: TypeAlias = Sequence[Tensor | None]
Rule: TypeAlias = "Callable[..., Cotangents]"


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive that was applied: its operands, its results, and the node it came from.

    ``takes`` says by which of the operands a derivative is wanted.
    """

    primitive: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any]
    takes: tuple[bool, ...]
    place: str = ""

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    def refuse(self, what: str) -> UnsupportedError:
        """The error that there is no derivative through this."""
        at = f", {self.place}" if self.place else ""
        return UnsupportedError(f"Gradient has no derivative of {what}{at}")


RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register ``function(step, *derivatives)`` for primitives; it gives a derivative, or None, for each input.

    The derivatives by outputs come in their order, None for those on which the result does not depend.
    """

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


# ------------------------------------------------------------------------------- arithmetic of rules
def number(value: float, like: Tensor) -> Tensor:
    """A scalar of the dtype of ``like``."""
    return waist.constant(value, like.dtype)


def filled(value: float, like: Tensor) -> Tensor:
    """A tensor of the shape and dtype of ``like``."""
    return waist.broadcast(number(value, like), like.shape)


def times(*factors: Tensor) -> Tensor:
    result = factors[0]
    for factor in factors[1:]:
        result = waist.map("mul", result, factor)
    return result


def over(left: Tensor, right: Tensor) -> Tensor:
    return waist.map("div", left, right)


def negated(x: Tensor) -> Tensor:
    return waist.map("neg", x)


def where(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return waist.map("select", condition, yes, no)


def is_same(left: Dim, right: Dim, of: Tensor) -> bool:
    """Whether two sizes are equal.

    Raises: Undetermined if that depends on sizes that are only known while running.
    """
    try:
        return same(left, right)
    except Undecided:
        raise Undetermined(of.ref, "shape") from None
