"""Recipes of ai.onnx.ml and of the training domain."""

from __future__ import annotations

from onnx import TensorProto, helper

from burnx.conformance.cases.recipe import FromTypes, Recipe
from burnx.conformance.cases.recipe import tensor_of as _tensor

_FLOAT, _UINT8 = TensorProto.FLOAT, TensorProto.UINT8
_TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.25, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
_KERNEL = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}
_ML, _TRAINING = "ai.onnx.ml.", "ai.onnx.preview.training."

_LISTS: dict[str, tuple[list[object], list[object]]] = {
    "string": (["0", "2"], ["x", "y"]),
    "int64": ([0, 2], [5, 7]),
    "float": ([0.0, 2.0], [1.5, -2.5]),
}
_LISTED = ("string", "int64", "float")
"""Keys and values of a label encoder by their type."""


def _by_type(variable: str, kind: str, role: int) -> FromTypes:
    """A list of keys (role 0) or values (1), where the variable is of that type."""
    wanted = f"tensor({kind})"
    return FromTypes(
        (variable,), lambda types, _: _LISTS[kind][role] if types[variable] == wanted else None
    )


def _by_key(key: str, vocabulary: list[object]) -> FromTypes:
    """A vocabulary, where the keys of the map are of that type."""
    start = f"map({key},"
    return FromTypes(
        ("T1",), lambda types, _: vocabulary if types["T1"].startswith(start) else None
    )


RECIPES = [
    Recipe(_ML + "ArrayFeatureExtractor", "2x4 | =[[0, 2]]"),
    Recipe(_ML + "Binarizer", "2x3", {"threshold": 0.5}),
    Recipe(
        _ML + "CastMap",
        "={0: 1.5, 2: 2.0}",
        {"cast_to": "TO_FLOAT", "map_form": "DENSE"},
        types={"T1": "map(int64, float)"},
        until=1,
    ),
    Recipe(
        _ML + "CategoryMapper",
        "2x3 below 3",
        {
            "cats_strings": ["0", "2"],
            "cats_int64s": [0, 2],
            "default_int64": -1,
            "default_string": "?",
        },
        types={"T2": "tensor(string)"},
        tied={"T2": "T1"},
    ),
    Recipe(
        _ML + "DictVectorizer",
        "()",
        {
            "string_vocabulary": _by_key("string", ["a", "c", "b"]),
            "int64_vocabulary": _by_key("int64", [0, 1, 2]),
        },
        types={"T1": "map(string, float)"},
    ),
    Recipe(_ML + "FeatureVectorizer", "2x2 | 2x1", {"inputdimensions": [2, 1]}),
    Recipe(
        _ML + "Imputer",
        "2x3",
        {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": 0.5},
        only={"T": ("float", "double")},
        name="floats",
    ),
    Recipe(
        _ML + "Imputer",
        "2x3",
        {"imputed_value_int64s": [1, 2, 3], "replaced_value_int64": 2},
        types={"T": "tensor(int64)"},
        only={"T": ("int64", "int32")},
        name="integers",
    ),
    Recipe(
        _ML + "LabelEncoder",
        "2x3 below 3",
        {"classes_strings": ["b", "1", "a"], "default_int64": -1},
        until=1,
        tied={"T2": "T1"},
        types={"T1": "tensor(int64)", "T2": "tensor(string)"},
    ),
    Recipe(
        _ML + "LabelEncoder",
        "2x3 below 3",
        {
            **{f"keys_{kind}s": _by_type("T1", kind, 0) for kind in _LISTS},
            **{f"values_{kind}s": _by_type("T2", kind, 1) for kind in _LISTS},
            "default_float": -1.0,
            "default_int64": -1,
            "default_string": "?",
        },
        since=2,
        only={"T1": _LISTED, "T2": _LISTED},
    ),
    Recipe(
        _ML + "LabelEncoder",
        "2x3 below 3",
        {
            "keys_tensor": _tensor("T1", "=[0, 2]"),
            "values_tensor": _tensor("T2", "=[5, 7]"),
            "default_tensor": _tensor("T2", "=[9]"),
        },
        since=4,
        name="tensors",
    ),
    Recipe(
        _ML + "LinearClassifier",
        "2x3",
        {
            "coefficients": [0.5, -1.0, 0.25, -0.5, 1.0, -0.25],
            "intercepts": [0.5, -0.5],
            "classlabels_ints": [3, 7],
            "multi_class": 1,
        },
        outputs=2,
    ),
    Recipe(
        _ML + "LinearClassifier",
        "2x3",
        {
            "coefficients": [0.5, -1.0, 0.25, -0.5, 1.0, -0.25],
            "intercepts": [0.5, -0.5],
            "classlabels_strings": ["a", "b"],
            "multi_class": 1,
        },
        outputs=2,
        types={"T2": "tensor(string)"},
        name="strings",
    ),
    Recipe(
        _ML + "LinearRegressor", "2x3", {"coefficients": [0.5, -1.0, 0.25], "intercepts": [0.5]}
    ),
    Recipe(_ML + "Normalizer", "2x3 nonzero", {"norm": "L2"}),
    Recipe(
        _ML + "OneHotEncoder",
        "=[1, 3, 9]",
        {"cats_int64s": [1, 2, 3]},
        types={"T": "tensor(int64)"},
        only={"T": ("int64", "int32", "float", "double")},
    ),
    Recipe(
        _ML + "OneHotEncoder",
        "=['a', 'z']",
        {"cats_strings": ["a", "b"]},
        types={"T": "tensor(string)"},
        only={"T": ("string",)},
        name="strings",
    ),
    Recipe(
        _ML + "SVMRegressor",
        "2x2",
        {
            "coefficients": [0.5, -1.0],
            "support_vectors": [0.0, 1.0, 1.0, -1.0],
            "n_supports": 2,
            "rho": [0.25],
            **_KERNEL,
        },
    ),
    Recipe(
        _ML + "SVMClassifier",
        "2x2",
        {
            "coefficients": [0.5, -1.0],
            "support_vectors": [0.0, 1.0, 1.0, -1.0],
            "vectors_per_class": [1, 1],
            "rho": [0.25],
            "classlabels_ints": [0, 1],
            **_KERNEL,
        },
        outputs=2,
    ),
    Recipe(
        _ML + "SVMClassifier",
        "2x2",
        {
            "coefficients": [0.5, -1.0],
            "support_vectors": [0.0, 1.0, 1.0, -1.0],
            "vectors_per_class": [1, 1],
            "rho": [0.25],
            "classlabels_strings": ["a", "b"],
            **_KERNEL,
        },
        outputs=2,
        types={"T2": "tensor(string)"},
        name="strings",
    ),
    Recipe(_ML + "Scaler", "2x3", {"offset": [1.0, 0.0, -1.0], "scale": [2.0, 0.5, 1.0]}),
    Recipe(
        _ML + "TreeEnsemble",
        "3x2",
        {
            "tree_roots": [0],
            "n_targets": 1,
            "nodes_featureids": [1],
            "nodes_truenodeids": [0],
            "nodes_falsenodeids": [1],
            "nodes_trueleafs": [1],
            "nodes_falseleafs": [1],
            "leaf_targetids": [0, 0],
            "nodes_modes": helper.make_tensor("modes", _UINT8, [1], [0]),
            "nodes_splits": helper.make_tensor("splits", _FLOAT, [1], [0.25]),
            "leaf_weights": helper.make_tensor("weights", _FLOAT, [2], [1.5, -2.0]),
        },
    ),
    Recipe(
        _ML + "TreeEnsemble",
        "3x2",
        {
            "tree_roots": [0],
            "n_targets": 3,
            "nodes_featureids": [1],
            "nodes_truenodeids": [0],
            "nodes_falsenodeids": [1],
            "nodes_trueleafs": [1],
            "nodes_falseleafs": [1],
            "leaf_targetids": [0, 2],
            "nodes_modes": helper.make_tensor("modes", _UINT8, [1], [0]),
            "nodes_splits": helper.make_tensor("splits", _FLOAT, [1], [0.25]),
            "leaf_weights": helper.make_tensor("weights", _FLOAT, [2], [1.5, -2.0]),
            "post_transform": 2,
        },
        name="logistic",
    ),
    Recipe(
        _ML + "TreeEnsembleClassifier",
        "3x2",
        {
            **_TREE,
            "class_treeids": [0, 0],
            "class_nodeids": [1, 2],
            "class_ids": [0, 1],
            "class_weights": [1.0, 1.0],
            "classlabels_int64s": [3, 7],
        },
        outputs=2,
    ),
    Recipe(
        _ML + "TreeEnsembleClassifier",
        "3x2",
        {
            **_TREE,
            "class_treeids": [0, 0],
            "class_nodeids": [1, 2],
            "class_ids": [0, 1],
            "class_weights": [1.0, 1.0],
            "classlabels_strings": ["a", "b"],
        },
        outputs=2,
        types={"T2": "tensor(string)"},
        name="strings",
    ),
    Recipe(
        _ML + "TreeEnsembleRegressor",
        "3x2",
        {
            **_TREE,
            "target_treeids": [0, 0],
            "target_nodeids": [1, 2],
            "target_ids": [0, 0],
            "target_weights": [1.5, -2.0],
            "n_targets": 1,
        },
    ),
    Recipe(
        _ML + "TreeEnsembleRegressor",
        "3x2",
        {
            **_TREE,
            "target_treeids": [0, 0, 0],
            "target_nodeids": [1, 2, 2],
            "target_ids": [0, 0, 0],
            "target_weights": [1.5, -2.0, 0.25],
            "n_targets": 1,
        },
        name="votes",
    ),
    Recipe(
        _ML + "ZipMap", "2x2", {"classlabels_int64s": [3, 7]}, types={"T": "seq(map(int64, float))"}
    ),
    Recipe(
        _ML + "ZipMap",
        "2x2",
        {"classlabels_strings": ["a", "b"]},
        types={"T": "seq(map(string, float))"},
        name="strings",
    ),
    Recipe(
        _TRAINING + "Adagrad",
        "=0.1 | =2 | 3 | 3 | 3 positive",
        {"norm_coefficient": 0.01},
        outputs=2,
    ),
    Recipe(
        _TRAINING + "Adam",
        "=0.1 | =2 | 3 | 3 | 3 | 3 positive",
        {"norm_coefficient": 0.01},
        outputs=3,
    ),
    Recipe(
        _TRAINING + "Momentum",
        "=0.1 | =2 | 3 | 3 | 3",
        {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 1.0, "mode": "nesterov"},
        outputs=2,
    ),
]
