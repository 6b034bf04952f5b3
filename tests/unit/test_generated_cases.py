"""Cases generated from the schemas: what they cover, that they are legal, and what is expected of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from burnx.conformance import suite
from burnx.conformance.cases import expected
from burnx.conformance.cases.collect import Case, all_cases, all_cells, all_recipes
from burnx.conformance.cases.disagreements import DISAGREEMENTS, find_disagreement
from burnx.conformance.cases.models import case_inputs, case_model
from burnx.conformance.cases.schemas import DOMAINS, all_schemas
from burnx.conformance.cases.summary import cells_without_case
from burnx.conformance.cases.type_text import short_name, type_proto, type_text

SAMPLE = all_cases()[::37]
UNCOVERED = {"ai.onnx.preview.training.Gradient"}
"""Operators without any case: it takes a graph of other operators."""


def find_case(name: str) -> Case:
    return next(case for case in all_cases() if case.name == name)


def given(answers: Mapping[str, Any], name: str, folder: Path) -> expected.Expected:
    """What is expected of a case when the engines have answered so."""
    case = find_case(name)
    for engine, answer in answers.items():
        path = folder / f"{case.name}.{engine}"
        path.write_bytes(expected.pickle.dumps(answer))
    return expected.expected_outputs(case, folder)


def test_nearly_every_operator_version_and_type_has_a_case() -> None:
    standard = {schema.operator for schema in all_schemas() if schema.domain in DOMAINS}
    missing = [cell for cell in cells_without_case() if cell[0] in standard]
    assert len(missing) / sum(1 for _ in all_cells()) < 0.01
    assert len(standard) > 200
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert {
        name for name in standard - set(all_recipes()) if name.rpartition(".")[2] in known
    } == UNCOVERED


def test_names_are_unique_and_values_the_same_in_every_run() -> None:
    assert len({case.name for case in all_cases()}) == len(all_cases())
    for case in SAMPLE[::10]:
        left, right = case_inputs(case), case_inputs(case)
        assert left.keys() == right.keys()
        assert repr(left) == repr(right)


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_the_model_is_legal_and_at_the_version_of_its_schema(case: Case) -> None:
    model = case_model(case)
    own = {opset.domain: opset.version for opset in model.opset_import}
    if case.schema.domain != "com.microsoft":
        found = onnx.defs.get_schema(
            case.schema.op_type, own[case.schema.domain], case.schema.domain
        )
        assert found.since_version == case.schema.since
    assert [value.name for value in model.graph.input] == list(case_inputs(case))
    assert all(value.type.WhichOneof("value") for value in model.graph.output)


def test_a_recipe_fits_itself_to_each_version() -> None:
    old = case_model(find_case("gen_Squeeze_v1_T_float32")).graph.node[0]
    new = case_model(find_case("gen_Squeeze_v13_T_float32")).graph.node[0]
    assert (len(old.input), [item.name for item in old.attribute]) == (1, ["axes"])
    assert (len(new.input), len(new.attribute)) == (2, 0)


@pytest.mark.parametrize(
    "text", ["tensor(float)", "seq(tensor(int64))", "optional(seq(tensor(string)))"]
)
def test_types_are_read_as_they_are_written(text: str) -> None:
    assert type_text(type_proto(text)) == text


def test_types_have_short_names() -> None:
    assert short_name("optional(seq(tensor(double)))") == "optional_seq_float64"
    assert short_name("map(string, float)") == "map_string_float32"


def test_every_disagreement_is_about_some_case() -> None:
    names = [case.name for case in all_cases()]
    for entry in DISAGREEMENTS:
        assert any(re.search(entry.cases, name) for name in names), entry.cases
        assert entry.follows in (*expected.ENGINES, "")
        assert entry.why


RELU, SOFTMAX = "gen_Relu_v14_T_float32", "gen_Softmax_v11_T_float32"
ONE = expected.Answer((np.float32([1.0]),))
TWO = expected.Answer((np.float32([2.0]),))
NONE = expected.Answer(None, "it cannot")


def test_what_both_engines_give_is_expected(tmp_path: Path) -> None:
    found = given({"reference": ONE, "onnxruntime": ONE}, RELU, tmp_path)
    assert (found.judge, found.doubt) == ("reference and onnxruntime", "")


def test_one_engine_is_enough_and_named(tmp_path: Path) -> None:
    assert given({"reference": NONE, "onnxruntime": ONE}, RELU, tmp_path).judge == "onnxruntime"


def test_what_nobody_runs_is_not_compared(tmp_path: Path) -> None:
    found = given({"reference": NONE}, RELU, tmp_path)
    assert found.doubt.startswith("not compared: no other engine runs it")
    assert "it cannot" in found.doubt
    assert "ended its process" in found.doubt


def test_an_old_version_is_judged_after_conversion(tmp_path: Path) -> None:
    """No engine has the first Gemm; onnx's converter says it in the words of a newer one."""
    case = find_case("gen_Gemm_v1_T_float32")
    for engine in expected.ENGINES:
        expected.ask_engine(case, engine, tmp_path)
    found = expected.expected_outputs(case, tmp_path)
    assert (found.judge, found.doubt) == (expected.CONVERTED, "")


def test_an_undecided_disagreement_is_not_compared(tmp_path: Path) -> None:
    assert find_disagreement(RELU) is None
    found = given({"reference": ONE, "onnxruntime": TWO}, RELU, tmp_path)
    assert "nothing decides it" in found.doubt


def test_a_decided_disagreement_follows_one(tmp_path: Path) -> None:
    found = given({"reference": ONE, "onnxruntime": TWO}, SOFTMAX, tmp_path)
    assert found.judge == "onnxruntime"
    assert found.because.startswith("Softmax-11")


def test_who_is_not_followed_is_no_judge_alone(tmp_path: Path) -> None:
    found = given({"reference": ONE, "onnxruntime": NONE}, SOFTMAX, tmp_path)
    assert found.outputs == ()
    assert found.doubt.startswith("not compared: Softmax-11")


def test_an_answer_of_another_dtype_is_none(tmp_path: Path) -> None:
    """The reference evaluator computes the mask of Dropout-7 as truth values."""
    answer = expected.ask_engine(find_case("gen_Dropout_v7_mask_T_float32"), "reference", tmp_path)
    assert answer.outputs is None
    assert answer.message == "it gives bool for output 1, where the schema says float32"


class Fixed:
    """An engine that gives zeros for everything, in the place of the public api."""

    def load(self, model: onnx.ModelProto, *, device: str) -> Any:
        return self

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"output_0": np.zeros_like(inputs["X"])}


def test_the_suite_judges_generated_cases_on_each_device() -> None:
    results = suite.run_conformance(
        ("run",),
        "reference,cpu",
        "^gen_Relu_v14_T_(float32|int8)$",
        engine=Fixed(),
        cases="generated",  # type: ignore[arg-type]
    )
    assert set(results["devices"]) == {"cpu"}
    for found in (results, results["devices"]["cpu"]):
        assert {row["run"] for row in found["tests"].values()} == {"wrong"}
    detail = results["details"]["gen_Relu_v14_T_float32"]
    assert (detail["operator"], detail["version"], detail["dtype"]) == ("Relu", 14, "float32")
    assert "Relu" in results["models"]["gen_Relu_v14_T_float32"]
    assert results["generated"]["cells"] > 8_000
