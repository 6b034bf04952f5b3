"""What people write who know NumPy or PyTorch: an error says what it is called and how it is written here."""

from __future__ import annotations

import copy
import math
import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import Tensor, nn, ops
from burnx.errors import BurnxError, TraceError
from burnx.ops.other_names import METHOD_NAMES, SPELLINGS

X = np.array([[1, 2], [3, 4]], np.float32)


# ------------------------------------------------------------------------------------ the table
def words(*shape: int) -> dict[str, Any]:
    """Values for the names that spellings use, where x has this shape."""
    x = ops.identity(np.full(shape, 0.5, np.float32))
    channels, rank = shape[1] if len(shape) > 1 else 1, len(shape)
    heads = np.ones((1, 1, 2, 2), np.float32)
    return {
        "burnx": burnx,
        "ops": ops,
        "x": x,
        "y": x + 1,
        "mask": x > 0,
        "sizes": np.array(shape),
        "index": ops.identity(np.zeros(shape, np.int64)),
        "axis": 0,
        "size": 1,
        "low": 0,
        "high": 1,
        "start": 0,
        "end": 1,
        "query": heads,
        "key": heads,
        "value": heads,
        "weight": np.ones((channels, channels, *(1,) * (rank - 2)), np.float32)
        if rank > 2
        else np.ones(2, np.float32),
        "bias": np.zeros(channels, np.float32),
    }


@pytest.mark.parametrize("name", SPELLINGS)
def test_what_is_to_be_written_works(name: str) -> None:
    expression = re.split(r"; |: |, which ", SPELLINGS[name])[0]
    for shape in ((2, 2), (1, 2, 4), (1, 2, 4, 4), (1, 2, 4, 4, 4)):
        with suppress(BurnxError):
            found = eval(expression, words(*shape))
            for each in found if isinstance(found, (list, tuple)) else [found]:
                assert isinstance(each, (Tensor, int))
                np.asarray(each)
            return
    pytest.fail(f"{expression} works on no tensor")


def test_the_table_is_of_other_names_only() -> None:
    assert not set(SPELLINGS) & {*METHOD_NAMES, *dir(ops)}


# ------------------------------------------------------------------------------------ attributes
ATTRIBUTES = {
    "silu": ("ops", "; write ops.swish(x)"),
    "ReLU": ("ops", "; did you mean 'relu'?"),
    "relu_": ("ops", "; did you mean 'relu'?"),
    "logsoftmax": ("ops", "; did you mean 'log_softmax'?"),
    "rellu": ("ops", "; did you mean 'relu'?"),
    "astype": ("ops", "; write x.astype()"),
    "view": ("x", "; write x.reshape(-1, 1)"),
    "permute": ("x", "; write x.transpose(1, 0)"),
    "size": ("x", "; write ops.size(x)"),
    "relu": ("x", "; write ops.relu(x)"),
    "softmax": ("x", "; write ops.softmax(x)"),
    "masked_fill_": ("x", "; write ops.where(mask, 0.0, x)"),
    "Reshape": ("x", "; did you mean 'reshape'?"),
    "shap": ("x", "; did you mean 'shape'?"),
    "zzz": ("x", "'zzz'"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_that_is_not_there(name: str) -> None:
    where, says = ATTRIBUTES[name]
    for holder in [ops] if where == "ops" else [ops.relu(X), nn.Parameter(2, 2)]:
        assert not hasattr(holder, name)
        with pytest.raises(AttributeError, match=re.escape(says) + "$"):
            getattr(holder, name)


def test_in_a_capture_the_line_is_named() -> None:
    with pytest.raises(BurnxError, match=r"no 'view'; write x\.reshape.*test_other_names\.py"):
        burnx.trace(lambda x: x.view(4), X)


def test_tensors_are_copied_and_pickled() -> None:
    for given in (ops.relu(X), nn.Parameter(2, 2)):
        for made in (copy.copy(given), copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
            np.testing.assert_array_equal(made.numpy(), given.numpy())


# ------------------------------------------------------------------------------------ functions of NumPy's
@burnx.script
def scripted_tanh(x: Any) -> Any:
    return np.tanh(x)


@burnx.script
def scripted_sum(x: Any) -> Any:
    return x * np.sum(x)


CALLS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a ufunc": (lambda x: np.tanh(x), "np.tanh()", "write ops.tanh(x)"),
    "one of another name": (lambda x: np.maximum(x, 2), "np.maximum()", "write ops.max(x, y)"),
    "inside of others": (lambda x: 1 + 2 * np.exp(-x), "np.exp()", "write ops.exp(x)"),
    "a method here": (lambda x: np.mean(x, axis=0), "np.mean()", "write x.mean()"),
    "of several": (lambda x: np.concatenate([x, x]), "np.concatenate()", "write ops.concat("),
    "of no operator": (lambda x: np.hypot(x, x), "np.hypot()", "by its methods and burnx.ops"),
    "of math": (lambda x: math.tanh(x[0, 0]), "math.tanh()", "write ops.tanh(x)"),
    "an array": (lambda x: np.asarray(x), "np.asarray()", "a tensor already"),
    "numpy": (lambda x: x.numpy(), "numpy()", "by its methods and burnx.ops"),
    "item": (lambda x: x.sum().item(), "item()", "a tensor of one element"),
    "float": (lambda x: float(x.sum()), "float()", "a tensor of one element"),
    "a list's index": (lambda x: [1, 2][x.argmax(1)[0]], "an index", "ops.gather"),
    "under script": (scripted_tanh, "np.tanh()", "write ops.tanh(x)"),
    "a function under script": (scripted_sum, "np.sum()", "write x.sum()"),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_function_of_values_is_named_with_what_to_write(kind: str) -> None:
    function, called, says = CALLS[kind]
    with pytest.raises(TraceError) as caught:
        burnx.trace(function, X)
    message = str(caught.value)
    assert re.match(rf"test_other_names\.py:\d+: {re.escape(called)} needs the value", message)
    assert says in message
    assert "put @burnx.script" not in message


@pytest.mark.parametrize("kind", CALLS)
def test_in_a_plain_call_it_works_on_values(kind: str) -> None:
    function = getattr(CALLS[kind][0], "__wrapped__", CALLS[kind][0])
    np.testing.assert_allclose(np.asarray(function(ops.identity(X))), np.asarray(_numpy(function)))


def _numpy(function: Callable[[Any], Any]) -> Any:
    """What the function gives for NumPy's own array."""
    return function(ops.identity(X).numpy().view(_Array))


class _Array(np.ndarray[Any, Any]):
    """An array that has the method of tensors, too."""

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.asarray(self)


def test_shapes_are_known_to_numpy_as_well() -> None:
    graph = burnx.trace(lambda x: x * np.shape(x)[0] + np.ndim(x), X)
    np.testing.assert_array_equal(
        burnx.compile(lambda x: x * np.shape(x)[0] + np.ndim(x))(X).numpy(), X * 2 + 2
    )
    assert len(graph.nodes) == 2


def test_arithmetic_with_arrays_is_the_tensors() -> None:
    def model(x: Any) -> Any:
        total = np.zeros((2, 2), np.float32)
        total += x
        return np.float32(2) * (total + X @ x) - X

    expected = 2 * (X + X @ X) - X
    np.testing.assert_allclose(burnx.compile(model)(X).numpy(), expected)
    np.testing.assert_allclose(model(ops.identity(X)).numpy(), expected)


def test_results_inside_of_results_are_refused() -> None:
    for function in (lambda x: (x, [x, x]), lambda x: [(x,)]):
        with pytest.raises(TraceError, match="gives tensors side by side, not in a"):
            burnx.trace(function, X)
