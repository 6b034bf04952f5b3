"""TreeEnsemble of ai.onnx.ml: every row walks down every tree at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import DType, bool_, int64
from burnx.errors import ModelError
from burnx.ops.kinds import Count, T
from burnx.ops.ml_scores import ML, TRANSFORMS, as_rows, transformed
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor

Array = np.ndarray[Any, Any]
MEMBER = 6
UNROLLED = 6
"""Steps that are written out; more of them are a loop."""
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TOGETHER: dict[str, Callable[[float, float], float]] = {
    "AVERAGE": lambda left, right: left + right,
    "SUM": lambda left, right: left + right,
    "MIN": min,
    "MAX": max,
}


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes and, behind them, leaves; a leaf leads to itself, so walking on from it changes nothing.

    ``sets`` holds what each MEMBER node looks for, filled up with NaN.
    """

    features: Array
    splits: Array
    modes: Array
    yes: Array
    no: Array
    missing: Array
    sets: Array
    nodes: int
    roots: Array

    def depth(self) -> int:
        """How many steps the longest way down has."""
        level, steps = set(self.roots.tolist()), 0
        while any(place < self.nodes for place in level):
            inner = [place for place in level if place < self.nodes]
            level = {int(each[place]) for place in inner for each in (self.yes, self.no)}
            steps += 1
            if steps > self.nodes:
                raise ModelError("the nodes of a TreeEnsemble go round in a circle")
        return steps


@operator("TreeEnsemble", since=(5,), domain=ML)
def tree_ensemble(
    x: T,
    *,
    nodes_splits: Array = REQUIRED,  # type: ignore[assignment]
    nodes_featureids: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    nodes_modes: Array = REQUIRED,  # type: ignore[assignment]
    nodes_truenodeids: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    nodes_falsenodeids: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    nodes_trueleafs: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    nodes_falseleafs: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    leaf_targetids: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    leaf_weights: Array = REQUIRED,  # type: ignore[assignment]
    tree_roots: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    nodes_hitrates: Array | None = None,
    membership_values: Array | None = None,
    n_targets: Count | None = None,
    aggregate_function: int = 1,
    post_transform: int = 0,
) -> T:
    """The weights of the leaves that each row reaches, combined over the trees for each target.

    Shapes: (row, feature) -> (row, n_targets).
    Source: ai.onnx.ml TreeEnsemble-5
    """
    count, leaves = len(nodes_featureids), len(leaf_targetids)
    if aggregate_function not in range(len(AGGREGATES)):
        raise ModelError(f"TreeEnsemble combines by function 0 to 3, not {aggregate_function}")
    modes = np.asarray(nodes_modes).astype(np.int64)
    if modes.size and not 0 <= int(modes.min()) <= int(modes.max()) < len(MODES):
        raise ModelError(f"the modes of tree nodes are 0 to {len(MODES) - 1}, not {modes.tolist()}")
    itself = np.arange(count, count + leaves)
    filler = np.zeros(leaves, np.int64)
    yes = np.asarray(nodes_truenodeids) + count * np.asarray(nodes_trueleafs)
    no = np.asarray(nodes_falsenodeids) + count * np.asarray(nodes_falseleafs)
    missing = (
        np.zeros(count)
        if nodes_missing_value_tracks_true is None
        else (np.asarray(nodes_missing_value_tracks_true))
    )
    forest = Forest(
        np.append(np.asarray(nodes_featureids, np.int64), filler),
        np.append(np.asarray(nodes_splits), filler).astype(x.dtype),
        np.append(modes, filler),
        np.append(yes, itself),
        np.append(no, itself),
        np.append(missing, filler).astype(np.bool_),
        _member_sets(modes, leaves, membership_values, x.dtype),
        count,
        np.asarray(tree_roots, np.int64),
    )
    width = max(leaf_targetids, default=0) + 1 if n_targets is None else n_targets
    weights = np.asarray(leaf_weights).tolist()
    votes = collect_votes(
        range(leaves), leaf_targetids, weights, (leaves, width), AGGREGATES[aggregate_function]
    )
    total, _ = combine(walk(as_rows(x), forest), votes, aggregate_function, x.dtype)
    if not 0 <= post_transform < len(TRANSFORMS):
        raise ModelError(f"post_transform is 0 to {len(TRANSFORMS) - 1}, not {post_transform}")
    return transformed(total, TRANSFORMS[post_transform])


def _member_sets(modes: Array, leaves: int, values: Array | None, dtype: DType) -> Array:
    """What each MEMBER node looks for; the sets stand one after the other, NaN between them."""
    groups: list[list[float]] = [[]]
    for value in [] if values is None else np.asarray(values).tolist():
        if value == value:
            groups[-1].append(value)
        else:
            groups.append([])
    places = np.flatnonzero(modes == MEMBER)
    if len(groups) < len(places):
        raise ModelError(f"{len(places)} MEMBER nodes need as many sets, not {len(groups)}")
    width = max(map(len, groups), default=0)
    sets = np.full((len(modes) + leaves, width), np.nan)
    for place, group in zip(places, groups, strict=False):
        sets[place, : len(group)] = group
    return sets.astype(dtype)


def walk(x: Tensor, forest: Forest) -> Tensor:
    """The leaf that every row arrives at in every tree.

    Shapes: (row, feature) -> (row, tree).
    """
    place = waist.broadcast(waist.constant(forest.roots), (x.shape[0], len(forest.roots)))
    depth, count = forest.depth(), waist.constant(forest.nodes, int64)
    if depth <= UNROLLED:
        for _ in range(depth):
            place = _step(x, place, forest)
        return waist.map("sub", place, count)

    def down(turn: Tensor, going: Tensor, place: Tensor) -> Sequence[Tensor]:
        place = _step(x, place, forest)
        return waist.reduce("or", waist.map("lt", place, count), [0, 1]), place

    turns, going = waist.constant(depth, int64), waist.constant(True, bool_)
    return waist.map("sub", waist.repeat(turns, going, [place], down)[0], count)


def _step(x: Tensor, place: Tensor, forest: Forest) -> Tensor:
    """One step down every tree; who is at a leaf stays there."""
    tables = [waist.constant(each) for each in (forest.features, forest.yes, forest.no)]
    features, yes, no = (waist.take(each, place, 0) for each in tables)
    chosen = _answers(waist.take_along(x, features, 1), place, forest)
    return waist.map("select", chosen, yes, no)


def _answers(value: Tensor, place: Tensor, forest: Forest) -> Tensor:
    """Whether the test at each place holds for the value there."""
    split = waist.take(waist.constant(forest.splits, value.dtype), place, 0)
    modes = waist.take(waist.constant(forest.modes), place, 0)
    is_number = waist.map("eq", value, value)
    result = waist.map("and", waist.map("not", is_number), _missing(place, forest))
    for mode in sorted(set(forest.modes[: forest.nodes].tolist())):
        answer = _member(value, place, forest) if mode == MEMBER else _TESTS[mode](value, split)
        own = waist.map("eq", modes, waist.constant(mode, int64))
        result = waist.map("or", result, waist.map("and", own, answer))
    return result


def _missing(place: Tensor, forest: Forest) -> Tensor:
    return waist.take(waist.constant(forest.missing, bool_), place, 0)


def _member(value: Tensor, place: Tensor, forest: Forest) -> Tensor:
    sets = waist.take(waist.constant(forest.sets, value.dtype), place, 0)
    return waist.reduce("or", waist.map("eq", waist.reshape(value, (*value.shape, 1)), sets), [2])


_TESTS: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    0: lambda value, split: waist.map("le", value, split),
    1: lambda value, split: waist.map("lt", value, split),
    2: lambda value, split: waist.map("le", split, value),
    3: lambda value, split: waist.map("lt", split, value),
    4: lambda value, split: waist.map("eq", value, split),
    5: lambda value, split: waist.map("not", waist.map("eq", value, split)),
}


@dataclass(frozen=True, slots=True)
class Votes:
    """What every leaf says of every target: a weight, and whether it says anything.

    Shapes: both (leaf, target).
    """

    weights: Array
    given: Array


def collect_votes(
    leaves: Sequence[int],
    targets: Sequence[int],
    weights: Sequence[float],
    shape: tuple[int, int],
    function: str,
) -> Votes:
    """The votes of leaves; several of one leaf for one target are combined as those of several trees are."""
    total, given = np.zeros(shape), np.zeros(shape, np.bool_)
    together = _TOGETHER[function]
    for leaf, target, weight in zip(leaves, targets, weights, strict=True):
        if not 0 <= target < shape[1]:
            raise ModelError(f"a leaf votes for one of {shape[1]} targets, not for {target}")
        is_first = not given[leaf, target]
        total[leaf, target] = weight if is_first else together(total[leaf, target], weight)
        given[leaf, target] = True
    return Votes(total, given)


def combine(reached: Tensor, votes: Votes, function: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """Average, sum, least or greatest over the trees, and whether any tree says something; else the result is 0.

    Shapes: (row, tree) -> both (row, target).
    """
    trees = reached.shape[1]
    given = waist.take(waist.constant(votes.given), reached, 0)
    weights = waist.take(waist.constant(votes.weights, dtype), reached, 0)
    any_given = waist.reduce("or", given, [1])
    name = AGGREGATES[function]
    if name in ("AVERAGE", "SUM"):
        total = waist.reduce("sum", weights, [1])
        count = waist.constant(trees, dtype)
        return waist.map("div", total, count) if name == "AVERAGE" else total, any_given
    reducer, neutral = ("min", np.inf) if name == "MIN" else ("max", -np.inf)
    kept = waist.map("select", given, weights, waist.constant(neutral, dtype))
    best = waist.reduce(reducer, kept, [1])
    return waist.map("select", any_given, best, waist.constant(0, dtype)), any_given
