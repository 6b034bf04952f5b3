"""RNN, GRU and LSTM against onnxruntime, and what onnxruntime does not do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from one_node import run_node, run_onnxruntime

from burnx.errors import ModelError, ShapeError

TIME, BATCH, IN, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OUTPUTS = {"RNN": 2, "GRU": 2, "LSTM": 3}
INPUTS = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]


def weights(op: str, directions: int, **extra: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = GATES[op] * HIDDEN
    shapes = {
        "X": (TIME, BATCH, IN),
        "W": (directions, rows, IN),
        "R": (directions, rows, HIDDEN),
        "B": (directions, 2 * rows),
    }
    found = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return found | extra


def state(directions: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(directions, BATCH, HIDDEN)).astype(np.float32)


def both(op: str, feeds: dict[str, np.ndarray], **attributes: Any) -> None:
    """Compare every output, with time and batch as dims."""
    options = {
        "opset": 14,
        "outputs": OUTPUTS[op],
        "inputs": [name if name in feeds else "" for name in INPUTS[: 8 if op == "LSTM" else 6]],
        "dims": {"X": ["time", "batch", IN]},
        "hidden_size": HIDDEN,
        **attributes,
    }
    for ours, theirs in zip(
        run_node(op, feeds, **options), run_onnxruntime(op, feeds, **options), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_ends_of_sequences_and_first_states(op: str, direction: str) -> None:
    directions = 1 + (direction == "bidirectional")
    feeds = weights(op, directions, sequence_lens=np.array([5, 2, 3], np.int32))
    feeds["initial_h"] = state(directions)
    if op == "LSTM":
        feeds["initial_c"] = -state(directions)
    both(op, feeds, direction=direction)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        (
            "LSTM",
            {
                "activations": ["HardSigmoid", "ScaledTanh", "LeakyRelu"],
                "activation_alpha": [0.3, 0.8],
                "activation_beta": [0.4, 0.9],
            },
        ),
        ("LSTM", {"activations": ["Sigmoid", "Softsign", "Affine"], "activation_alpha": [0.5]}),
        ("GRU", {"activations": ["ThresholdedRelu", "Elu"], "activation_alpha": [0.2, 0.7]}),
        ("RNN", {"activations": ["Softplus"]}),
        ("LSTM", {"input_forget": 1}),
        ("GRU", {"linear_before_reset": 1}),
    ],
)
def test_activations_with_a_clip(op: str, attributes: dict[str, Any]) -> None:
    both(op, weights(op, 1), clip=0.7, **attributes)


def test_peepholes() -> None:
    rng = np.random.default_rng(3)
    both("LSTM", weights("LSTM", 1, P=rng.normal(size=(1, 3 * HIDDEN)).astype(np.float32)))


@pytest.mark.parametrize("op", GATES)
def test_batch_first_is_the_same_numbers_elsewhere(op: str) -> None:
    feeds = weights(op, 2, initial_h=state(2))
    names = [name if name in feeds else "" for name in INPUTS[:6]]
    given = {"inputs": names, "outputs": 2, "direction": "bidirectional", "opset": 22}
    y, last = run_node(op, feeds, **given)
    swapped = {**feeds, "X": feeds["X"].swapaxes(0, 1).copy()}
    swapped["initial_h"] = feeds["initial_h"].swapaxes(0, 1).copy()
    y_first, last_first = run_node(op, swapped, layout=1, **given)
    np.testing.assert_allclose(y_first, y.transpose(2, 0, 1, 3), rtol=1e-6)
    np.testing.assert_allclose(last_first, last.swapaxes(0, 1), rtol=1e-6)


def test_no_time_leaves_the_first_state() -> None:
    feeds = weights("GRU", 1, initial_h=state(1))
    feeds["X"] = feeds["X"][:0]
    y, last = run_node("GRU", feeds, inputs=[*"XWRB", "", "initial_h"], outputs=2)
    assert y.shape == (0, 1, BATCH, HIDDEN)
    np.testing.assert_array_equal(last, feeds["initial_h"])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_low_precision_is_rounded_once(dtype: Any) -> None:
    feeds = {name: array.astype(dtype) for name, array in weights("LSTM", 1).items()}
    wide = {name: array.astype(np.float64) for name, array in feeds.items()}
    (y, *_), (expected, *_) = (
        run_node("LSTM", each, outputs=3, opset=22) for each in (feeds, wide)
    )
    assert y.dtype == dtype
    step = 1e-12 if dtype == np.float64 else float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=step, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"direction": "sideways"}, "sideways"),
        ({"activations": ["Sigmoid", "Swish", "Tanh"]}, "Swish"),
        ({"activations": ["Tanh"]}, "3 activations"),
        ({"activations": ["Sigmoid", "ScaledTanh", "Tanh"]}, "ScaledTanh"),
        ({"hidden_size": 7}, "hidden_size 7"),
    ],
)
def test_what_does_not_fit_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        run_node("LSTM", weights("LSTM", 1), outputs=3, **attributes)


@pytest.mark.parametrize("op", OUTPUTS)
@pytest.mark.parametrize("open_dims", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, HIDDEN), (1, BATCH + 1, HIDDEN), (1, BATCH, 1)])
def test_a_state_of_another_batch_is_refused(
    op: str, open_dims: bool, shape: tuple[int, ...]
) -> None:
    """Not spread over the batch: onnxruntime refuses it, too."""
    feeds = weights(op, 1, initial_h=np.ones(shape, np.float32))
    dims = {"X": ["time", "batch", IN], "initial_h": [1, "rows", "units"]} if open_dims else {}
    inputs = ["X", "W", "R", "B", "", "initial_h"]
    options = {"opset": 14, "outputs": OUTPUTS[op], "inputs": inputs, "hidden_size": HIDDEN}
    for where in ("reference", "cpu"):
        with pytest.raises(ShapeError, match=op):
            run_node(op, feeds, dims=dims, where=where, **options)
    with pytest.raises(Exception, match="initial_h"):
        run_onnxruntime(op, feeds, **options)
