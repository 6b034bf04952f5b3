"""Linear models, support vector machines and tree ensembles of ai.onnx.ml: random ones against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnx
from burnx.errors import ModelError
from tests.unit.ops.ml_nodes import Array, check, floats, ml_model, run, run_onnxruntime

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
DTYPES = ("float32", "float64", "int64", "int32")
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
SEEDS = range(8)
Attributes = dict[str, Any]


def labels_of(rng: np.random.Generator, count: int, integers: str) -> Attributes:
    if rng.random() < 0.5:
        return {integers: [10 * place + 10 for place in range(count)]}
    return {"classlabels_strings": list("abcdef"[:count])}


def rows_of(rng: np.random.Generator, features: int, seed: int) -> Array:
    rows = rng.normal(size=(int(rng.integers(1, 6)), features)) * 2
    return rows.astype(DTYPES[seed % 4])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_models(transform: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, scores = int(rng.integers(1, 5)), seed % 4 + 1
    x = rows_of(rng, features, seed)
    weights = {"coefficients": floats(rng, scores * features), "intercepts": floats(rng, scores)}
    labels = labels_of(rng, max(scores, 2), "classlabels_ints")
    check("LinearClassifier", x, outputs=2, post_transform=transform, **weights, **labels)
    if scores > 1 or transform == "NONE":  # of one score onnxruntime forgets the transform
        options = {**weights, "targets": scores, "post_transform": transform}
        check("LinearRegressor", x.astype(np.float32), **options)


def test_the_transform_of_one_target_is_carried_out() -> None:
    x = np.array([[0.5], [-2.0]], np.float32)
    (found,) = run("LinearRegressor", x, coefficients=[1.0], post_transform="LOGISTIC")
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-x)), rtol=1e-6)


def test_probit_is_the_quantile_that_it_is_called_after() -> None:
    x = np.array([[0.975, 0.5]], np.float32)
    options = {"coefficients": [1.0, 0.0, 0.0, 1.0], "targets": 2, "post_transform": "PROBIT"}
    np.testing.assert_allclose(run("LinearRegressor", x, **options)[0], [[1.959964, 0]], rtol=1e-5)


def test_one_row_and_one_score_without_labels() -> None:
    check(
        "LinearClassifier",
        np.ones(2, np.float32),
        outputs=2,
        coefficients=[0.5, 1.0],
        intercepts=[0.1],
    )
    check("LinearRegressor", np.ones(2, np.float32), coefficients=[0.5, 1.0], intercepts=[0.1])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", SEEDS)
def test_support_vector_machines(kernel: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, classes = int(rng.integers(1, 5)), seed % 3 + 2
    x, pairs = rows_of(rng, features, seed), classes * (classes - 1) // 2
    counts = [int(each) for each in rng.integers(1, 4, classes)]
    total = sum(counts)
    shape = {"kernel_type": kernel, "kernel_params": [0.25, 0.5, float(seed % 3 + 1)]}
    vectors = {"support_vectors": floats(rng, total * features), **shape}
    machine = {
        "coefficients": floats(rng, (classes - 1) * total),
        "rho": floats(rng, pairs),
        "vectors_per_class": counts,
        "post_transform": TRANSFORMS[seed % 4],
        **labels_of(rng, classes, "classlabels_ints"),
        **vectors,
    }
    check("SVMClassifier", x, outputs=2, **machine)
    odds = {"prob_a": floats(rng, pairs), "prob_b": floats(rng, pairs)}
    check("SVMClassifier", x, outputs=2, device="cpu", **machine, **odds)
    regressor = {"coefficients": floats(rng, total), "rho": floats(rng, 1), "n_supports": total}
    check("SVMRegressor", x.astype(np.float32), one_class=seed % 2, **regressor, **vectors)


@pytest.mark.parametrize("seed", SEEDS)
def test_support_vector_machines_without_vectors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, classes = int(rng.integers(1, 5)), seed % 3 + 2
    x = rows_of(rng, features, seed)
    weights = np.array(floats(rng, classes * features))
    if seed % 2:
        weights = np.abs(weights)
    machine = {
        "coefficients": weights.tolist(),
        "rho": floats(rng, 1),
        "kernel_type": "LINEAR",
        "kernel_params": [0.0, 0.0, 0.0],
        **labels_of(rng, classes, "classlabels_ints"),
    }
    check("SVMClassifier", x, outputs=2, post_transform=TRANSFORMS[seed % 4], **machine)


class Grove:
    """Random trees in the lists of the older ensembles; ``leaves`` are (tree, node)."""

    MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

    def __init__(self, rng: np.random.Generator, features: int, trees: int, depth: int = 3) -> None:
        self.rng, self.features = rng, features
        self.lists: dict[str, list[Any]] = {}
        self.leaves: list[tuple[int, int]] = []
        for tree in range(trees):
            self.count = 0
            self.grow(tree, depth)

    def grow(self, tree: int, depth: int) -> int:
        number, self.count = self.count, self.count + 1
        rng, is_leaf = self.rng, depth == 0
        fields: dict[str, Any] = {
            "treeids": tree,
            "nodeids": number,
            "featureids": 0 if is_leaf else int(rng.integers(self.features)),
            "modes": "LEAF" if is_leaf else str(rng.choice(self.MODES)),
            "values": float(rng.integers(-2, 3)) / 2,
            "truenodeids": 0,
            "falsenodeids": 0,
            "missing_value_tracks_true": int(rng.integers(2)),
        }
        place = len(self.lists.get("nodes_modes", ()))
        for name, value in fields.items():
            self.lists.setdefault(f"nodes_{name}", []).append(value)
        if is_leaf:
            self.leaves.append((tree, number))
            return number
        depths = rng.integers(0, depth, 2) if depth < 4 else (depth - 1, int(rng.integers(depth)))
        for side, below in zip(("true", "false"), depths, strict=True):
            self.lists[f"nodes_{side}nodeids"][place] = self.grow(tree, int(below))
        return number

    def votes(self, prefix: str, targets: list[int], is_positive: bool) -> Attributes:
        """Every leaf votes for all targets."""
        pairs = [(leaf, target) for leaf in self.leaves for target in targets]
        weights = np.array(floats(self.rng, len(pairs)))
        return {
            f"{prefix}_treeids": [leaf[0] for leaf, _ in pairs],
            f"{prefix}_nodeids": [leaf[1] for leaf, _ in pairs],
            f"{prefix}_ids": [target for _, target in pairs],
            f"{prefix}_weights": (np.abs(weights) if is_positive else weights).tolist(),
        }


def half_steps(rng: np.random.Generator, features: int, seed: int) -> Array:
    x = (rng.integers(-3, 4, (5, features)) / 2).astype(DTYPES[seed % 4])
    if x.dtype.kind == "f":
        x[0, 0] = np.nan
    return x


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("seed", SEEDS)
def test_regression_by_trees(aggregate: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, targets = int(rng.integers(1, 4)), seed % 3 + 1
    grove = Grove(rng, features, int(rng.integers(1, 4)))
    votes = grove.votes("target", list(range(targets)), False)
    base = {"base_values": floats(rng, targets)} if seed % 2 else {}
    transform = "NONE" if targets == 1 else TRANSFORMS[seed % 4]
    x = half_steps(rng, features, seed % 2)
    options = {"aggregate_function": aggregate, "post_transform": transform, "n_targets": targets}
    check("TreeEnsembleRegressor", x, **grove.lists, **votes, **base, **options)


def test_deep_trees(device: str) -> None:
    rng = np.random.default_rng(5)
    grove = Grove(rng, 3, 2, depth=9)
    votes = grove.votes("target", [0, 1], False)
    x = half_steps(rng, 3, 0)
    check("TreeEnsembleRegressor", x, device=device, n_targets=2, **grove.lists, **votes)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("seed", SEEDS)
def test_classification_by_trees(transform: str, seed: int) -> None:
    """Three classes and more; of two, those where all leaves vote for one."""
    rng = np.random.default_rng(seed)
    features, classes = int(rng.integers(1, 4)), seed % 3 + 2
    grove = Grove(rng, features, int(rng.integers(1, 4)))
    targets = [seed // 3 % 2] if classes == 2 else list(range(classes))
    votes = grove.votes("class", targets, seed % 2 == 0)
    base: Attributes = {"base_values": floats(rng, classes)} if classes > 2 and seed % 4 else {}
    if classes == 2 and seed % 4:
        base = {"base_values": floats(rng, 1)}
    labels = labels_of(rng, classes, "classlabels_int64s")
    x = half_steps(rng, features, seed)
    options = {**base, **labels, "post_transform": transform}
    check("TreeEnsembleClassifier", x, outputs=2, **grove.lists, **votes, **options)


STUMP: Attributes = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
BOTH: Attributes = {
    "class_treeids": [0, 0, 0, 0],
    "class_nodeids": [1, 1, 2, 2],
    "class_ids": [0, 1, 0, 1],
    "class_weights": [0.75, 0.25, 0.5, 1.5],
    "classlabels_int64s": [10, 20],
}
SIDES = np.array([[-1.0], [1.0]], np.float32)


def test_of_two_classes_with_votes_the_top_one_is_named() -> None:
    """The standard says the top class and sums; onnxruntime names a class that is none of the two."""
    labels, scores = run("TreeEnsembleClassifier", SIDES, outputs=2, **STUMP, **BOTH)
    assert labels.tolist() == [10, 20]
    np.testing.assert_allclose(scores, [[0.75, 0.25], [0.5, 1.5]])


def test_base_values_are_added_to_the_scores_of_two_classes() -> None:
    options = {**STUMP, **BOTH, "base_values": [1.0, -0.5]}
    labels, scores = run("TreeEnsembleClassifier", SIDES, outputs=2, **options)
    assert labels.tolist() == [10, 10]
    np.testing.assert_allclose(scores, [[1.75, -0.25], [1.5, 1.0]])


def test_doubles_are_thresholds_of_doubles() -> None:
    edge = np.nextafter(0.1, 1)
    stump = {name: value for name, value in STUMP.items() if name != "nodes_values"}
    import onnx

    def doubles(values: list[float]) -> Any:
        return onnx.numpy_helper.from_array(np.array(values))

    options = {
        **stump,
        "nodes_values_as_tensor": doubles([0.1, 0.0, 0.0]),
        "target_weights_as_tensor": doubles([1.0, 2.0]),
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "n_targets": 1,
    }
    check("TreeEnsembleRegressor", np.array([[0.1], [edge]]), **options)


def test_trees_that_contradict_themselves_are_refused() -> None:
    broken = {**STUMP, **BOTH, "nodes_truenodeids": [7, 0, 0]}
    with pytest.raises(burnx.BurnxError, match="tree 0 has no node 7"):
        run("TreeEnsembleClassifier", SIDES, outputs=2, **broken)
    circle = {**STUMP, **BOTH, "nodes_truenodeids": [0, 0, 0]}
    with pytest.raises(burnx.BurnxError, match="circle"):
        run("TreeEnsembleClassifier", SIDES, outputs=2, **circle)
    with pytest.raises(burnx.BurnxError, match='not "SIGMA"'):
        run("TreeEnsembleClassifier", SIDES, outputs=2, **STUMP, **BOTH, post_transform="SIGMA")


def test_coefficients_of_features_that_were_cut_are_not_read() -> None:
    """Files have them: onnxruntime's own example of iris has 12 coefficients for 3 scores of 2 features."""
    x = np.float32([[0.5, -1.0], [2.0, 0.25]])
    weights = {"coefficients": [float(n) for n in range(-6, 6)], "intercepts": [0.5, -0.5, 1.0]}
    node = {"outputs": 2, "post_transform": "LOGISTIC", "classlabels_ints": [0, 1, 2], **weights}
    model = ml_model("LinearClassifier", {"x0": x}, **node)
    del model.graph.input[0].type.tensor_type.shape.dim[:]
    for size in x.shape:
        model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = size
    found = list(burnx.load(model, device="reference").run({"x0": x}).values())
    wanted = run_onnxruntime("LinearClassifier", x, **node)
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)
    with pytest.raises(ModelError, match="need 9 coefficients, not 6"):
        node["coefficients"] = weights["coefficients"][:6]
        model = ml_model("LinearClassifier", {"x0": np.ones((2, 3), np.float32)}, **node)
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
        burnx.load(model, device="reference").run({"x0": np.ones((2, 3), np.float32)})
