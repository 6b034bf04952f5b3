"""Calls of what is compiled, traced or loaded: arguments by place and by name, and what is said of wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import Input, Output, Tensor, nn, ops
from burnx.errors import InputError

X = np.array([[1, 2], [3, 4]], np.float32)


class Declared(nn.Module):
    inputs = (Input("in.x", "float32", ("n", 2), parameter="x"), Input("y", "float32", (2,)))
    outputs = (Output("sum", "float32", ("n", 2)), Output("product", "float32", ("n", 2)))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + y, x * y


class Plain(nn.Module):
    def forward(self, x: Tensor, y: Tensor, *, scale: Tensor, shift: Tensor | None = None) -> Any:
        return (x - y) * scale if shift is None else (x - y) * scale + shift


def choosing(x: Any, low: Any = None, high: Any = None, /, *, factor: Any = None) -> Any:
    x = x if low is None else ops.max(x, low)
    x = x if high is None else ops.min(x, high)
    return x if factor is None else x * factor


# ------------------------------------------------------------------------------------ right ones
def test_an_argument_that_is_left_out_is_its_default() -> None:
    compiled = burnx.compile(choosing)
    two = np.float32(2)
    for given, named, expected in (
        ((X,), {}, X),
        ((X, None, two), {}, np.minimum(X, 2)),
        ((X, two), {}, np.maximum(X, 2)),
        ((X, None, None), {"factor": two}, X * 2),
        ((X, None, two), {"factor": two}, np.minimum(X, 2) * 2),
    ):
        np.testing.assert_array_equal(compiled(*given, **named).numpy(), expected)
    graph = burnx.trace(choosing, X, None, two)
    assert [node.operator for node in graph.nodes] == ["Min"]


@pytest.mark.parametrize("make", [burnx.compile, lambda net: net], ids=["compiled", "plain"])
def test_arguments_have_names(make: Callable[[Any], Any]) -> None:
    declared, plain = make(Declared()), make(Plain())
    for found in (
        declared(X, X[0]),
        declared(X, y=X[0]),
        declared(y=X[0], x=X),
        declared(**{"in.x": X, "y": X[0]}),
    ):
        np.testing.assert_array_equal(found[0].numpy(), X + X[0])
    for given in ({"scale": X}, {"scale": X, "shift": X}):
        found = plain(X, y=X[0], **given).numpy()
        np.testing.assert_array_equal(found, (X - X[0]) * X + given.get("shift", 0))


def test_what_is_compiled_runs_by_name_as_what_is_loaded(tmp_path: Any) -> None:
    burnx.export_onnx(Declared(), {}, tmp_path / "m.onnx")
    loaded, compiled = burnx.load(tmp_path / "m.onnx"), burnx.compile(Declared())
    inputs = {"in.x": X, "y": X[0]}
    expected = loaded.run(inputs)
    for found in (compiled.run(inputs), compiled.run({"x": X, "y": X[0]})):
        assert list(found) == list(expected) == ["sum", "product"]
        for name, value in expected.items():
            assert type(found[name]) is type(value) is np.ndarray
            np.testing.assert_array_equal(found[name], value)
    np.testing.assert_array_equal(loaded(X, y=X[0])[0], expected["sum"])
    for wrong in ({**inputs, "z": X}, {"in.x": X}, {**inputs, "y": X}, [X]):
        for model in (loaded, compiled):
            with pytest.raises(InputError):
                model.run(wrong)  # type: ignore[arg-type]


def test_outputs_without_a_name_get_one() -> None:
    assert list(burnx.compile(lambda x: x + 1).run({"x": X})) == ["output"]
    assert list(burnx.compile(lambda x: (x, x + 1)).run({"x": X})) == ["output_0", "output_1"]


def test_outputs_that_are_not_declared_are_not_run_by_name() -> None:
    class Edited(Declared):
        outputs = (Output("sum", "float32", ("n", 3)),)

    compiled = burnx.compile(Edited())
    assert len(compiled(X, X[0])) == 2
    with pytest.raises(burnx.BurnxError, match="Edited in .* does not declare the outputs"):
        compiled.run({"x": X, "y": X[0]})


# ------------------------------------------------------------------------------------ wrong ones
WRONG: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], str]] = {
    "none of a function": (
        choosing,
        (),
        {},
        "choosing takes (x, low=..., high=..., factor=...); not given: x",
    ),
    "none of a module": (
        Plain(),
        (),
        {},
        "Plain.forward takes (x, y, scale, shift=...); not given: x, y, scale",
    ),
    "one too few": (Plain(), (X,), {"scale": X}, "not given: y"),
    "one too few in the middle": (Plain(), (X, None, X), {}, "not given: y"),
    "one too many": (Plain(), (X,) * 5, {}, "Plain takes 4 inputs, not 5: x, y, scale, shift"),
    "a name that is not there": (Plain(), (X, X), {"scales": X}, 'Plain has no input "scales"'),
    "twice": (Plain(), (X, X), {"x": X}, 'Plain is given its input "x" twice'),
    "declared, none": (Declared(), (), {}, 'input "in.x" (float32(n, 2)) is missing'),
    "declared, too few": (Declared(), (X,), {}, 'input "y" (float32(2)) is missing'),
    "declared, too many": (Declared(), (X, X, X), {}, "Declared takes 2 inputs, not 3"),
    "declared, another name": (Declared(), (X,), {"z": X}, 'Declared has no input "z"'),
    "declared, twice": (Declared(), (X, X[0]), {"x": X}, 'its input "in.x" twice'),
    "no array": (Plain(), (object(), X), {"scale": X}, 'input "x" is an array of str, which not'),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_arguments_name_the_model_and_the_parameter(kind: str) -> None:
    model, given, named, says = WRONG[kind]
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        burnx.compile(model)(*given, **named)
    assert "trace.py" not in str(caught.value)


def test_a_forward_that_takes_less_than_is_declared_is_named() -> None:
    class Short(Declared):
        def forward(self, x: Tensor) -> Any:  # type: ignore[override]
            return x, x

    with pytest.raises(InputError, match=r"Short\.forward takes \(x\); 1 more are given"):
        burnx.compile(Short())(X, X[0])


def test_a_slip_inside_of_a_model_is_at_its_own_line() -> None:
    def model(x: Any) -> Any:
        return nn.Linear(2, 2)(x, x)

    with pytest.raises(burnx.BurnxError, match=r"raised TypeError: .*test_calls\.py', line \d+"):
        burnx.compile(model)(X)
