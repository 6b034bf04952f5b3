"""How far a model's results move when last bits do: what no two engines can be asked to agree on.

Where a model rounds to few steps, a float result that differs in its last bit becomes a whole step, which later layers
amplify. The reference runs with its roundings left to chance (``Stirred``) tell by how much. Two results that differ
by no more are as near as rounding lets them be; of a model that does not amplify, the spread is far below any
tolerance, so that it excuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from burnx.dtype import DType, as_array, is_complex, is_float, is_integer
from burnx.errors import BurnxError
from burnx.runtime.devices.reference.stirred import Stirred

Array = np.ndarray[Any, Any]
RUNS = 6


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two arrays are from each other: at their worst element, and the root of the mean of squares."""

    worst: float
    mean: float

    def __str__(self) -> str:
        return f"{self.worst:.3g} ({self.mean:.3g} root mean square)"


@dataclass(frozen=True, slots=True)
class Spread:
    """The answers of the reference, of which all but the first had their last bits moved, by output."""

    answers: tuple[Mapping[str, Any], ...] = ()

    def width(self, name: str) -> Distance:
        """The largest distances between any two answers."""
        arrays = [as_array(answer[name]) for answer in self.answers]
        pairs = [_distance(*pair) for pair in combinations(arrays, 2)]
        return Distance(max(p.worst for p in pairs), max(p.mean for p in pairs))

    def covers(self, name: str, expected: Any, actual: Any) -> bool:
        """Whether two results of an output are as near to each other as the answers are; only arrays may be."""
        if not self.compares(name, expected, actual):
            return False
        left, right = as_array(expected), as_array(actual)
        if not _is_amount(left.dtype):
            return self._has_seen(name, left, right)
        apart, width = _distance(left, right), self.width(name)
        return apart.worst <= width.worst < np.inf and apart.mean <= width.mean

    def compares(self, name: str, *results: Any) -> bool:
        """Whether there are answers, all of them arrays of one dtype and shape, which the results are, too."""
        values = [*results, *(answer.get(name) for answer in self.answers)]
        if len(self.answers) < 2 or not all(
            isinstance(each, (np.ndarray, np.generic)) for each in values
        ):
            return False
        return len({(as_array(each).dtype, np.shape(each)) for each in values}) == 1

    def _has_seen(self, name: str, *results: Array) -> bool:
        """Whether every element is one that an answer has at its place: places and truths are not near each other."""
        arrays = [as_array(answer[name]) for answer in self.answers]
        return all(bool(np.any([each == array for array in arrays], 0).all()) for each in results)


def _is_amount(dtype: DType) -> bool:
    """Whether a dtype holds amounts: floats, and the bytes that they are quantized to."""
    return is_float(dtype) or is_complex(dtype) or (is_integer(dtype) and dtype.itemsize == 1)


@dataclass(slots=True)
class SpreadOf:
    """The spread of an ONNX file for some inputs, measured when it is first asked for."""

    path: str
    inputs: Mapping[str, Any] = field(repr=False)
    found: Spread | None = None

    def get(self) -> Spread:
        if self.found is None:
            self.found = measure_spread(self.path, self.inputs)
        return self.found


def measure_spread(path: str, inputs: Mapping[str, Any], runs: int = RUNS) -> Spread:
    """Answers of the reference to the same inputs; of a run that fails, or of one of chance, there is none."""
    from burnx import api

    try:
        model = api.load(path, device="reference")
        answers = [model.run(dict(inputs))]
        program, values = model.program(inputs)
        for seed in range(runs):
            results = Stirred(random=np.random.default_rng(seed)).run(program, values)
            answers.append(dict(zip(answers[0], results, strict=True)))
    except BurnxError:
        return Spread()
    return Spread(tuple(answers))


def excuse(
    names: Sequence[str],
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    measured: SpreadOf,
) -> str:
    """The sentence that says that outputs differ by no more than the model's own roundings do; empty if they do not."""
    spread = measured.get()
    for name in names:
        if name not in expected or name not in actual:
            return ""
        if not spread.covers(name, expected[name], actual[name]):
            return ""
    return "; ".join(_sentences(names, expected, actual, spread))


def shortfall(names: Sequence[str], measured: SpreadOf) -> str:
    """How far the reference's own answers are apart, which is less than what two results differ by."""
    spread = measured.get()
    comparable = [name for name in names if spread.compares(name)]
    if not comparable:
        return ""
    told = ", ".join(f"{name!r} by {spread.width(name)}" for name in comparable)
    return f"the reference's own moves by less when last bits of its float results do: {told}"


def _sentences(
    names: Sequence[str],
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    spread: Spread,
) -> Iterator[str]:
    for name in names:
        apart = _distance(as_array(expected[name]), as_array(actual[name]))
        yield (
            f"output {name!r} differs by {apart}; "
            f"the reference's own moves by {spread.width(name)} when last bits of its float results do"
        )


def _distance(one: Array, other: Array) -> Distance:
    """Infinite where one is no finite number and the other is something else."""
    if one.dtype.kind in "OSU":
        unlike = float(np.mean(one != other)) if one.size else 0.0
        return Distance(float(unlike > 0), unlike)
    wide = np.complex128 if is_complex(one.dtype) else np.float64
    left, right = one.astype(wide), other.astype(wide)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(all="ignore"):
        apart = np.where(same, 0.0, np.abs(left - right))
    apart = np.where(np.isfinite(apart), apart, np.inf)
    mean = float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0
    return Distance(float(apart.max(initial=0.0)), mean)
