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


X = np.array([-1, -2, -3, -1], np.float32)


@pytest.mark.parametrize(
    ("model", "reason"),
    [(assigns, "assigns a name"), (tries, "in a try"), (raises, "holds a raise")],
)
def test_a_tensor_does_not_decide_this(model: Any, reason: str) -> None:
    with pytest.raises(BurnxError, match=reason):
        burnx.compile(model, "reference")(X)


def test_a_number_does() -> None:
    for model in (checks, catches, binds_late):
        found = burnx.compile(model, "reference")(X)
        np.testing.assert_array_equal(found.numpy(), X + 1)
