"""Every model of the tests of com.microsoft on every route, and on the fused device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import burnx
from burnx.conformance.generated import import_generated
from tests.unit.ops.contrib_quantized_linear_cases import CASES as LINEAR
from tests.unit.ops.contrib_quantized_node import (
    Case,
    assert_alike,
    model_of,
    run_burnx,
    run_onnxruntime,
)
from tests.unit.ops.contrib_quantized_weights_cases import CASES as WEIGHTS

# a quarter of them always, all of them with the suite
CASES = [
    pytest.param(case, id=str(case), marks=[pytest.mark.suite] if number % 4 else [])
    for number, case in enumerate([*LINEAR, *WEIGHTS])
]


def generated(case: Case, folder: Path) -> Any:
    path = folder / "model.onnx"
    path.write_bytes(model_of(case).SerializeToString())
    burnx.import_onnx(str(path), str(folder / "generated.py"))
    return import_generated(folder / "generated.py").Model.load()


@pytest.mark.parametrize("case", CASES)
def test_source_and_what_it_exports_give_the_same(case: Case, tmp_path: Path) -> None:
    expected = run_burnx(case)
    model = generated(case, tmp_path)
    results = model(*case.feeds.values())
    several = results if isinstance(results, tuple) else (results,)
    assert_alike(case, [each.numpy() for each in several], expected)
    exported = tmp_path / "exported.onnx"
    burnx.export_onnx(model, case.feeds, str(exported))
    onnx.checker.check_model(str(exported), full_check=True)
    judged = run_onnxruntime(case, onnx.load(exported))
    assert_alike(case, judged, run_onnxruntime(case))


@pytest.mark.parametrize("case", CASES)
def test_the_fused_device_gives_what_the_reference_gives(case: Case) -> None:
    assert_alike(case, run_burnx(case, "cpu"), run_burnx(case))


# a mask may have several forms, of which sizes that are symbols leave open which it is; and
# onnxruntime casts no float4
SAID = [
    each
    for each in CASES
    if "float4" not in str(each.id)
    and (each.values[0].op != "QAttention" or each.values[0].inputs["m"] is None)
]


@pytest.mark.parametrize("case", SAID)
def test_standard_operators_give_the_same(case: Case, tmp_path: Path) -> None:
    exported = tmp_path / "standard.onnx"
    burnx.export_onnx(generated(case, tmp_path), case.feeds, str(exported), standard_ops=True)
    model = onnx.load(exported)
    assert {each.domain for each in model.opset_import} == {""}
    assert_alike(case, run_onnxruntime(case, model), run_burnx(case))
