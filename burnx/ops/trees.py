"""TreeEnsemble of ai.onnx.ml: every row walks down every tree at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import DType, bool_, float64, int64
from burnx.errors import ModelError, UnsupportedError
from burnx.ops.kinds import T
from burnx.ops.ml_tables import ML
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor

Array = np.ndarray[Any, Any]
MEMBER = 6
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")


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
    n_targets: int | None = None,
    aggregate_function: int = 1,
    post_transform: int = 0,
) -> T:
    """The weights of the leaves that each row reaches, combined over the trees for each target.

    Shapes: (row, feature) -> (row, n_targets).
    Source: ai.onnx.ml TreeEnsemble-5
    """
    count, leaves = len(nodes_featureids), len(leaf_targetids)
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
    reached = waist.map("sub", _walk(x, forest), waist.constant(count, int64))
    weights = waist.take(waist.constant(leaf_weights, x.dtype), reached, 0)
    targets = waist.take(waist.constant(leaf_targetids, int64), reached, 0)
    width = max(leaf_targetids, default=0) + 1 if n_targets is None else n_targets
    total = _aggregate(weights, targets, width, aggregate_function)
    if post_transform not in _TRANSFORMS:
        raise UnsupportedError(f"TreeEnsemble has no post_transform {post_transform} here")
    return _TRANSFORMS[post_transform](total)


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


def _walk(x: Tensor, forest: Forest) -> Tensor:
    """Where every row arrives in every tree.

    Shapes: (row, feature) -> (row, tree).
    """
    place = waist.broadcast(waist.constant(forest.roots), (x.shape[0], len(forest.roots)))
    tables = [waist.constant(each) for each in (forest.features, forest.yes, forest.no)]
    for _ in range(forest.depth()):
        features, yes, no = (waist.take(each, place, 0) for each in tables)
        chosen = _answers(waist.take_along(x, features, 1), place, forest)
        place = waist.map("select", chosen, yes, no)
    return place


def _answers(value: Tensor, place: Tensor, forest: Forest) -> Tensor:
    """Whether the test at each place holds for the value there."""
    split = waist.take(waist.constant(forest.splits), place, 0)
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
    sets = waist.take(waist.constant(forest.sets), place, 0)
    return waist.reduce("or", waist.map("eq", waist.reshape(value, (*value.shape, 1)), sets), [2])


_TESTS: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    0: lambda value, split: waist.map("le", value, split),
    1: lambda value, split: waist.map("lt", value, split),
    2: lambda value, split: waist.map("le", split, value),
    3: lambda value, split: waist.map("lt", split, value),
    4: lambda value, split: waist.map("eq", value, split),
    5: lambda value, split: waist.map("not", waist.map("eq", value, split)),
}


def _aggregate(weights: Tensor, targets: Tensor, width: int, function: int) -> Tensor:
    """Average, sum, least or greatest over the trees; a target that no leaf names gets 0.

    Shapes: two of (row, tree) -> (row, width).
    """
    if function not in (0, 1, 2, 3):
        raise ModelError(f"TreeEnsemble combines by function 0 to 3, not {function}")
    rows, trees = weights.shape
    wide = waist.reshape(weights, (rows, trees, 1))
    ids = waist.reshape(waist.iota(width), (1, 1, width))
    named = waist.map("eq", waist.reshape(targets, (rows, trees, 1)), ids)
    zero = waist.constant(0, weights.dtype)
    if function in (0, 1):
        total = waist.reduce("sum", waist.map("select", named, wide, zero), [1])
        count = waist.constant(trees if function == 0 else 1, weights.dtype)
        return waist.map("div", total, count)
    name, neutral = ("min", np.inf) if function == 2 else ("max", -np.inf)
    kept = waist.map("select", named, wide, waist.constant(neutral, weights.dtype))
    best = waist.reduce(name, kept, [1])
    return waist.map("select", waist.reduce("or", named, [1]), best, zero)


def _softmax(x: Tensor) -> Tensor:
    top = waist.reshape(waist.reduce("max", x, [1]), (x.shape[0], 1))
    powers = waist.map("exp", waist.map("sub", x, top))
    return waist.map("div", powers, waist.reshape(waist.reduce("sum", powers, [1]), top.shape))


def _softmax_zero(x: Tensor) -> Tensor:
    """Softmax over what is not zero; zeros stay."""
    zero = waist.constant(0, x.dtype)
    is_zero = waist.map("eq", x, zero)
    top = waist.reshape(waist.reduce("max", x, [1]), (x.shape[0], 1))
    powers = waist.map("exp", waist.map("sub", x, top))
    powers = waist.map("select", is_zero, zero, powers)
    total = waist.reshape(waist.reduce("sum", powers, [1]), top.shape)
    total = waist.map("select", waist.map("eq", total, zero), waist.constant(1, x.dtype), total)
    return waist.map("div", powers, total)


def _logistic(x: Tensor) -> Tensor:
    one = waist.constant(1, x.dtype)
    return waist.map("div", one, waist.map("add", one, waist.map("exp", waist.map("neg", x))))


def _probit(x: Tensor) -> Tensor:
    """The normal distribution's quantile √2 erf⁻¹(2 x - 1): a close formula, then Newton's method on erf.

    Source: Winitzki 2008
    """

    def number(value: float) -> Tensor:
        return waist.constant(value, float64)

    two, one = number(2.0), number(1.0)
    wanted = waist.map("sub", waist.map("mul", waist.cast_to(x, float64), two), one)
    square = waist.map("mul", wanted, wanted)
    log = waist.map("log", waist.map("sub", one, square))
    half = waist.map("mul", log, number(0.5))
    first = waist.map("add", number(2 / (math.pi * _WINITZKI)), half)
    scaled = waist.map("mul", log, number(1 / _WINITZKI))
    inner = waist.map("sqrt", waist.map("sub", waist.map("mul", first, first), scaled))
    size = waist.map("sqrt", waist.map("sub", inner, first))
    root = waist.map("mul", size, waist.map("sign", wanted))
    for _ in range(4):
        error = waist.map("sub", waist.map("erf", root), wanted)
        slope = waist.map("mul", waist.map("exp", waist.map("mul", root, root)), number(_ROOT))
        step = waist.map("mul", error, slope)
        better = waist.map("sub", root, step)
        is_end = waist.map("eq", square, one)
        root = waist.map("select", is_end, root, better)
    return waist.cast_to(waist.map("mul", root, number(math.sqrt(2))), x.dtype)


_WINITZKI = 0.147
_ROOT = math.sqrt(math.pi) / 2
_TRANSFORMS: dict[int, Callable[[Tensor], Tensor]] = {
    0: lambda x: x,
    1: _softmax,
    2: _logistic,
    3: _softmax_zero,
    4: _probit,
}
