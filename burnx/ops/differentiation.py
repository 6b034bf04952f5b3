"""Gradient of ONNX's preview domain: the derivatives of part of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from burnx import waist
from burnx.errors import ModelError
from burnx.graph import Graph
from burnx.ops.kinds import T1, T2
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor
from burnx.types import Type

TRAINING = "ai.onnx.preview.training"


@operator("Gradient", since=(1,), domain=TRAINING)
def gradient(
    *inputs: T1,
    xs: Sequence[str] = REQUIRED,  # type: ignore[assignment]
    y: Graph | Callable[..., Tensor] = REQUIRED,  # type: ignore[assignment]
    zs: Sequence[str] | None = None,
) -> list[T2]:
    """The derivatives of the sum of ``y`` by each of the tensors that ``xs`` names, at the values given for them.

    In a file ``y`` names a tensor; here it is what gives that tensor: a function of those that ``xs`` and then ``zs``
    name.
    Source: ONNX preview training Gradient-1
    """
    if isinstance(y, str) or not (isinstance(y, Graph) or callable(y)):
        raise ModelError(f'y is a function of what xs and zs name, not "{y}"')
    count = len(xs)
    if len(inputs) != count + len(zs or ()) or not count:
        raise ModelError(f"xs and zs name {count + len(zs or ())} inputs, not {len(inputs)}")

    def run(given: Sequence[Tensor]) -> Tensor:
        if not isinstance(y, Graph):
            return y(*given)
        results = waist.inline_whole(y, given)
        if len(results) != 1:
            raise ModelError(f"Gradient differentiates one tensor, not {len(results)}")
        return results[0]

    from burnx.gradients import gradients  # rarely needed

    return gradients(run, inputs[:count], inputs[count:])


@gradient.bodies
def _gradient_bodies(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> list[Type]:
    """The function is given what the operator is."""
    if any(kind is None for kind in inputs):
        raise ModelError("Gradient has no inputs that may be left out")
    return cast("list[Type]", list(inputs))


@gradient.infer
def _gradient_types(
    inputs: Sequence[Type], attributes: Mapping[str, Any], count: int
) -> list[Type]:
    """A derivative is like what it is taken by."""
    return list(inputs[: len(attributes["xs"])])


gradient.limit(
    "no derivative through sequences and what else runs in Python, complex numbers, and loops whose state changes "
    "its shape",
    tests="^test_gradient_(of|through)_(sequence|complex|loop|if)",
)
