"""Every operator of ai.onnx.ml, in every version, run, from its source, and exported again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from burnx.agreement.tolerance import close
from tests.unit.ops.ml_nodes import ML, Array, ml_model, on_routes
from tests.unit.ops.test_ml_models import BOTH, STUMP

MAPS = {"CastMap", "DictVectorizer", "ZipMap"}
"""Tried with values that are maps, in ``test_ml_features.py``."""
ROW = np.array([[0.5, -1.5]], np.float32)
WORDS = np.array(["b", "q"], object)
WEIGHTS = {"coefficients": [0.5, -0.25], "intercepts": [0.125]}
VECTORS = {
    "support_vectors": [1.0, 2.0, 3.0, 4.0],
    "kernel_type": "RBF",
    "kernel_params": [0.5, 0.0, 0.0],
    "rho": [0.25],
    "coefficients": [0.5, -0.75],
}
LEAVES = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0]}


def tensor(values: Any, dtype: str) -> Any:
    return onnx.numpy_helper.from_array(np.array(values, dtype))


LABELS = {"keys_strings": ["a", "b"], "values_floats": [0.5, 2.5]}
CASES: dict[tuple[str, int], tuple[list[Array], dict[str, Any]]] = {
    ("ArrayFeatureExtractor", 1): ([ROW, np.array([1])], {}),
    ("Binarizer", 1): ([ROW], {"threshold": -0.5}),
    ("CategoryMapper", 1): ([WORDS], {"cats_int64s": [3, 5], "cats_strings": ["a", "b"]}),
    ("FeatureVectorizer", 1): ([ROW, ROW], {"inputdimensions": [2, 3]}),
    ("Imputer", 1): ([ROW], {"imputed_value_floats": [9.0], "replaced_value_float": 0.5}),
    ("LabelEncoder", 1): ([WORDS], {"classes_strings": ["a", "b"]}),
    ("LabelEncoder", 2): ([WORDS], LABELS),
    ("LabelEncoder", 4): (
        [WORDS],
        {
            "keys_strings": ["a", "b"],
            "values_tensor": tensor([1, 2], "int16"),
            "default_tensor": tensor([7], "int16"),
        },
    ),
    ("LinearClassifier", 1): ([ROW], {**WEIGHTS, "classlabels_strings": ["no", "yes"]}),
    ("LinearRegressor", 1): ([ROW], WEIGHTS),
    ("Normalizer", 1): ([ROW], {"norm": "L2"}),
    ("OneHotEncoder", 1): ([WORDS], {"cats_strings": ["a", "b"]}),
    ("SVMClassifier", 1): (
        [ROW],
        {
            **VECTORS,
            "vectors_per_class": [1, 1],
            "classlabels_ints": [3, 4],
            "prob_a": [0.5],
            "prob_b": [0.25],
        },
    ),
    ("SVMRegressor", 1): ([ROW], {**VECTORS, "n_supports": 2}),
    ("Scaler", 1): ([ROW], {"offset": [0.5, 1.0], "scale": [2.0, 3.0]}),
    ("TreeEnsemble", 5): (
        [ROW],
        {
            "nodes_splits": tensor([0.25], "float32"),
            "nodes_featureids": [0],
            "nodes_modes": tensor([0], "uint8"),
            "nodes_truenodeids": [0],
            "nodes_falsenodeids": [1],
            "nodes_trueleafs": [1],
            "nodes_falseleafs": [1],
            "leaf_targetids": [0, 0],
            "leaf_weights": tensor([1.5, 2.5], "float32"),
            "tree_roots": [0],
            "n_targets": 1,
        },
    ),
    ("TreeEnsembleClassifier", 1): (
        [ROW],
        {**STUMP, **BOTH, "class_ids": [0, 2, 0, 2], "classlabels_int64s": [1, 2, 3]},
    ),
    ("TreeEnsembleClassifier", 3): (
        [ROW.astype(np.float64)],
        {**STUMP, **BOTH, "class_ids": [0, 2, 0, 2], "classlabels_int64s": [1, 2, 3]},
    ),
    ("TreeEnsembleRegressor", 1): (
        [ROW],
        {**STUMP, **LEAVES, "target_weights": [1.5, 2.5], "n_targets": 1},
    ),
    ("TreeEnsembleRegressor", 3): (
        [ROW],
        {**STUMP, **LEAVES, "target_weights": [1.5, 2.5], "n_targets": 1, "base_values": [0.5]},
    ),
}


def test_no_version_of_an_operator_is_left_out() -> None:
    schemas = onnx.defs.get_all_schemas_with_history()
    live = {
        (each.name, each.since_version)
        for each in schemas
        if each.domain == ML and not each.deprecated
    }
    assert {case for case in live if case[0] not in MAPS} == set(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_routes_agree(case: tuple[str, int], tmp_path: Path) -> None:
    (op_type, version), (xs, attributes) = case, CASES[case]
    feeds = {f"x{place}": x for place, x in enumerate(xs)}
    outputs = 2 if op_type.endswith("Classifier") else 1
    model = ml_model(op_type, feeds, outputs, version, **attributes)
    found = on_routes(model, feeds, tmp_path)
    for route in ("run", "source"):
        assert close(found["roundtrip"], found[route]) is None, route
