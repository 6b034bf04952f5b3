"""Input SPECs of the command line, and inputs made up where none are given.

SPEC   [NAME=]REST     NAME: the longest known input name that is followed by "="
REST   @file.npy | @file.npz | SHAPE[:DTYPE]
SHAPE  1x3 | 0x4 | scalar
DTYPE  a NumPy or ml_dtypes name, or string
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from burnx.cli.arrays import load_archive, load_array
from burnx.cli.dims import DimSizes
from burnx.dtype import DTYPES, DType, dtype_name, is_complex, is_float, is_integer, parse_dtype
from burnx.errors import DTypeError, UsageError

Array = np.ndarray[Any, Any]
_SHAPE = re.compile(r"scalar|\d+(x\d+)*")
_USAGE = "a SPEC is [NAME=]REST, REST one of @file.npy, @file.npz, SHAPE[:DTYPE] (1x3, scalar)"


class Declared(Protocol):
    """What a model says of one of its inputs; ``dims`` is None where the rank is not known."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def dims(self) -> Sequence[int | str | None] | None: ...
    @property
    def optional(self) -> bool: ...
    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Made:
    """An array to make up: its shape and dtype, and the dtype's name."""

    shape: tuple[int, ...]
    dtype: DType


@dataclass(slots=True)
class Inputs:
    """Inputs by name, in the model's order, and one sentence for each that was made up."""

    values: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_inputs(
    specs: Sequence[str],
    declared: Sequence[Declared],
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Inputs:
    """The inputs that SPECs give, the rest made up.

    A dimension that is only a name has the size of ``dims``, else the one that a given input shows, else 1.

    Raises: UsageError for a SPEC that cannot be read or names no input.
    """
    given = _given(specs, declared)
    sizes = DimSizes.of([entry.dims for entry in declared], dims or {})
    for entry in declared:
        value = given.get(entry.name)
        if isinstance(value, (Made, np.ndarray)):
            sizes.learn(entry.dims, value.shape)
    random = np.random.default_rng(seed)
    inputs = Inputs()
    for entry in declared:
        value = given.get(entry.name)
        if value is None and entry.optional:
            continue
        if value is None:
            value = _planned(entry, sizes)
        if isinstance(value, Made):
            inputs.notes.append(f"made up input {entry.name!r}: {describe(value, seed)}")
            value = make_up(value, random)
        inputs.values[entry.name] = value
    return inputs


def describe(made: Made, seed: int) -> str:
    """What a made-up array holds, in words."""
    shape = "x".join(map(str, made.shape)) or "scalar"
    return f"{dtype_name(made.dtype)} {shape}, {_filling(made.dtype).format(seed=seed)}"


def make_up(made: Made, random: np.random.Generator) -> Array:
    """Floats standard normal, integers 0 or 1, booleans True, strings ``"a"``."""
    try:
        return _filled(made.shape, made.dtype, random)
    except (MemoryError, ValueError) as error:
        shape = "x".join(map(str, made.shape))
        raise UsageError(f"an input of shape {shape} cannot be made up: {error}") from error


def _filled(shape: tuple[int, ...], dtype: DType, random: np.random.Generator) -> Array:
    if is_float(dtype):
        return np.asarray(random.standard_normal(shape)).astype(dtype)
    if is_complex(dtype):
        parts = random.standard_normal((2, *shape))
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
    if is_integer(dtype):
        return np.asarray(random.integers(0, 2, shape)).astype(dtype)
    return np.full(shape, True if dtype.kind == "b" else "a", dtype)


def split_name(spec: str, names: Sequence[str]) -> tuple[str | None, str]:
    """A SPEC's input name, None if it has none, and its REST.

    Raises: UsageError if it names an input that there is not.
    """
    for name in sorted(names, key=len, reverse=True):
        if spec.startswith(f"{name}="):
            return name, spec[len(name) + 1 :]
    if not spec.startswith("@") and "=" in spec:
        listed = ", ".join(map(repr, names)) or "none"
        raise UsageError(f"--input {spec!r} names no input of the model; its inputs are {listed}")
    return None, spec


def parse_shape(rest: str, dtype: str = "") -> Made:
    """SHAPE[:DTYPE] as the array to make up; ``dtype`` is the one that is declared.

    Raises: UsageError if it is not of that form.
    """
    shape, _, wanted = rest.partition(":")
    if not _SHAPE.fullmatch(shape) or rest.endswith(":"):
        raise UsageError(f"{_USAGE}; found {rest!r}")
    sizes = () if shape == "scalar" else tuple(map(int, shape.split("x")))
    return Made(sizes, _dtype(wanted or dtype or "float32", rest))


def _dtype(name: str, rest: str) -> DType:
    try:
        if name not in DTYPES:
            name = np.dtype(name).name
        return parse_dtype(name)
    except (TypeError, DTypeError) as error:
        raise UsageError(f"{name!r} is not a dtype that burnx knows, in SPEC {rest!r}") from error


def _given(specs: Sequence[str], declared: Sequence[Declared]) -> dict[str, Any]:
    """Arrays, and arrays to make up, by the name of the input; SPECs without a name go in order."""
    names = [entry.name for entry in declared]
    split = [split_name(spec, names) for spec in specs]
    named = {name for name, _ in split if name is not None}
    free = [name for name in names if name not in named]
    dtypes = {entry.name: entry.dtype for entry in declared}
    given: dict[str, Any] = {}
    for name, rest in split:
        if name is None and rest.endswith(".npz"):
            found = load_archive(rest[1:], dtypes)
        else:
            name = name or _next_free(free, rest)
            found = {name: _value(name, rest, dtypes[name])}
        for key, value in found.items():
            if key in given:
                raise UsageError(f"input {key!r} is given twice")
            given[key] = value
    return given


def _next_free(free: list[str], rest: str) -> str:
    if not free:
        raise UsageError(f"--input {rest!r} is one SPEC more than the model has inputs")
    return free.pop(0)


def _value(name: str, rest: str, dtype: str) -> Any:
    if not rest.startswith("@"):
        return parse_shape(rest, dtype if dtype in DTYPES else "")
    if rest.endswith(".npz"):
        return load_archive(rest[1:], {name: dtype}, only=name)[name]
    return load_array(rest[1:], dtype)


def _planned(entry: Declared, sizes: DimSizes) -> Made:
    if entry.kind != "tensor" or entry.dtype not in DTYPES:
        parts = ("keys", "values") if entry.kind.startswith("map") else (0, 1)
        raise UsageError(
            f"input {entry.name!r} is a {entry.kind}, which cannot be made up: "
            f"give it as --input @file.npz with items {entry.name}/{parts[0]}, {entry.name}/{parts[1]}"
        )
    shape = (1,) if entry.dims is None else tuple(sizes.size(dim) for dim in entry.dims)
    return Made(shape, DTYPES[entry.dtype])


def _filling(dtype: DType) -> str:
    if is_float(dtype) or is_complex(dtype):
        return "standard normal, seed {seed}"
    if is_integer(dtype):
        return "0 or 1, seed {seed}"
    return "all True" if dtype.kind == "b" else 'all "a"'
