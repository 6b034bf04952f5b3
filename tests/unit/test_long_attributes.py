"""Attributes too long for source stand in the weights file, and come back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

import burnx
from burnx.errors import WeightsError
from burnx.nn.sources import load_network
from burnx.weights import open_weights, save_weights

ML = "ai.onnx.ml"
WORDS = [f"word {place}" for place in range(60)] + ["", 'quote "', "\\", "ünï", "\x00", "a\nb"]


def model_of(node: Any, given: tuple[str, int, list[Any]], *made: tuple[str, int]) -> ModelProto:
    name, kind, shape = given
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, kind, shape)],
        [helper.make_tensor_value_info(label, each, None) for label, each in made],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 5)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def a_forest(trees: int = 12) -> Any:
    """Stumps, each of which asks for one of three features."""
    rng = np.random.default_rng(0)
    ids = [tree for tree in range(trees) for _ in range(3)]
    return helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        nodes_treeids=ids,
        nodes_nodeids=[0, 1, 2] * trees,
        nodes_featureids=[
            int(rng.integers(3)) if place % 3 == 0 else 0 for place in range(len(ids))
        ],
        nodes_values=rng.standard_normal(len(ids)).astype(np.float32).tolist(),
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * trees,
        nodes_truenodeids=[1, 0, 0] * trees,
        nodes_falsenodeids=[2, 0, 0] * trees,
        target_treeids=[tree for tree in range(trees) for _ in range(2)],
        target_nodeids=[1, 2] * trees,
        target_ids=[0, 0] * trees,
        target_weights=rng.standard_normal(2 * trees).astype(np.float32).tolist(),
    )


def a_tree() -> Any:
    """A chain of 40 tests, of the newest kind: with attributes that are tensors."""
    count = 40
    numbers = np.arange(count, dtype=np.float32) / 3
    return helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        nodes_splits=numpy_helper.from_array(numbers),
        nodes_featureids=[place % 3 for place in range(count)],
        nodes_modes=numpy_helper.from_array(np.zeros(count, np.uint8)),
        nodes_truenodeids=list(range(count)),
        nodes_falsenodeids=[*range(1, count), count],
        nodes_trueleafs=[1] * count,
        nodes_falseleafs=[0] * (count - 1) + [1],
        leaf_targetids=[0] * (count + 1),
        leaf_weights=numpy_helper.from_array(np.append(numbers, np.float32(7))),
        tree_roots=[0],
    )


def an_encoder() -> Any:
    values = list(range(len(WORDS)))
    return helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain=ML, keys_strings=WORDS, values_int64s=values
    )


def a_branch() -> Any:
    bodies = {
        f"{word}_branch": helper.make_graph(
            [
                helper.make_node(
                    "LinearRegressor", ["x"], ["out"], domain=ML, coefficients=[weight] * 40
                )
            ],
            word,
            [],
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        )
        for word, weight in (("then", 0.5), ("else", 2.0))
    }
    return bodies


def in_a_branch() -> ModelProto:
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["": 18, "ai.onnx.ml": 3]>
        g (float[n, 40] x, bool go) => (float[n, 1] y) { y = If(go) <then_branch = a () => (float z) {z = Constant<value_float = 1.0>()}, else_branch = b () => (float z) {z = Constant<value_float = 1.0>()}> }"""
    )
    node = helper.make_node("If", ["go"], ["y"], **a_branch())
    model.graph.node[0].CopyFrom(node)
    return model


X = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
FLOAT, TEXT, INT = TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64
CASES: dict[str, tuple[ModelProto, dict[str, Any]]] = {
    "forest": (model_of(a_forest(), ("x", FLOAT, ["n", 3]), ("y", FLOAT)), {"x": X}),
    "tree": (model_of(a_tree(), ("x", FLOAT, ["n", 3]), ("y", FLOAT)), {"x": X}),
    "encoder": (
        model_of(an_encoder(), ("x", TEXT, ["n"]), ("y", INT)),
        {"x": np.array([*WORDS[-4:], "other"], object)},
    ),
    "branch": (in_a_branch(), {"x": np.ones((2, 40), np.float32), "go": np.array(True)}),
}


def attributes_of(model: ModelProto) -> dict[str, Any]:
    """All attributes of ai.onnx.ml, those in branches included; tensors as arrays."""
    found: dict[str, Any] = {}

    def look(graph: Any, path: str) -> None:
        for node in graph.node:
            for each in node.attribute:
                if each.type == each.GRAPH:
                    look(each.g, f"{path}{each.name}.")
                elif node.domain == ML:
                    value = helper.get_attribute_value(each)
                    is_tensor = each.type == each.TENSOR
                    found[f"{path}{each.name}"] = (
                        numpy_helper.to_array(value) if is_tensor else value
                    )

    look(model.graph, "")
    return found


@pytest.mark.parametrize("name", CASES)
def test_long_attributes_come_back_exactly(tmp_path: Path, name: str) -> None:
    model, feed = CASES[name]
    burnx.import_onnx(model, tmp_path / "model.py")
    text = (tmp_path / "model.py").read_text()
    assert len(text.splitlines()) < 70 and "nn.Parameter(" in text
    network: Any = load_network(f"{tmp_path / 'model.py'}:Model")
    expected = burnx.load(model).run(feed)["y"]
    np.testing.assert_allclose(network(*feed.values()).numpy(), expected, rtol=1e-5)
    burnx.export_onnx(network, feed, tmp_path / "again.onnx")
    again = onnx.load(tmp_path / "again.onnx")
    assert not again.graph.initializer
    before, after = attributes_of(model), attributes_of(again)
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value, err_msg=key)
        assert getattr(after[key], "dtype", None) == getattr(value, "dtype", None)


def test_weights_are_saved_again_with_their_words(tmp_path: Path) -> None:
    model, _ = CASES["encoder"]
    burnx.import_onnx(model, tmp_path / "model.py")
    network: Any = load_network(f"{tmp_path / 'model.py'}:Model")
    network.save_weights(tmp_path / "other.safetensors")
    words = open_weights(tmp_path / "other.safetensors")["label_encoder.keys_strings"]
    assert words.tolist() == WORDS


def test_a_long_constant_of_strings_is_no_source(tmp_path: Path) -> None:
    words = numpy_helper.from_array(np.array(WORDS, object), "words")
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (int64[n] x) => (string[n] y) { y = Gather(words, x) }'
    )
    model.graph.initializer.append(words)
    burnx.import_onnx(model, tmp_path / "model.py")
    assert len((tmp_path / "model.py").read_text().splitlines()) < 30
    network: Any = load_network(f"{tmp_path / 'model.py'}:Model")
    assert network(np.array([0, len(WORDS) - 1])).numpy().tolist() == [WORDS[0], WORDS[-1]]


def test_fresh_words_are_empty() -> None:
    assert burnx.nn.Parameter(2, dtype="string").data.tolist() == ["", ""]


@pytest.mark.parametrize("text", ["", "{}", '["a"]', '["a", 1]', '["a", "b', "[" * 100_000])
def test_what_is_no_list_of_words_is_refused(tmp_path: Path, text: str) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    packed = json.dumps({"words": {"dtype": "string", "shape": [2]}})
    save_weights(tmp_path / "plain.safetensors", {"words": data})
    raw = (tmp_path / "plain.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header["__metadata__"] = {"burnx.packed": packed}
    head = json.dumps(header).encode()
    (tmp_path / "hostile.safetensors").write_bytes(
        len(head).to_bytes(8, "little") + head + raw[start:]
    )
    with pytest.raises(WeightsError, match="words"):
        open_weights(tmp_path / "hostile.safetensors")["words"]
