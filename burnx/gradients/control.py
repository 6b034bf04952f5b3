"""What has no derivative: control flow, the host's functions, and parts of a graph that wait for a value."""

from __future__ import annotations

from burnx.gradients.rules import Cotangents, Step, rule
from burnx.tensor import Tensor, Undetermined


@rule("defer")
def defer_rule(step: Step, *by: Tensor | None) -> Cotangents:
    """What the rest waits for, all of it waits for.

    Raises: Undetermined
    """
    rest = step.attributes["continuation"]
    for value, x in zip(rest.types, step.inputs, strict=True):
        if value in rest.wanted:
            raise Undetermined(x.ref, rest.wanted[value])
    raise step.refuse("a part that is lowered while running")


@rule("cond", "loop")
def flow_rule(step: Step, *by: Tensor | None) -> Cotangents:
    raise step.refuse(f"a {'branch' if step.primitive == 'cond' else 'loop'}")


@rule("host")
def host_rule(step: Step, *by: Tensor | None) -> Cotangents:
    raise step.refuse(f"{step.attributes['name']}, which runs in Python")


@rule("bitcast")
def bitcast_rule(step: Step, *by: Tensor | None) -> Cotangents:
    raise step.refuse("the bits of numbers")
