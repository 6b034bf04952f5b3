"""TreeEnsembleClassifier and TreeEnsembleRegressor of ai.onnx.ml: the forests of before TreeEnsemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import DType, float32
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, Count, Float32, T
from burnx.ops.ml_scores import (
    ML,
    Array,
    as_rows,
    classifier_types,
    label_list,
    transformed,
    wide,
)
from burnx.ops.operator import operator
from burnx.ops.tree_classes import classify
from burnx.ops.trees import AGGREGATES, MODES, Forest, Votes, collect_votes, combine, walk
from burnx.tensor import Tensor

LEAF = "LEAF"
Numbers = Sequence[float] | Array | None


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of all trees, one after the other; a node is known by its tree and its number there."""

    trees: Sequence[int] | None
    numbers: Sequence[int] | None
    features: Sequence[int] | None
    modes: Sequence[str] | None
    values: Numbers
    yes: Sequence[int] | None
    no: Sequence[int] | None
    missing: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes of leaves: which leaf of which tree, for which target, with what weight."""

    trees: Sequence[int] | None
    numbers: Sequence[int] | None
    targets: Sequence[int] | None
    weights: Numbers


def _either(floats: Sequence[float] | None, tensor: Array | None) -> Numbers:
    """The one of two spellings that is given: floats, or a tensor where they are doubles."""
    return floats if tensor is None else np.asarray(tensor).reshape(-1)


def _grow(nodes: Nodes, ballot: Ballot, width: int, function: str) -> tuple[Forest, Votes]:
    """The forest of these nodes, inner ones before leaves, and the votes of its leaves.

    Raises: ModelError if the lists do not fit each other.
    """
    lists = (nodes.trees, nodes.numbers, nodes.features, nodes.modes, nodes.values, nodes.yes)
    columns = [list(each if each is not None else ()) for each in (*lists, nodes.no)]
    if not columns[0] or len(set(map(len, columns))) != 1:
        raise ModelError(
            f"lists of tree nodes are as long as each other, not {[*map(len, columns)]}"
        )
    trees, numbers, features, modes, values, yes, no = columns
    is_leaf = [mode == LEAF for mode in modes]
    order = [*np.flatnonzero(np.logical_not(is_leaf)), *np.flatnonzero(is_leaf)]
    names = [(trees[place], numbers[place]) for place in order]
    places = {name: new for new, name in enumerate(names)}
    if len(places) < len(names):
        raise ModelError("two nodes of a tree have the same number")
    inner = len(names) - sum(is_leaf)

    def follow(numbers: Sequence[int]) -> Array:
        """Where the branches of inner nodes lead; a leaf leads to itself."""
        ends = [_find(places, (trees[place], numbers[place])) for place in order[:inner]]
        return np.array([*ends, *range(inner, len(names))], np.int64)

    missing = nodes.missing if nodes.missing else [0] * len(names)
    forest = Forest(
        np.array([0 if is_leaf[place] else features[place] for place in order], np.int64),
        np.array([values[place] for place in order]),
        np.array([_mode(modes[place]) for place in order], np.int64),
        follow(yes),
        follow(no),
        np.array([missing[place] for place in order], np.bool_),
        np.zeros((len(names), 0)),
        inner,
        np.array([places[name] for name in _roots(trees, numbers)], np.int64),
    )
    return forest, _votes(ballot, places, inner, (len(names) - inner, width), function)


def _find(places: dict[tuple[int, int], int], name: tuple[int, int]) -> int:
    if name not in places:
        raise ModelError(f"tree {name[0]} has no node {name[1]}")
    return places[name]


def _mode(mode: str) -> int:
    kind = mode.removeprefix("BRANCH_")
    if mode != LEAF and (kind not in MODES or kind == "MEMBER"):
        raise ModelError(f'a tree node branches by one of {", ".join(MODES[:-1])}, not by "{mode}"')
    return 0 if mode == LEAF else MODES.index(kind)


def _roots(trees: Sequence[int], numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first node of every tree."""
    first: dict[int, tuple[int, int]] = {}
    for tree, number in zip(trees, numbers, strict=True):
        first.setdefault(tree, (tree, number))
    return list(first.values())


def _votes(
    ballot: Ballot,
    places: dict[tuple[int, int], int],
    inner: int,
    shape: tuple[int, int],
    function: str,
) -> Votes:
    weights: Any = [] if ballot.weights is None else np.asarray(ballot.weights).tolist()
    columns = [list(each or ()) for each in (ballot.trees, ballot.numbers, ballot.targets)]
    if len({len(weights), *map(len, columns)}) != 1:
        raise ModelError(f"lists of votes are as long as each other, not {[*map(len, columns)]}")
    leaves = [_find(places, name) - inner for name in zip(columns[0], columns[1], strict=True)]
    if any(leaf < 0 for leaf in leaves):
        raise ModelError("only leaves of a tree vote")
    return collect_votes(leaves, columns[2], weights, shape, function)


def _poll(
    x: Tensor, forest: Forest, votes: Votes, function: int, dtype: DType
) -> tuple[Tensor, Tensor]:
    """What the trees say of every row: a score for each target, and whether there is any.

    Shapes: (row, feature) -> both (row, target).
    """
    return combine(walk(as_rows(x, dtype), forest), votes, function, dtype)


@operator("TreeEnsembleRegressor", since=(1, 3, 5), domain=ML)
def tree_ensemble_regressor(
    x: T,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[float] | None = None,
    base_values_as_tensor: Array | None = None,
    n_targets: Count | None = None,
    nodes_falsenodeids: Sequence[int] | None = None,
    nodes_featureids: Sequence[int] | None = None,
    nodes_hitrates: Sequence[float] | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    nodes_modes: Sequence[str] | None = None,
    nodes_nodeids: Sequence[int] | None = None,
    nodes_treeids: Sequence[int] | None = None,
    nodes_truenodeids: Sequence[int] | None = None,
    nodes_values: Sequence[float] | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    target_ids: Sequence[int] | None = None,
    target_nodeids: Sequence[int] | None = None,
    target_treeids: Sequence[int] | None = None,
    target_weights: Sequence[float] | None = None,
    target_weights_as_tensor: Array | None = None,
) -> Float32:
    """The weights of the leaves that each row reaches, combined over the trees for each target.

    Shapes: (row, feature) -> (row, n_targets).
    Source: ai.onnx.ml TreeEnsembleRegressor-3
    """
    if aggregate_function not in AGGREGATES:
        raise ModelError(f'trees are combined by one of {AGGREGATES}, not "{aggregate_function}"')
    width = max(target_ids or (0,)) + 1 if n_targets is None else n_targets
    base = np.asarray(_either(base_values or (), base_values_as_tensor))
    if len(base) not in (0, width):
        raise ModelError(f"base_values has one number for each of {width} targets, not {len(base)}")
    values = _either(nodes_values, nodes_values_as_tensor)
    nodes = Nodes(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        nodes_modes,
        values,
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    weights = _either(target_weights, target_weights_as_tensor)
    ballot = Ballot(target_treeids, target_nodeids, target_ids, weights)
    forest, votes = _grow(nodes, ballot, width, aggregate_function)
    scores, _ = _poll(x, forest, votes, AGGREGATES.index(aggregate_function), wide(x))
    if len(base):
        scores = waist.map("add", scores, waist.constant(base[None], scores.dtype))
    return waist.cast_to(transformed(scores, post_transform), float32)


@operator("TreeEnsembleClassifier", since=(1, 3, 5), domain=ML)
def tree_ensemble_classifier(
    x: T1,
    *,
    base_values: Sequence[float] | None = None,
    base_values_as_tensor: Array | None = None,
    class_ids: Sequence[int] | None = None,
    class_nodeids: Sequence[int] | None = None,
    class_treeids: Sequence[int] | None = None,
    class_weights: Sequence[float] | None = None,
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    nodes_falsenodeids: Sequence[int] | None = None,
    nodes_featureids: Sequence[int] | None = None,
    nodes_hitrates: Sequence[float] | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    nodes_modes: Sequence[str] | None = None,
    nodes_nodeids: Sequence[int] | None = None,
    nodes_treeids: Sequence[int] | None = None,
    nodes_truenodeids: Sequence[int] | None = None,
    nodes_values: Sequence[float] | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> tuple[T2, Float32]:
    """The class with the greatest sum of leaf weights, and the sums.

    Shapes: (row, feature) -> (row), (row, class).
    Source: ai.onnx.ml TreeEnsembleClassifier-3
    """
    labels = label_list(classlabels_int64s, classlabels_strings)
    if not len(labels):
        raise ModelError("a TreeEnsembleClassifier needs labels of classes")
    values = _either(nodes_values, nodes_values_as_tensor)
    nodes = Nodes(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        nodes_modes,
        values,
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    weights = _either(class_weights, class_weights_as_tensor)
    ballot = Ballot(class_treeids, class_nodeids, class_ids, weights)
    forest, votes = _grow(nodes, ballot, len(labels), "SUM")
    polled = _poll(x, forest, votes, AGGREGATES.index("SUM"), wide(x))
    base = np.asarray(_either(base_values or (), base_values_as_tensor))
    chosen, scores = classify(polled, votes, base, labels, post_transform)
    return chosen, waist.cast_to(scores, float32)


tree_ensemble_classifier.infer(classifier_types)
