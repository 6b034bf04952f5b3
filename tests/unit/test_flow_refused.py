"""What cannot be captured without becoming something else is refused where a tensor decides, and stays Python elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnx
from burnx.errors import BurnxError


@burnx.script
def assigns(x: Any) -> Any:
    while (m := x.max()) < 50:
        x = x * 2 + 1
    return x + m


@burnx.script
def tries(x: Any) -> Any:
    try:
        if x.max() > 0:
            x = x.reshape(7)
    except Exception:
        x = x - 1
    return x


@burnx.script
def catches(x: Any, most: int = 0) -> Any:
    try:
        if x.ndim > most:
            raise ValueError("bad")
    except ValueError:
        x = x + 1
    return x


@burnx.script
def binds_late(x: Any) -> Any:
    made = []
    for number in range(3):
        made.append(lambda y: y + number - 1)  # noqa: B023, PERF401
    return made[0](x)


@burnx.script
def raises(x: Any) -> Any:
    if x.max() > 0:
        raise ValueError("bad")
    return x


@burnx.script
def checks(x: Any, most: int = 3) -> Any:
    if x.ndim > most:
        raise ValueError("bad")
    return x + 1


@burnx.script
def asserts(x: Any) -> Any:
    assert x.max() < 0
    return x + 1


@burnx.script
def assigns_inside(x: Any) -> Any:
    return (m if (m := x.max()) > 0 else x) + 1


@burnx.script
def assigns_between(x: Any) -> Any:
    return x + 1 if x.ndim and (m := x.max()) < 0 and m < 7 else x


@burnx.script
def leaves_out(x: Any) -> Any:
    return x + sum(1 for number in range(1) if x.max() < number)


@burnx.script
def matches(x: Any) -> Any:
    match x.ndim:
        case rank if x.max() < rank:
            return x + 1
    return x


@burnx.script
def counts(x: Any) -> Any:
    return x + len(range(-int(x.max())))


@burnx.script
def scripts_inside(x: Any) -> Any:
    step = 1

    @burnx.script
    def inner(y: Any) -> Any:
        if y.max() < 0:
            y = y + step
        return y

    return inner(x)


X = np.array([-1, -2, -3, -1], np.float32)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (assigns, "assigns a name"),
        (tries, "in a try"),
        (raises, "holds a raise"),
        (asserts, "this assert .* a graph cannot fail"),
        (assigns_inside, "this if else .* assigns a name"),
        (assigns_between, "this and .* assigns a name"),
        (leaves_out, "this if of a comprehension"),
        (matches, "this case .* use if and elif"),
        (counts, "nothing else that decides"),
    ],
)
def test_a_tensor_does_not_decide_this(model: Any, reason: str) -> None:
    with pytest.raises(BurnxError, match=reason) as caught:
        burnx.compile(model, "reference")(X)
    assert vars(burnx.errors)[caught.type.__name__] is caught.type  # people can catch it


@pytest.mark.parametrize("model", [asserts, assigns_between, leaves_out, matches, counts])
def test_a_value_that_is_known_does(model: Any) -> None:
    np.testing.assert_array_equal(model(burnx.ops.identity(X)).numpy(), X + 1)


def test_a_function_inside_may_be_scripted_as_well() -> None:
    graph = burnx.trace(scripts_inside, X)
    assert [node.operator for node in graph.nodes][-1] == "If"
    np.testing.assert_array_equal(burnx.compile(scripts_inside, "reference")(X).numpy(), X + 1)


def test_a_number_does() -> None:
    for model in (checks, catches, binds_late):
        found = burnx.compile(model, "reference")(X)
        np.testing.assert_array_equal(found.numpy(), X + 1)
