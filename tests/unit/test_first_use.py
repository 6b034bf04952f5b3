"""What a person meets in a first hour: models in a REPL, slips in a call, tensors from elsewhere, copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import Tensor, nn, ops
from burnx.errors import TraceError

X = np.array([1, -1, 2], np.float32)


# ------------------------------------------------------------------------------------ tensors from elsewhere
def test_what_a_plain_call_gave_is_a_constant_of_a_capture(tmp_path: Path) -> None:
    y, path = ops.relu(X) + 1, tmp_path / "m.onnx"

    def model(x: Tensor) -> Any:
        return x * y, burnx.cond(x.sum() > 0, lambda: y, lambda: x)

    burnx.export_onnx(model, {"x": X}, path)
    for found in (burnx.load(path)(X), [each.numpy() for each in burnx.compile(model)(X)]):
        np.testing.assert_array_equal(found[0], [2, -1, 6])
        np.testing.assert_array_equal(found[1], [2, 1, 3])


def test_weight_may_be_what_a_plain_call_gave(tmp_path: Path) -> None:
    module, path = nn.Linear(3, 2), tmp_path / "m.onnx"
    expected = 2 * module(X[None]).numpy()
    setattr(module, "weight", module.weight * 2)  # noqa: B010
    burnx.export_onnx(module, {"x": X[None]}, path)
    np.testing.assert_allclose(burnx.load(path)(X[None]), expected, rtol=1e-5)


def test_tensor_that_outlives_its_capture_is_named() -> None:
    kept: list[Tensor] = []

    def keeping(x: Tensor) -> Tensor:
        kept.append(x * 2)
        return x

    def leaking(x: Tensor) -> Tensor:
        burnx.cond(x.sum() > 0, lambda: keeping(x), lambda: x)
        return kept[-1]

    burnx.trace(keeping, X)
    for model in (lambda x: x + kept[0], lambda x: kept[0], leaking):
        with pytest.raises(TraceError, match=r"test_first_use\.py:\d+: a tensor is of use only"):
            burnx.trace(model, X)
