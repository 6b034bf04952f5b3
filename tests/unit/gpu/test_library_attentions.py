"""Attentions that a library may do: what it is asked for means the kernel, and what it cannot mean is not asked for.

The library is NumPy here (numpy_library.py); cuDNN's own tests are in tests/device/test_cuda_attention.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import burnx
from burnx import ops
from burnx.dtype import DTYPES
from burnx.gpu.attention_parts import attention_of
from burnx.gpu.code import Form
from burnx.gpu.forms import fit_threads
from burnx.runtime.devices.gpu import building, choosing
from burnx.runtime.devices.gpu.flow import task_of
from burnx.runtime.devices.gpu.library import LIBRARY, as_row, from_row, library_of
from burnx.runtime.devices.gpu.library_attention import Attention
from burnx.runtime.devices.gpu.library_attentions import is_tame
from burnx.runtime.devices.gpu.library_forms import library_forms
from burnx.shape import evaluate
from tests.unit.gpu.attentions import (
    CAUSAL,
    MODELS,
    REFUSED,
    ROWS,
    Array,
    K,
    Model,
    Q,
    V,
    like,
    make,
    shared,
    side_by_side,
)
from tests.unit.gpu.numpy_library import DEVICE, NumpyLibrary, results

pytest.importorskip("pyopencl")


@pytest.fixture(autouse=True)
def quick(library: NumpyLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """burnx's own kernels in the form that is built the fastest."""

    def fit(kernel: Any, limits: Any, sizes: Any, guards: Any) -> list[Form]:
        return [replace(fit_threads(kernel, limits, sizes)[-1], guards=guards)]

    monkeypatch.setattr(choosing, "candidates", fit)
    monkeypatch.setattr(choosing, "choose", lambda *given: fit(*given)[0])


def attentions(library: NumpyLibrary) -> list[Attention]:
    return [each for each in library.asked if isinstance(each, Attention)]


def run_twice(model: Model, arrays: tuple[Array, ...], dtype: str) -> None:
    near = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}[dtype]
    inputs = [each.astype(DTYPES[dtype]) for each in arrays]
    expected = burnx.compile(model, "reference")(*inputs).numpy().astype(np.float32)
    tuned = burnx.compile(model, DEVICE, tune=True)
    for _ in range(2):
        found = tuned(*inputs).numpy().astype(np.float32)
        np.testing.assert_allclose(found, expected, rtol=near, atol=near)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("over", "float16"),
        ("causal", "float16"),
        ("of heads", "bfloat16"),
        ("of columns", "float16"),
        ("other width", "bfloat16"),
    ],
)
def test_an_attention_of_the_library_gives_right_numbers(
    library: NumpyLibrary, tmp_path: Path, name: str, dtype: str
) -> None:
    run_twice(*MODELS[name], dtype)
    assert attentions(library), library.asked
    assert any(each["form"]["kind"] == "library" for each in results(tmp_path))
    assert not any("wrong" in lap for each in results(tmp_path) for lap in each["laps"])


def test_rows_are_read_where_they_lie(library: NumpyLibrary) -> None:
    run_twice(*MODELS["causal"], "float16")
    asked = attentions(library)[0]
    assert asked.queries.extents == (2, 4, 37, 64)
    assert asked.queries.steps == (37 * 768, 64, 768)
    assert [each.start for each in (asked.queries, asked.keys, asked.values)] == [0, 256, 512]
    assert asked.result.steps == (37 * 256, 64, 256)
    assert asked.factor == 0.125
    assert asked.bias is not None and asked.bias.extents == (1, 1, 37, 37)


class Planned(Exception):
    """What is known is known."""


def forms_of(model: Model, inputs: list[Array], monkeypatch: pytest.MonkeyPatch) -> list[Form]:
    """The library's forms of the last kernel that is an attention; nothing is built, nothing runs."""
    found: list[list[Form]] = []

    def plan(work: Any, sizes: Any, ends: Any, driver: Any) -> Any:
        for line, kernel in enumerate(work.flows.kernels):
            task = task_of(work.flows, line)
            named = {
                name: evaluate(size, sizes)
                for name, size in zip(kernel.sizes, task.sizes, strict=True)
            }
            if attention_of(kernel) is not None:
                tame = is_tame(kernel, named, task.storages)
                found.append(library_forms(driver, kernel, named, (), tame))
        raise Planned

    with monkeypatch.context() as patch, pytest.raises(Planned):
        patch.setattr(building, "make_plan", plan)
        burnx.compile(model, DEVICE)(*inputs)
    return found[-1]


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_library_might_do_otherwise_is_not_asked(
    library: NumpyLibrary, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model, arrays, dtype = REFUSED[name]
    inputs = [each.astype(DTYPES[dtype]) for each in arrays]
    assert forms_of(model, inputs, monkeypatch) == []


@pytest.mark.parametrize("name", MODELS)
def test_there_are_a_few_forms_of_what_it_is_asked(
    library: NumpyLibrary, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model, arrays = MODELS[name]
    inputs = [each.astype(np.float16) for each in arrays]
    forms = forms_of(model, inputs, monkeypatch)
    assert forms == [Form(LIBRARY, 0, (way,), "numpy") for way in range(3)]


def test_the_same_kernel_with_another_mask_is_not_the_librarys(library: NumpyLibrary) -> None:
    """What a race has found of a mask that hides no row says nothing of one that does."""
    hidden = CAUSAL.copy()
    hidden[3] = -np.inf

    def model(mask: Array) -> Model:
        return lambda x: side_by_side(x, lambda s: s + like(mask, s))

    x = ROWS.astype(np.float16)
    burnx.compile(model(CAUSAL), DEVICE, tune=True)(x)
    assert attentions(library)
    library.asked.clear()
    burnx.compile(model(CAUSAL), DEVICE)(x)
    assert attentions(library)
    library.asked.clear()
    found = burnx.compile(model(hidden), DEVICE)(x).numpy()
    assert np.isnan(found[:, 3]).all() and np.isfinite(found[:, 4:]).all()
    assert not attentions(library)


def test_rows_that_see_nothing_and_are_zeros_are_not_the_librarys(library: NumpyLibrary) -> None:
    """What a library makes of scores that are all -inf is not known, and the operator says it."""
    run_twice(lambda q, k, v: ops.attention(q, k, v), (Q / 8, Q / 4, Q), "float16")
    assert not attentions(library)


def test_heads_may_share_keys_and_values(library: NumpyLibrary) -> None:
    run_twice(shared, (Q / 8, K, V), "float16")
    asked = attentions(library)
    assert asked and asked[0].queries.extents[1] == 2 * asked[0].keys.extents[1]
    assert asked[0].values.extents[:3] == asked[0].keys.extents[:3]


def write_model(path: Path) -> Path:
    text = """<ir_version: 8, opset_import: ["": 17]>
        heads (float16[2,4,n,64] q, float16[2,4,n,64] k, float16[2,4,n,64] v)
        => (float16[2,4,n,64] y) {
            t = Transpose<perm = [0, 1, 3, 2]>(k)
            s = MatMul(q, t)  w = Softmax(s)  y = MatMul(w, v) }"""
    onnx.save(parser.parse_model(text), path)
    return path


def inputs_of(rows: int) -> dict[str, Array]:
    return {name: (make(2, 4, rows, 64) / 3).astype(np.float16) for name in "qkv"}


def test_other_sizes_of_the_same_class_are_not_the_librarys(
    library: NumpyLibrary, tmp_path: Path
) -> None:
    path = write_model(tmp_path / "heads.onnx")
    burnx.load(path, DEVICE, tune=True).run(inputs_of(37))
    assert attentions(library)
    library.asked.clear()
    burnx.load(path, DEVICE).run(inputs_of(38))
    assert not attentions(library)
    burnx.load(path, DEVICE).run(inputs_of(37))
    assert attentions(library)


def test_a_plan_with_an_attention_of_a_library_is_kept(
    library: NumpyLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, given = write_model(tmp_path / "heads.onnx"), inputs_of(37)
    burnx.load(path, DEVICE, tune=True).run(given)
    first = burnx.load(path, DEVICE).run(given)
    library.asked.clear()
    monkeypatch.setattr(choosing, "pick_form", lambda *given: pytest.fail("there is a plan"))
    found = burnx.load(path, DEVICE).run(given)
    assert found["y"].tobytes() == first["y"].tobytes()
    assert len(attentions(library)) == 1
    monkeypatch.undo()


def test_an_attention_as_a_row_is_the_same_again(library: NumpyLibrary) -> None:
    for name in ("plain", "causal"):
        run_twice(*MODELS[name], "float16")
    for each in attentions(library):
        row = json.loads(json.dumps(as_row(each)))
        assert from_row(row) == each
        assert library_of(row) == "attentions"
        with pytest.raises((TypeError, LookupError)):
            from_row({**row, "more": 1})


def test_without_the_library_nothing_is_asked(
    library: NumpyLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library.driver, "libraries", {"products": "numpy"})
    run_twice(*MODELS["causal"], "float16")
    assert not attentions(library)
