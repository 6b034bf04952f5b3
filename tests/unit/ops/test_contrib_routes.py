"""Operators of com.microsoft on all routes: run, as generated source, and exported again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import burnx
from burnx.conformance.backend_tests import BackendTest, DataSet
from burnx.conformance.routes import Bench, try_route
from tests.unit.ops import contrib_attention_cases, contrib_layer_cases, contrib_query_cases
from tests.unit.ops.contrib_models import Case, model_of, run_onnxruntime

CASES = [*contrib_attention_cases.CASES, *contrib_query_cases.CASES, *contrib_layer_cases.CASES]
ENGINE: Any = SimpleNamespace(
    load=burnx.load, import_onnx=burnx.import_onnx, export_onnx=burnx.export_onnx
)


def bench_of(case: Case, folder: Path, wanted: list[Any]) -> Bench:
    data = (DataSet(tuple(case.feeds.values()), tuple(wanted)),)
    rtol, atol = max(case.rtol, 1e-3), case.atol
    test = BackendTest(
        str(case), "node", case.op, rtol, atol, lambda: model_of(case), lambda model: data
    )
    return Bench(test, ENGINE, "reference", folder)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_routes_agree(case: Case, tmp_path: Path) -> None:
    bench = bench_of(case, tmp_path, run_onnxruntime(case))
    for route in ("run", "source", "roundtrip"):
        cell = try_route(bench, route)
        assert cell.status == "pass", f"{route}: {cell.message}"
