"""The suite itself: which tests there are, how they are judged, and that it survives its engine."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from burnx.conformance import limitations, suite
from burnx.conformance.backend_tests import BackendTest, DataSet, collect_tests
from burnx.conformance.random_streams import random_stream_reason
from burnx.conformance.routes import Bench, try_route
from burnx.errors import ModelError, UnsupportedError, UsageError
from burnx.ops.operator import Limitation

ROUTES = ("run", "source", "roundtrip")
KNOWN_ONNX = "1.23.2"

KEPT_SOURCE = """
from pathlib import Path
import onnx
from onnx.reference import ReferenceEvaluator


class Model:
    def __init__(self, path):
        self.path = path
        self.evaluator = ReferenceEvaluator(str(path))

    @classmethod
    def load(cls):
        return cls(Path(__file__).with_name("kept.onnx"))

    def __call__(self, *inputs):
        names = [n for n in self.evaluator.input_names if n not in self.evaluator.rt_inits_]
        outputs = self.evaluator.run(None, dict(zip(names, inputs, strict=True)))
        return tuple(outputs) if len(outputs) > 1 else outputs[0]
"""


class LoadedModel:
    """What ``load`` returns."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.evaluator = ReferenceEvaluator(model)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        outputs = self.evaluator.run(None, dict(inputs))
        return dict(zip(self.evaluator.output_names, outputs, strict=True))


class ReferenceEngine:
    """Import keeps the file, the generated source evaluates it, export copies it."""

    def load(self, model: onnx.ModelProto, *, device: str) -> Any:
        return LoadedModel(model)

    def import_onnx(self, source: str, target: str) -> None:
        Path(target).with_name("kept.onnx").write_bytes(Path(source).read_bytes())
        Path(target).write_text(KEPT_SOURCE)

    def export_onnx(self, model: Any, inputs: Mapping[str, Any], target: str) -> None:
        Path(target).write_bytes(model.path.read_bytes())


def find_test(name: str) -> BackendTest:
    return next(test for test in collect_tests() if test.name == name)


def relu_test(expected: Any, rtol: float = 1e-3) -> BackendTest:
    """Relu of (-1, 2), with any expected output."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    inputs = (np.array([-1, 2], np.float32),)
    data = (DataSet(inputs, (expected,)),) if expected is not None else ()
    return BackendTest("test_relu", "node", "Relu", rtol, 1e-7, lambda: model, lambda _: data)


class FailingEngine(ReferenceEngine):
    """Raises one error whatever is asked."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def load(self, model: onnx.ModelProto, *, device: str) -> Any:
        raise self.error


class DyingEngine(ReferenceEngine):
    """Ends or stops the process on some tests, on the route ``run``."""

    def load(self, model: onnx.ModelProto, *, device: str) -> Any:
        if model.graph.name == "test_abs":
            os._exit(1)
        if model.graph.name == "test_neg":
            time.sleep(60)
        return LoadedModel(model)


@pytest.mark.skipif(onnx.__version__ != KNOWN_ONNX, reason="counts are of one version of onnx")
def test_every_backend_test_is_collected_once() -> None:
    groups = [test.group for test in collect_tests()]
    assert len({test.name for test in collect_tests()}) == len(groups) == 2033
    assert {group: groups.count(group) for group in groups} == {
        "node": 1404,
        "node-expanded": 480,
        "simple": 23,
        "pytorch-operator": 35,
        "pytorch-converted": 82,
        "light": 9,
    }


def test_every_test_brings_inputs_and_expected_outputs() -> None:
    for test in collect_tests():
        model = test.load_model()
        data = test.load_data(model)
        assert data, test.name
        assert all(len(item.outputs) == len(model.graph.output) for item in data), test.name


def test_expanded_tests_count_for_the_operator_that_they_expand() -> None:
    assert find_test("test_elu_expanded_ver18").operator == "Elu"


@pytest.mark.skipif(onnx.__version__ != KNOWN_ONNX, reason="counts are of one version of onnx")
def test_ten_tests_expect_a_random_stream() -> None:
    skipped = {test.name for test in collect_tests() if random_stream_reason(test)}
    bernoulli = {f"test_bernoulli{part}" for part in ("", "_double", "_seed")}
    assert skipped == {
        *bernoulli,
        *(f"{name}_expanded" for name in bernoulli),
        "test_training_dropout",
        "test_training_dropout_mask",
        "test_training_dropout_default",
        "test_training_dropout_default_mask",
    }


@pytest.mark.parametrize("route", ROUTES)
def test_expected_values_pass(route: str, tmp_path: Path) -> None:
    test = relu_test(np.array([0, 2], np.float32))
    assert try_route(Bench(test, ReferenceEngine(), "cpu", tmp_path), route).status == "pass"


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (np.array([0, 2.1], np.float32), "1 of 2 elements differ"),
        (np.array([0, 2], np.float64), "expected float64"),
        (np.array([[0, 2]], np.float32), "shape"),
        ([np.array([0, 2], np.float32)], "expected a list of 1"),
    ],
)
def test_other_values_are_wrong(route: str, expected: Any, message: str, tmp_path: Path) -> None:
    cell = try_route(Bench(relu_test(expected), ReferenceEngine(), "cpu", tmp_path), route)
    assert cell.status == "wrong"
    assert message in cell.message


def test_a_test_without_expected_values_is_never_a_pass(tmp_path: Path) -> None:
    cell = try_route(Bench(relu_test(None), ReferenceEngine(), "cpu", tmp_path), "run")
    assert cell.status == "error"
    assert "nothing was compared" in cell.message


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnsupportedError("no Foo"), "unsupported"),
        (ModelError("bad"), "error"),
        (ZeroDivisionError("bug"), "error"),
    ],
)
def test_an_error_is_judged_by_its_class(error: Exception, status: str, tmp_path: Path) -> None:
    test = relu_test(np.array([0, 2], np.float32))
    cell = try_route(Bench(test, FailingEngine(error), "cpu", tmp_path), "run")
    assert cell.status == status
    assert str(error) in cell.message


@pytest.mark.parametrize("expected", [[0, 2], [0, 3]])
def test_a_declared_limitation_is_unsupported_whatever_came_out(
    expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = Limitation("Relu", "only of positive numbers", "relu$")
    monkeypatch.setattr(limitations, "declared_limitations", lambda: (declared,))
    test = relu_test(np.array(expected, np.float32))
    cell = try_route(Bench(test, ReferenceEngine(), "cpu", tmp_path), "run")
    assert cell.status == "unsupported"
    assert "only of positive numbers" in cell.message


def test_roundtrip_records_its_judge(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    test = relu_test(np.array([0, 2], np.float32))
    cell = try_route(Bench(test, ReferenceEngine(), "cpu", tmp_path), "roundtrip")
    assert cell.judge == "onnxruntime"


def test_roundtrip_asks_the_evaluator_where_onnxruntime_cannot_say(tmp_path: Path) -> None:
    test = find_test("test_adam")
    cell = try_route(Bench(test, ReferenceEngine(), "cpu", tmp_path), "roundtrip")
    assert (cell.status, cell.judge) == ("pass", "reference")


def test_roundtrip_wants_the_original_names(tmp_path: Path) -> None:
    class Renaming(ReferenceEngine):
        def export_onnx(self, model: Any, inputs: Mapping[str, Any], target: str) -> None:
            renamed = onnx.load(model.path)
            renamed.graph.input[0].name = renamed.graph.node[0].input[0] = "renamed"
            onnx.save(renamed, target)

    test = relu_test(np.array([0, 2], np.float32))
    cell = try_route(Bench(test, Renaming(), "cpu", tmp_path), "roundtrip")
    assert cell.status == "wrong"
    assert "renamed" in cell.message


def test_a_crash_or_timeout_costs_one_cell() -> None:
    pattern, engine = "^test_(abs|neg|sign|exp)$", DyingEngine()
    pace = suite.Pace(timeout_s=2.0)
    results = suite.run_conformance(pattern=pattern, engine=engine, pace=pace)
    good = dict.fromkeys(ROUTES, "pass")
    assert results["tests"] == {
        "test_abs": {**good, "run": "error"},
        "test_neg": {**good, "run": "error"},
        "test_sign": good,
        "test_exp": good,
    }
    cells = {name: detail["cells"]["run"] for name, detail in results["details"].items()}
    assert cells["test_abs"]["message"].startswith("crash")
    assert cells["test_neg"]["message"] == "timeout: no answer within 2 s"


def test_results_are_the_json_of_the_contract() -> None:
    seen: list[tuple[int, int]] = []
    results = suite.run_conformance(
        routes=("source", "run"),
        pattern="^test_(relu|bernoulli|single_relu_model)$",
        progress=lambda done, whole: seen.append((done, whole)),
        engine=ReferenceEngine(),
    )
    assert json.loads(json.dumps(results)) == results
    assert list(results)[:4] == ["versions", "tests", "operators", "summary"]
    assert results["tests"]["test_bernoulli"] == {"run": "skip", "source": "skip"}
    assert results["operators"]["Relu"]["run"]["pass"] == 2
    assert results["summary"]["all"]["source"] == {
        "pass": 2,
        "wrong": 0,
        "unsupported": 0,
        "error": 0,
        "skip": 1,
    }
    assert seen[-1] == (3, 3)


def test_every_kind_of_value_reaches_the_engine() -> None:
    names = (
        "sequence_insert_at_back",
        "optional_has_element_empty_optional_input",
        "cast_FLOAT_to_BFLOAT16",
        "string_concat",
        "strnorm_model_monday_empty_output",
        "zfnet512",
    )
    results = suite.run_conformance(
        ("run", "source"), pattern=f"^test_({'|'.join(names)})$", engine=ReferenceEngine()
    )
    assert len(results["tests"]) == len(names)
    assert {status for row in results["tests"].values() for status in row.values()} == {"pass"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"routes": ("run", "walk")}, "walk"),
        ({"routes": ()}, "a route is one of"),
        ({"pattern": "("}, "regular expression"),
        ({"pattern": "no such test"}, "matches at least one test"),
    ],
)
def test_wrong_usage_is_said(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        suite.run_conformance(**arguments, engine=ReferenceEngine())
