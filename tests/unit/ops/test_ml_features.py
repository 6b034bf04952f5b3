"""Features, look-ups and maps of ai.onnx.ml: against onnxruntime, and maps on every route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import burnx
from burnx.agreement.tolerance import close
from tests.unit.ops.ml_nodes import ML, Array, check, on_routes, run

ROWS = np.array([[-1.0, 2.0, -3.0], [0.0, 0.0, 0.0], [-1.5, -2.0, -0.5]])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str, dtype: str) -> None:
    check("Normalizer", ROWS.astype(dtype), norm=norm)
    check("Normalizer", ROWS[0].astype(dtype), norm=norm)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_scaler(dtype: str) -> None:
    x = ROWS.astype(dtype)
    check("Scaler", x, offset=[0.5], scale=[2.0])
    check("Scaler", x, offset=[0.5, -1.0, 0.25], scale=[2.0, 1.0, 0.0])
    np.testing.assert_allclose(run("Scaler", x, scale=[3.0])[0], x * 3.0)
    with pytest.raises(burnx.BurnxError, match="does not broadcast"):
        run("Scaler", x, offset=[0.5, 1.0])


def test_imputer() -> None:
    holes = np.array([[1.0, np.nan, -1.0], [-1.0, 2.0, np.nan]], np.float32)
    check("Imputer", holes, imputed_value_floats=[9.0], replaced_value_float=float("nan"))
    check("Imputer", holes, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=-1.0)
    whole = np.array([[1, 2], [2, 3]])
    check("Imputer", whole, imputed_value_int64s=[5, 6], replaced_value_int64=2)
    small = run("Imputer", whole.astype(np.int32), imputed_value_int64s=[5], replaced_value_int64=2)
    assert small[0].tolist() == [[1, 5], [5, 3]] and small[0].dtype == np.int32
    with pytest.raises(burnx.BurnxError, match="takes imputed_value_int64s, no floats"):
        run("Imputer", whole, imputed_value_floats=[5.0])


def test_feature_vectorizer_cuts_and_fills() -> None:
    left, right = ROWS.astype(np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    check("FeatureVectorizer", left, right, inputdimensions=[3, 2])
    check("FeatureVectorizer", left, right, inputdimensions=[2, 4])
    (found,) = run("FeatureVectorizer", np.array([1, 2]), np.array([3]))
    assert found.tolist() == [[1.0, 2.0, 3.0]] and found.dtype == np.float32


def test_binarizer_of_whole_numbers_compares_with_the_threshold_itself() -> None:
    check("Binarizer", ROWS.astype(np.float32), threshold=-0.75)
    (found,) = run("Binarizer", np.array([-1, 0, 1]), threshold=-0.5)
    assert found.tolist() == [0, 1, 1]


def test_one_hot_encoder() -> None:
    x = np.array([[1, 2], [3, 4]])
    for dtype in ("int64", "float32", "float64"):
        check("OneHotEncoder", (x + 0.5).astype(dtype), cats_int64s=[1, 4, 3])
    check("OneHotEncoder", x, cats_int64s=[1, 4, 1])
    words = np.array([["b", "q"]], object)
    check("OneHotEncoder", words, cats_strings=["a", "b"])
    assert run("OneHotEncoder", x.astype(np.int32), cats_int64s=[2])[0].sum() == 1
    check("OneHotEncoder", np.array([4, 1]), cats_int64s=[1, 4], zeros=0)
    with pytest.raises(burnx.BurnxError, match="an index is at least"):
        run("OneHotEncoder", x, cats_int64s=[1, 4], zeros=0)


KEYS: dict[str, Any] = {
    "keys_strings": ["a", "b", "c"],
    "keys_int64s": [1, 2, 3],
    "keys_floats": [0.5, float("nan"), 2.0],
}
VALUES: dict[str, Any] = {
    "values_strings": ["x", "y", "z"],
    "values_int64s": [7, 8, 9],
    "values_floats": [0.25, 0.5, 0.75],
}
ITEMS: dict[str, Array] = {
    "keys_strings": np.array([["c", "q"]], object),
    "keys_int64s": np.array([3, 9]),
    "keys_floats": np.array([np.nan, 9.0], np.float32),
}
DEFAULTS = {"default_string": "?", "default_int64": -7, "default_float": 1.5}


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("keys", KEYS)
def test_label_encoder(keys: str, values: str, version: int) -> None:
    options = {keys: KEYS[keys], values: VALUES[values], **DEFAULTS}
    if version == 4 or keys != "keys_floats":
        check("LabelEncoder", ITEMS[keys], version=version, **options)
    (found,) = run("LabelEncoder", ITEMS[keys], version=version, **options)
    place = 1 if keys == "keys_floats" else 2  # NaN is a key, as the standard says of all versions
    default = DEFAULTS[
        {"s": "default_string", "i": "default_int64", "f": "default_float"}[values[7]]
    ]
    assert found.reshape(-1).tolist() == [VALUES[values][place], default]


@pytest.mark.parametrize("values", ["int16", "int32", "float64", "int64"])
@pytest.mark.parametrize("keys", ["int16", "int32", "float64", "int64"])
def test_label_encoder_by_tensors(keys: str, values: str) -> None:
    options = {
        "keys_tensor": onnx.numpy_helper.from_array(np.array([1, 2], keys)),
        "values_tensor": onnx.numpy_helper.from_array(np.array([5, 6], values)),
        "default_tensor": onnx.numpy_helper.from_array(np.array([3], values)),
    }
    (found,) = run("LabelEncoder", np.array([2, 9], keys), version=4, **options)
    assert found.tolist() == [6, 3] and found.dtype == values


def test_of_repeated_keys_the_last_counts_since_version_4() -> None:
    options = {"keys_int64s": [1, 1], "values_int64s": [5, 6]}
    assert run("LabelEncoder", np.array([1]), version=4, **options)[0].tolist() == [6]
    check("LabelEncoder", np.array([1]), version=2, **options)


def test_category_mapper_and_the_first_label_encoder() -> None:
    lists = {"cats_int64s": [3, 5, 3], "cats_strings": ["a", "b", "b"]}
    for x in (np.array([3, 5, 9]), np.array([["a", "b", "q"]], object)):
        check("CategoryMapper", x, default_int64=-3, default_string="?", **lists)
    for x in (np.array([1, 9]), np.array(["b", "q"], object)):
        check("LabelEncoder", x, version=1, classes_strings=["a", "b"])


# ------------------------------------------------------------------------------- maps
def map_proto(key: int, value: int) -> onnx.TypeProto:
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))


def map_model(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, onnx.TypeProto], outputs: Sequence[str]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "maps",
        [helper.make_value_info(name, kind) for name, kind in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def map_node(op_type: str, kind: onnx.TypeProto, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(op_type, ["x"], ["y"], domain=ML, **attributes)
    return map_model([node], {"x": kind}, ["y"])


STRING, INT64, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT


@pytest.mark.parametrize(
    "labels", [{"classlabels_strings": ["a", "b"]}, {"classlabels_int64s": [3, 4]}]
)
def test_maps_come_out_of_every_route(labels: dict[str, Any], tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["p"]),
        helper.make_node("ZipMap", ["p"], ["z"], domain=ML, **labels),
    ]
    kind = helper.make_tensor_type_proto(FLOAT, ["rows", 2])
    x = np.array([[0.25, -1.0], [0.5, 2.0]], np.float32)
    one, two = next(iter(labels.values()))
    wanted = [[{one: 0.25, two: 0.0}, {one: 0.5, two: 2.0}]]
    for route, found in on_routes(map_model(nodes, {"x": kind}, ["z"]), {"x": x}, tmp_path).items():
        assert found == wanted, route


CASTS: dict[str, dict[str, Any]] = {
    "floats": {},
    "integers": {"cast_to": "TO_INT64"},
    "texts": {"cast_to": "TO_STRING"},
    "sparse": {"map_form": "SPARSE", "max_map": 5},
    "sparse texts": {"map_form": "SPARSE", "max_map": 4, "cast_to": "TO_STRING"},
}


@pytest.mark.parametrize("name", CASTS)
def test_maps_go_into_every_route(name: str, tmp_path: Path) -> None:
    model = map_node("CastMap", map_proto(INT64, FLOAT), **CASTS[name])
    found = on_routes(model, {"x": {3: 1.5, 1: -2.75}}, tmp_path)
    for route in ("run", "source"):
        assert close(found["roundtrip"], found[route]) is None, route


def test_maps_of_texts_are_cast() -> None:
    model = map_node("CastMap", map_proto(INT64, STRING), cast_to="TO_INT64")
    assert burnx.load(model).run({"x": {2: "7", 1: "-3"}})["y"].tolist() == [[-3, 7]]
    with pytest.raises(burnx.BurnxError, match="'many' is none"):
        burnx.load(model).run({"x": {2: "many"}})


def test_sparse_maps_have_their_keys_within_bounds() -> None:
    model = map_node("CastMap", map_proto(INT64, FLOAT), map_form="SPARSE", max_map=2)
    with pytest.raises(burnx.BurnxError, match="keys of a sparse map are 0 to 1"):
        burnx.load(model).run({"x": {2: 1.0}})


WORDS: dict[str, tuple[int, int, dict[Any, Any], dict[str, Any]]] = {
    "strings to floats": (STRING, FLOAT, {"a": 4.5, "q": 8.0}, {"string_vocabulary": ["b", "a"]}),
    "integers to doubles": (INT64, TensorProto.DOUBLE, {3: 0.1}, {"int64_vocabulary": [3, 2, 1]}),
    "strings to integers": (STRING, INT64, {"a": 4}, {"string_vocabulary": ["b", "a"]}),
    "integers to strings": (INT64, STRING, {2: "two"}, {"int64_vocabulary": [1, 2]}),
}


@pytest.mark.parametrize("name", WORDS)
def test_dict_vectorizer_gives_one_axis(name: str) -> None:
    """The standard says one axis, as the reference evaluator of onnx has it."""
    key, value, given, vocabulary = WORDS[name]
    model = map_node("DictVectorizer", map_proto(key, value), **vocabulary)
    found = burnx.load(model).run({"x": given})["y"]
    (words,) = vocabulary.values()
    nothing: Any = "" if value == STRING else 0
    assert found.tolist() == [given.get(word, nothing) for word in words]
    assert found.dtype == helper.tensor_dtype_to_np_dtype(value)


def test_what_is_no_map_is_refused() -> None:
    loaded = burnx.load(map_node("CastMap", map_proto(INT64, FLOAT)))
    for wrong in ({"1": 2.0}, {1: "2"}, [1.0], {True: 1.0}):
        with pytest.raises(burnx.BurnxError, match='input "x" is a'):
            loaded.run({"x": wrong})
