"""Input SPECs of the command line, and inputs made up where none are given.

SPEC   [NAME=]REST     NAME: the longest known input name that is followed by "=", or its parameter's in source
REST   @file.npy | @file.npz | SHAPE[:DTYPE] | VALUE
SHAPE  1x3 | 0x4 | scalar
DTYPE  a NumPy or ml_dtypes name, or string
VALUE  [1, 2.5] for any input; 5 | 2.5 | true | text where the input is declared as a scalar
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from burnx.capture.inputs import input_words
from burnx.cli.arrays import load_archive, load_array
from burnx.cli.dims import AS_SMALL_AS_CAN_BE, DimSizes, Growth
from burnx.cli.making import Made, describe, make_up
from burnx.cli.values import is_list, read_value
from burnx.dtype import DTYPES, DType, parse_dtype
from burnx.errors import DTypeError, UsageError

Array = np.ndarray[Any, Any]
_SHAPE = re.compile(r"scalar|\d+(x\d+)*")
_SHAPE_AND_DTYPE = re.compile(rf"({_SHAPE.pattern}):[a-z]\w*")
_USAGE = (
    "a SPEC is [NAME=]REST, REST one of @file.npy, @file.npz, SHAPE[:DTYPE] (1x3, scalar), "
    "a list ([1, 2.5]), and for a scalar its value"
)
LARGEST_GROWN = 1 << 26  # elements of an input whose sizes nothing says, when larger ones are tried


Parameters = Callable[[], Mapping[str, str]]


class GrownTooLarge(UsageError):
    """Sizes that nothing says were tried up to where an input is larger than is sensible."""


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


@dataclass(slots=True)
class Inputs:
    """Inputs by name, in the model's order, and one sentence for each that was made up.

    ``open`` says which dimensions nothing sets: others, and first ones, which count a batch.
    """

    values: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    open: frozenset[str] = frozenset()


def read_inputs(
    specs: Sequence[str],
    declared: Sequence[Declared],
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    parameters: Parameters = dict,
    growth: Growth = AS_SMALL_AS_CAN_BE,
) -> Inputs:
    """The inputs that SPECs give, the rest made up.

    A dimension that is only a name has the size of ``dims``, else the one that a given input shows, else that of
    ``growth``, 1.  ``parameters`` gives the names of inputs by their parameters in source, when a name is not known.

    Raises: UsageError for a SPEC that cannot be read or names no input.
    """
    given = _given(specs, declared, parameters)
    sizes = DimSizes.of([entry.dims for entry in declared], dims or {}, growth)
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
    inputs.open = frozenset(sizes.open)
    return inputs


def split_name(
    spec: str, names: Sequence[str], parameters: Parameters = dict
) -> tuple[str | None, str]:
    """A SPEC's input name, None if it has none, and its REST.

    Raises: UsageError if it names an input that there is not.
    """
    for name in sorted(names, key=len, reverse=True):
        if spec.startswith(f"{name}="):
            return name, spec[len(name) + 1 :]
    if spec.startswith(("@", "[")) or "=" not in spec:
        return None, spec
    known = parameters()
    for parameter in sorted(known, key=len, reverse=True):
        if spec.startswith(f"{parameter}="):
            return known[parameter], spec[len(parameter) + 1 :]
    listed = ", ".join(input_words(names, known)) or "none"
    raise UsageError(f"--input {spec!r} names no input of the model; its inputs are {listed}")


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


def _given(
    specs: Sequence[str], declared: Sequence[Declared], parameters: Parameters
) -> dict[str, Any]:
    """Arrays, and arrays to make up, by the name of the input; SPECs without a name go in order."""
    entries = {entry.name: entry for entry in declared}
    split = [split_name(spec, list(entries), parameters) for spec in specs]
    named = {name for name, _ in split if name is not None}
    free = [name for name in entries if name not in named]
    given: dict[str, Any] = {}
    for name, rest in split:
        if name is None and rest.startswith("@") and rest.endswith(".npz"):
            found = _archived(rest[1:], entries, parameters)
        else:
            name = name or _next_free(free, rest)
            found = [(name, _value(entries[name], rest))]
        for key, value in found:
            if key in given:
                raise UsageError(f"input {key!r} is given twice")
            given[key] = value
    return given


def _archived(
    path: str, entries: Mapping[str, Declared], parameters: Parameters
) -> list[tuple[str, Any]]:
    """The inputs that an archive holds, by their names or their parameters."""
    dtypes = {name: entry.dtype for name, entry in entries.items()}
    called = parameters()
    found = load_archive(path, dtypes | {each: dtypes[name] for each, name in called.items()})
    return [(called.get(key, key), value) for key, value in found.items()]


def _next_free(free: list[str], rest: str) -> str:
    if not free:
        raise UsageError(f"--input {rest!r} is one SPEC more than the model has inputs")
    return free.pop(0)


def _value(entry: Declared, rest: str) -> Any:
    """What one REST gives for an input: an array, or what to make up."""
    name, dtype = entry.name, entry.dtype
    if rest.startswith("@"):
        if rest.endswith(".npz"):
            return load_archive(rest[1:], {name: dtype}, only=name)[name]
        return load_array(rest[1:], dtype)
    known = DTYPES.get(dtype) if entry.kind == "tensor" else None
    if known is not None and (is_list(rest) or _is_scalar(entry, rest)):
        return read_value(rest, known)
    return parse_shape(rest, dtype if dtype in DTYPES else "")


def _is_scalar(entry: Declared, rest: str) -> bool:
    """Whether a REST is the value of an input that is declared as a scalar, which has no shape but this word."""
    is_shape = rest == "scalar" or _SHAPE_AND_DTYPE.fullmatch(rest)
    return entry.dims is not None and not entry.dims and not is_shape


def _planned(entry: Declared, sizes: DimSizes) -> Made:
    if entry.kind != "tensor" or entry.dtype not in DTYPES:
        parts = ("keys", "values") if entry.kind.startswith("map") else (0, 1)
        raise UsageError(
            f"input {entry.name!r} is a {entry.kind}, which cannot be made up: "
            f"give it as --input @file.npz with items {entry.name}/{parts[0]}, {entry.name}/{parts[1]}"
        )
    made = Made((1,) if entry.dims is None else sizes.shape(entry.dims), DTYPES[entry.dtype])
    if sizes.growth.size > 1 and made.size_elems > LARGEST_GROWN:
        raise GrownTooLarge(f"input {entry.name!r} would have {made.size_elems:,} elements")
    return made
