"""Attention by cuDNN on an NVIDIA device: each of its ways gives the reference's numbers, NaN included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import ops
from burnx.dtype import DTYPES
from tests.device import test_cuda
from tests.device.test_cuda import DEVICE, HERE, let_libraries_win, results

pytestmark = pytest.mark.skipif(not HERE, reason="no CUDA device is here")
driver = test_cuda.driver  # the fixture

HEADS = 3
ATTENDED = [  # batch, rows, elements of a row, factor of scores
    (1, 197, 64, 0.125),
    (4, 77, 64, 0.125),
    (1, 77, 80, None),
    (4, 197, 80, 0.1),
    (2, 256, 128, 0.08),
]


def attend(x: Any, mask: Any, factor: float | None, wide: int) -> Any:
    """Attention of rows that hold the queries, keys and values of all heads, one beside the other."""
    rows = ops.reshape(x, [0, 0, 3, HEADS, wide])
    q, k, v = (ops.transpose(rows[:, :, place], perm=[0, 2, 1, 3]) for place in range(3))
    scores = ops.mat_mul(q, ops.transpose(k, perm=[0, 1, 3, 2]))
    if factor is not None:
        scores = scores * ops.cast_like(np.float32(factor), scores)
    if mask is not None:
        scores = scores + ops.cast_like(mask, scores)
    made = ops.mat_mul(ops.softmax(scores, axis=-1), v)
    return ops.reshape(ops.transpose(made, perm=[0, 2, 1, 3]), [0, 0, HEADS * wide])


def masks(batch: int, rows: int) -> dict[str, Any]:
    random = np.random.default_rng(rows)
    columns = np.where(random.random((batch, 1, 1, rows)) < 0.3, -np.inf, 0)
    columns[..., 0] = 0
    return {
        "none": None,
        "causal": np.triu(np.full((rows, rows), -np.inf), k=1).astype(np.float32),
        "lowest": np.triu(np.full((rows, rows), -65504.0), k=1).astype(np.float32),
        "heads": random.standard_normal((HEADS, rows, rows)).astype(np.float32),
        "columns": columns.astype(np.float32),
    }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("masked", ["none", "causal", "lowest", "heads", "columns"])
@pytest.mark.parametrize("case", ATTENDED, ids=str)
def test_attention_by_cudnn_gives_right_numbers(
    driver: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[int, int, int, float | None],
    masked: str,
    dtype: str,
) -> None:
    """Each of its ways in turn wins the race; NaN in a query is that row's, and no other's."""
    pytest.importorskip("cudnn")
    from burnx.runtime.devices.gpu import library_forms

    batch, rows, wide, factor = case
    random = np.random.default_rng(wide)
    x = random.standard_normal((batch, rows, 3 * HEADS * wide)).astype(DTYPES[dtype])
    if factor is None:
        x[..., : HEADS * wide] *= 0.125
    x[0, 5, 0] = np.nan  # of the first head's queries
    mask = masks(batch, rows)[masked]

    def model(x: Any) -> Any:
        return attend(x, mask, factor, wide)

    expected = burnx.compile(model, "reference")(x).numpy().astype(np.float32)
    assert np.isnan(expected).sum() == wide
    near = {"float16": 4e-3, "bfloat16": 3e-2}[dtype] * float(np.nanmax(np.abs(expected)))
    let_libraries_win(monkeypatch)
    every, won = library_forms._attention_forms, 0
    for way in range(library_forms.WAYS):
        monkeypatch.setattr(
            library_forms, "_attention_forms", lambda *given, way=way: every(*given)[way : way + 1]
        )
        monkeypatch.setenv("BURNX_CACHE", str(tmp_path / f"{way}" / "kernels"))
        tuned = burnx.compile(model, DEVICE, tune=True)
        for _ in range(4):  # the third call records, the fourth replays
            found = tuned(x).numpy().astype(np.float32)
            np.testing.assert_allclose(found, expected, rtol=near, atol=near)
        kept = results(tmp_path / f"{way}")
        assert "wrong" not in {verdict for each in kept for _, _, verdict in each["laps"]}, kept
        won += any(each["form"]["matrices"] == "cudnn" for each in kept)
    assert won, "cuDNN does it on every device that is new enough"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_masks_that_may_hide_all_of_a_row_are_not_cudnns(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    pytest.importorskip("cudnn")
    let_libraries_win(monkeypatch)
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 77, 3 * HEADS * 64)).astype(dtype)
    mask = np.zeros((2, 1, 1, 77), dtype)
    tuned = burnx.compile(lambda x, mask: attend(x, mask, 0.125, 64), DEVICE, tune=True)
    tuned(x, mask)
    mask[1] = -np.inf
    found = tuned(x, mask).numpy()
    assert np.isnan(found[1]).all() and np.isfinite(found[0]).all()
    attention = [each for each in results(tmp_path) if each["form"]["kind"] == "library"]
    assert not [each for each in attention if each["form"]["matrices"] == "cudnn"]
