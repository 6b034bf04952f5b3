"""Inputs that are made up where none are given: what they hold, for every verb."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.dtype import DType, dtype_name, is_complex, is_float, is_integer
from burnx.errors import UsageError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """An array to make up: its shape and dtype."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size_elems(self) -> int:
        return math.prod(self.shape)


def describe(made: Made, seed: int) -> str:
    """What a made-up array holds, in words."""
    shape = "x".join(map(str, made.shape)) or "scalar"
    return f"{dtype_name(made.dtype)} {shape}, {_filling(made).format(seed=seed)}"


def make_up(made: Made, random: np.random.Generator) -> Array:
    """Floats standard normal, integers 0 or 1, booleans True, strings ``"a"``.

    An integer by itself is 1: it may be a count, a length or a place, of which 0 would leave nothing to see.
    """
    try:
        return _filled(made, random)
    except (MemoryError, ValueError) as error:
        shape = "x".join(map(str, made.shape))
        raise UsageError(f"an input of shape {shape} cannot be made up: {error}") from error


def _filled(made: Made, random: np.random.Generator) -> Array:
    shape, dtype = made.shape, made.dtype
    if is_float(dtype):
        return np.asarray(random.standard_normal(shape)).astype(dtype)
    if is_complex(dtype):
        parts = random.standard_normal((2, *shape))
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
    if is_integer(dtype):
        drawn = np.ones(shape) if made.size_elems == 1 else random.integers(0, 2, shape)
        return np.asarray(drawn).astype(dtype)
    return np.full(shape, True if dtype.kind == "b" else "a", dtype)


def _filling(made: Made) -> str:
    dtype = made.dtype
    if is_float(dtype) or is_complex(dtype):
        return "standard normal, seed {seed}"
    if is_integer(dtype):
        return "1" if made.size_elems == 1 else "0 or 1, seed {seed}"
    return "all True" if dtype.kind == "b" else 'all "a"'
