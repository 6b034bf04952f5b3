"""What surrounds an attention in exported files leaves it one kernel: scales of its operands, rows with nothing to see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnx import compile as compile_model
from burnx import ops
from burnx.runtime.devices.gpu import building

pytest.importorskip("pyopencl")
SHAPE = (2, 2, 70, 32)  # batch, heads, length, width


def kinds_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the forms of all launches from now on."""
    found: list[str] = []
    make_plan = building.make_plan

    def note(*arguments: Any) -> Any:
        plan = make_plan(*arguments)
        found.extend(each.code.form.kind for each in plan.launches)
        return plan

    monkeypatch.setattr(building, "make_plan", note)
    return found


def scaled_operands(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scale = np.asarray(SHAPE[-1] ** -0.25, np.float16)
    scores = ops.mat_mul(q * scale, ops.transpose(k, perm=[0, 1, 3, 2]) * scale)
    return ops.mat_mul(ops.softmax(scores, axis=-1), v)


def empty_rows(q: Any, k: Any, v: Any, mask: Any) -> Any:
    weights = ops.softmax(ops.mat_mul(q, ops.transpose(k, perm=[0, 1, 3, 2])) + mask, axis=-1)
    seen = ops.where(ops.is_nan(weights), np.asarray(0, np.float16), weights)
    return ops.mat_mul(seen, v)


@pytest.mark.parametrize("model", [scaled_operands, empty_rows])
def test_an_attention_is_one_kernel(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds, draw = kinds_of(monkeypatch), np.random.default_rng(0)
    q, k, v = (draw.standard_normal(SHAPE).astype(np.float16) for _ in range(3))
    mask = np.where(draw.random((2, 1, 70, 70)) < 0.5, -np.inf, 0).astype(np.float16)
    mask[0, 0, 3] = -np.inf
    mask[:, :, 20:40, :64] = -np.inf  # the first keys of these rows are hidden
    found = compile_model(model, "opencl:0")(q, k, v, mask).numpy()
    expected = compile_model(model, "reference")(q, k, v, mask).numpy()
    assert kinds == ["attention"]
    assert not np.isnan(found).any()
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


def whole(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ops.attention(q, k, v, mask)


def shared_heads(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ops.attention(q, k[:, :1], v[:, :1], mask)


def capped(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ops.attention(q, k, v, mask, softcap=2.0, scale=0.3)


def hidden(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ops.attention(q, k, v, mask == 0)


@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        (whole, "float16"),
        (whole, "float32"),
        (shared_heads, "float16"),
        (capped, "float16"),
        (hidden, "float32"),
    ],
)
def test_the_operator_is_one_kernel_on_what_it_is_given(
    model: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that see nothing are zeros; what is no number stays so."""
    kinds, draw = kinds_of(monkeypatch), np.random.default_rng(1)
    q, k, v = (draw.standard_normal(SHAPE).astype(dtype) for _ in range(3))
    mask = np.where(draw.random((2, 1, 70, 70)) < 0.5, -np.inf, 0).astype(dtype)
    mask[0, 0, 3] = -np.inf
    mask[:, :, 20:40, :64] = -np.inf
    q[1, 1, 5, 7], v[0, :, 3, 4] = np.nan, np.inf
    found = compile_model(model, "opencl:0")(q, k, v, mask).numpy()
    expected = compile_model(model, "reference")(q, k, v, mask).numpy()
    assert kinds.count("attention") == 1 and "group" not in kinds
    if dtype == "float16" and model in (whole, capped):
        assert kinds == ["attention"], "operands are read as they lie"
    assert np.isnan(expected[1, 1, 5]).all() and not expected[0, :, 3, :4].any()
    assert np.isnan(expected[0, :, 3, 4]).all(), "0 times infinity is no number"
    near = {"float16": 1e-2, "float32": 1e-5}[dtype]
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)


def rounded(q: Any, k: Any, v: Any) -> Any:
    """What is multiplied is rounded to float16, and widened again."""
    q = ops.cast(ops.cast(ops.cast(q, to=1) * np.float32(0.3), to=10), to=1)
    scores = ops.mat_mul(q, ops.transpose(ops.cast(k, to=1), perm=[0, 1, 3, 2]))
    return ops.mat_mul(ops.softmax(scores * np.float32(8), axis=-1), ops.cast(v, to=1))


def test_what_is_rounded_on_its_way_is_not_read_as_it_was() -> None:
    draw = np.random.default_rng(2)
    given = [draw.standard_normal((1, 2, 20, 16)).astype(np.float16) for _ in range(3)]
    found, expected = (
        compile_model(rounded, on)(*given).numpy() for on in ("opencl:0", "reference")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
