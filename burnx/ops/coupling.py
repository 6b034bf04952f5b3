"""Pairwise coupling: the probabilities of classes from those of every pair of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from burnx import waist
from burnx.dtype import int64
from burnx.tensor import Tensor

MOST_ROUNDS = 100
TOLERANCE = 0.005


def coupled(odds: Tensor, classes: int) -> Tensor:
    """Probabilities p that make the sum of (r_ji p_i - r_ij p_j)² least, found coordinate by coordinate.

    Each row has its own end: what has converged stays as it is.
    Shapes: (row, pair) -> (row, class).
    Source: Wu, Lin and Weng 2004, algorithm 2; rounds and tolerance are those of LIBSVM
    """
    matrix = _quadratic(_square(odds, classes), classes)
    rows = odds.shape[0]
    start = waist.broadcast(waist.constant(1 / classes, odds.dtype), (rows, classes))

    def round_(turn: Tensor, going: Tensor, chance: Tensor) -> Sequence[Tensor]:
        slope = _times(matrix, chance)
        total = waist.reduce("sum", waist.map("mul", chance, slope), [1])
        gap = waist.map("abs", waist.map("sub", slope, _column(total)))
        limit = waist.constant(TOLERANCE / classes, odds.dtype)
        is_open = waist.map("le", limit, waist.reduce("max", gap, [1]))
        better = _sweep(matrix, chance, slope, total, classes)
        kept = waist.map("select", _column(is_open), better, chance)
        return waist.reduce("or", is_open, [0]), kept

    trips = waist.constant(MOST_ROUNDS, int64)
    return waist.repeat(trips, waist.constant(True), [start], round_)[0]


def _sweep(matrix: Tensor, chance: Tensor, slope: Tensor, total: Tensor, classes: int) -> Tensor:
    """One turn over all classes: each is set to its best, and all are made to add up to 1 again."""

    def step(
        place: Tensor, going: Tensor, chance: Tensor, slope: Tensor, total: Tensor
    ) -> Sequence[Tensor]:
        at = waist.reshape(place, (1,))
        row = waist.reshape(waist.take(matrix, at, 1), chance.shape)
        own = waist.reshape(waist.take(row, at, 1), total.shape)
        here = waist.reshape(waist.take(slope, at, 1), total.shape)
        change = waist.map("div", waist.map("sub", total, here), own)
        scale = waist.map("add", change, waist.constant(1, change.dtype))
        is_here = waist.map("eq", waist.reshape(waist.iota(classes), (1, classes)), at)
        zero = waist.constant(0, change.dtype)
        added = waist.map("select", is_here, _column(change), zero)
        twice = waist.map("add", here, here)
        grown = waist.map("mul", change, waist.map("add", waist.map("mul", change, own), twice))
        total = waist.map("add", total, grown)
        total = waist.map("div", waist.map("div", total, scale), scale)
        moved = waist.map("add", slope, waist.map("mul", _column(change), row))
        chance = waist.map("add", chance, added)
        both = (waist.map("div", each, _column(scale)) for each in (chance, moved))
        return going, *both, total

    trips = waist.constant(classes, int64)
    return waist.repeat(trips, waist.constant(True), [chance, slope, total], step)[0]


def _square(odds: Tensor, classes: int) -> Tensor:
    """The odds of each class against each other; 0 against itself.

    Shapes: (row, pair) -> (row, class, class).
    """
    rows, pairs = odds.shape
    places = np.full((classes, classes), 2 * int(pairs), np.int64)
    for place, (one, other) in enumerate(combinations(range(classes), 2)):
        places[one, other], places[other, one] = place, place + int(pairs)
    nothing = waist.broadcast(waist.constant(0, odds.dtype), (rows, 1))
    against = waist.map("sub", waist.constant(1, odds.dtype), odds)
    return waist.take(waist.concat([odds, against, nothing], 1), waist.constant(places), 1)


def _quadratic(odds: Tensor, classes: int) -> Tensor:
    """The matrix of the quadratic form: sums of squares on its diagonal, negative products beside it."""
    turned = waist.transpose(odds, (0, 2, 1))
    squares = waist.reduce("sum", waist.map("mul", odds, odds), [1])
    diagonal = waist.constant(np.eye(classes, dtype=np.bool_)[None])
    beside = waist.map("neg", waist.map("mul", odds, turned))
    own = waist.reshape(squares, (odds.shape[0], 1, classes))
    return waist.map("select", diagonal, own, beside)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Shapes: (row, a, b), (row, b) -> (row, a)."""
    return waist.contract(matrix, vector, ((0,), (0,)), ((2,), (1,)))


def _column(x: Tensor) -> Tensor:
    return waist.reshape(x, (x.shape[0], 1))
