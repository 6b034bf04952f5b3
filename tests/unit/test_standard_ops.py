"""Operators of com.microsoft exported in operators of ai.onnx, against onnxruntime's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import burnx
from burnx.conformance.engines import open_onnxruntime
from burnx.conformance.generated import import_generated
from burnx.errors import ExportError
from tests.unit.ops import contrib_attention_cases, contrib_layer_cases, contrib_query_cases
from tests.unit.ops.contrib_models import Case, assert_same, model_of, run_onnxruntime

# what only Python computes
HOST = ("Unique", "MurmurHash3", "ExpandDims")
CASES = [
    case
    for case in (
        *contrib_attention_cases.CASES,
        *contrib_query_cases.CASES,
        *contrib_layer_cases.CASES,
    )
    if case.op not in HOST
]


def exported(case: Case, folder: Path) -> Path:
    path, source = folder / "model.onnx", folder / "generated.py"
    path.write_bytes(model_of(case).SerializeToString())
    burnx.import_onnx(str(path), str(source))
    network = import_generated(source).Model.load()
    target = folder / "standard.onnx"
    burnx.export_onnx(network, case.feeds, target, standard_ops=True)
    return target


@pytest.mark.parametrize("case", CASES, ids=str)
def test_standard_operators_give_what_onnxruntime_gives(case: Case, tmp_path: Path) -> None:
    target = exported(case, tmp_path)
    model = onnx.load(target)
    assert {each.domain for each in model.opset_import} == {""}
    outputs = open_onnxruntime(str(target))(case.feeds)
    assert_same([np.asarray(each) for each in outputs.values()], run_onnxruntime(case), case)


def test_what_depends_on_data_is_refused(tmp_path: Path) -> None:
    case = next(case for case in contrib_layer_cases.CASES if case.op == "Unique")
    with pytest.raises(ExportError, match="host"):
        exported(case, tmp_path)
