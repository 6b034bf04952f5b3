"""Values of a type for a recipe: small, few bits wide, the same in every run."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from burnx.conformance.cases.type_text import dtype_of, split_type
from burnx.dtype import DType, dtype_name, is_complex, is_float

Array: TypeAlias = np.ndarray[Any, Any]
Random: TypeAlias = np.random.Generator
Shape: TypeAlias = tuple[int, ...]

_WHOLE = ("whole", "count")
_WORDS = ("", "a", "Bc", "déf", "x y", "a")
_SEQUENCE_ITEMS = 2


def make_value(type_text: str, spec: str, random: Random) -> Any:
    """A value of the type for the text of one input of a recipe."""
    word, inner = split_type(type_text)
    if word == "seq":
        return [make_value(inner, spec, random) for _ in range(_SEQUENCE_ITEMS)]
    if word == "optional":
        return make_value(inner, spec, random)
    if word == "map":
        return _make_map(inner, spec)
    return make_array(dtype_of(type_text), spec, random)


def make_array(dtype: DType, spec: str, random: Random) -> Array:
    """An array from ``=[1, 2]``, or from a shape and the kind of its values."""
    if spec.startswith("="):
        return _as_dtype(np.asarray(ast.literal_eval(spec[1:].strip())), dtype)
    shape, _, kind = spec.partition(" ")
    return fill(dtype, parse_shape(shape), kind.strip(), random)


def parse_shape(text: str) -> Shape:
    """``2x3`` is (2, 3), ``()`` a scalar."""
    return () if text == "()" else tuple(map(int, text.split("x")))


def fill(dtype: DType, shape: Shape, kind: str, random: Random) -> Array:
    """An array of values of a kind; ``below N`` are integers from 0 to N - 1."""
    if kind.startswith("below "):
        return _as_dtype(random.integers(0, int(kind[6:]), shape), dtype)
    if dtype_name(dtype) == "string":
        words = (
            [str(n) for n in range(-2 * (kind == "whole"), 4)]
            if kind in ("whole", "count")
            else _WORDS
        )
        return np.asarray(random.choice(np.asarray(words, object), shape), object)
    if dtype_name(dtype) == "bool":
        return np.asarray(random.integers(0, 2, shape), np.bool_)
    numbers = _KINDS[kind](random, shape)
    if is_complex(dtype):
        return np.asarray(numbers + 1j * _KINDS[kind](random, shape)).astype(dtype)
    return _as_dtype(numbers if is_float(dtype) or kind in _WHOLE else _as_whole(numbers), dtype)


def _as_whole(numbers: Array) -> Array:
    """Integers in place of quarters, of the same sign; special values become 0."""
    return np.rint(np.nan_to_num(numbers, posinf=0, neginf=0) * 4)


def _as_dtype(array: Array, dtype: DType) -> Array:
    """The values brought into the range of a dtype; those without a sign take the magnitude."""
    name = dtype_name(dtype)
    if name == "string":
        return np.asarray([str(item) for item in array.flat], object).reshape(array.shape)
    if name == "float8_e8m0fnu":
        return np.exp2(np.clip(np.rint(np.nan_to_num(array)), -2, 2)).astype(dtype)
    if name.startswith("uint") and array.dtype.kind != "u":
        array = np.abs(array)
    if name in _NARROW:
        array = np.clip(array, *_NARROW[name])
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(dtype)


def _make_map(inner: str, spec: str) -> dict[Any, Any]:
    """A map from ``={'a': 1}``, or one of two entries."""
    key, value = (part.strip() for part in inner.split(",", 1))
    if spec.startswith("="):
        given = dict(ast.literal_eval(spec[1:].strip()))
        return {one: _as_item(value, other) for one, other in given.items()}
    keys: list[Any] = ["a", "b"] if key == "string" else [0, 2]
    return {one: _as_item(value, other) for one, other in zip(keys, (1.5, -2.0), strict=True)}


def _as_item(kind: str, number: float) -> Any:
    """A number as a value of a map."""
    if "string" in kind:
        return str(number)
    return int(number) if "int" in kind else float(number)


_NARROW = {"int2": (-2, 1), "uint2": (0, 3), "int4": (-8, 7), "uint4": (0, 15)}


def _quarters(low: int, high: int) -> Callable[[Random, Shape], Array]:
    return lambda random, shape: np.asarray(random.integers(low, high + 1, shape) / 4)


def _distinct(random: Random, shape: Shape) -> Array:
    count = int(np.prod(shape))
    return np.asarray(random.permutation(count) - count // 2).reshape(shape) / 4


def _nonzero(random: Random, shape: Shape) -> Array:
    return np.asarray(random.integers(1, 5, shape) * random.choice([-1, 1], shape) / 4)


def _special(random: Random, shape: Shape) -> Array:
    return np.asarray(random.choice([0.0, 1.5, -2.0, np.nan, np.inf, -np.inf], shape))


_KINDS: dict[str, Callable[[Random, Shape], Array]] = {
    "": _quarters(-8, 8),
    "positive": _quarters(1, 8),
    "unit": _quarters(-3, 3),
    "above1": _quarters(4, 12),
    "part": _quarters(0, 3),
    "nonzero": _nonzero,
    "distinct": _distinct,
    "special": _special,
    "whole": lambda random, shape: np.asarray(random.integers(-3, 4, shape) * 1.0),
    "count": lambda random, shape: np.asarray(random.integers(0, 4, shape) * 1.0),
    "wide": _quarters(-400, 400),
}
