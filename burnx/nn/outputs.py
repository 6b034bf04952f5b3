"""What a module declares of its outputs, beside what its ``forward`` gives: one answer, or an error with the edit."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from burnx.errors import ModelError, ShapeError
from burnx.graph import Graph
from burnx.nn.declared import declared_type, entry_of
from burnx.nn.module import Module, Output
from burnx.shape import Dim, evaluate, symbols
from burnx.types import OptionalType, SequenceType, TensorType, Type

# where sizes are equal at each of these they are taken for one: many divide what is written with //
_SAMPLES = ((720, 5041), (5040, 11), (7, 360), (64, 1))
_MOST_LINES = 16

Pair = tuple[Output | None, Type | None]


def name_outputs(module: type[Module], graph: Graph) -> None:
    """Name the outputs of what is only run: as declared, and what comes behind those output_1 and so on.

    Raises: ModelError if there are other outputs than are declared, so that nobody knows which is which.
    """
    declared, found = module.outputs, [value.type for value in graph.outputs]
    if not declared or len(declared) == len(found):
        return
    advice = _advice(module, len(found), _matched(declared, found))
    if len(declared) > len(found) or not all(map(_fits, declared, found)):
        raise ModelError(advice)
    warnings.warn(advice, UserWarning, stacklevel=4)
    graph.output_names[: len(declared)] = [entry.name for entry in declared]


def check_outputs(module: type[Module], graph: Graph) -> None:
    """Compare what a module declares of its outputs with what its graph gives, which is about to be written.

    Sizes that cannot be told apart before a run (a name beside a number, names that no input has) agree.  Two that
    depend on the inputs in other ways are warned of: inputs may be related in ways that nobody declared.
    Raises: ModelError that says what to write, if a count, kind, dtype, rank or number differs.
    """
    declared, found = module.outputs, [value.type for value in graph.outputs]
    if not declared:
        return
    if len(declared) != len(found):
        raise ModelError(_advice(module, len(found), _matched(declared, found)))
    pairs = list(zip(declared, found, strict=True))
    if not all(_fits(*pair) for pair in pairs):
        raise ModelError(_advice(module, len(pairs), pairs))
    known = _named(value.type for value in graph.inputs)
    for entry, kind in pairs:
        if _is_apart(declared_type(entry), kind, known):
            warnings.warn(
                f"{_place(module)} declares {_text(entry)}, and forward gives {kind}, which is what is written",
                UserWarning,
                stacklevel=3,
            )


# ------------------------------------------------------------------------------- comparing
def _fits(entry: Output, found: Type) -> bool:
    return _agree(declared_type(entry), found)


def _agree(declared: Type, found: Type) -> bool:
    if isinstance(declared, SequenceType | OptionalType):
        is_same = type(found) is type(declared)
        return is_same and _agree(declared.element, found.element)  # type: ignore[union-attr]
    if not isinstance(declared, TensorType) or not isinstance(found, TensorType):
        return type(declared) is type(found) and declared == found
    if declared.dtype != found.dtype:
        return False
    if declared.shape is None or found.shape is None:
        return True
    if len(declared.shape) != len(found.shape):
        return False
    pairs = zip(declared.shape, found.shape, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def _named(kinds: Iterable[Type]) -> frozenset[str]:
    """The names of sizes in tensors' types."""
    shapes = [getattr(kind, "shape", None) or () for kind in kinds]
    return frozenset[str]().union(*(symbols(dim) for shape in shapes for dim in shape))


def _is_apart(declared: Type, found: Type, known: frozenset[str]) -> bool:
    """Whether two shapes depend on the sizes of the inputs, and in other ways."""
    shapes = [getattr(kind, "shape", None) or () for kind in (declared, found)]
    pairs = zip(*shapes, strict=False)
    return any(a != b and _always_differ(a, b, known) for a, b in pairs)


def _always_differ(left: Dim, right: Dim, known: frozenset[str]) -> bool:
    named = sorted(symbols(left) | symbols(right))
    if not (symbols(left) and symbols(right) and known.issuperset(named)):
        return False
    for first, step in _SAMPLES:
        sizes = {name: first + step * place for place, name in enumerate(named)}
        with suppress(ShapeError, ArithmeticError):  # inputs that do not fit each other say nothing
            if evaluate(left, sizes) != evaluate(right, sizes):
                continue
        return False
    return True


# ------------------------------------------------------------------------------- saying it
def _matched(declared: Sequence[Output], found: Sequence[Type]) -> list[Pair]:
    """Each value beside the entry that fits it, in order; what is left on both sides is paired as it comes."""
    pairs: list[Pair] = []
    at = 0
    values: list[Type] = []
    for kind in found:
        place = next((p for p in range(at, len(declared)) if _fits(declared[p], kind)), None)
        if place is None:
            values.append(kind)
            continue
        pairs += [*zip_longest(declared[at:place], values), (declared[place], kind)]
        values, at = [], place + 1
    return [*pairs, *zip_longest(declared[at:], values)]


def _advice(module: type[Module], count: int, pairs: Iterable[Pair]) -> str:
    lines = list(_edits(pairs))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {len(lines) - _MOST_LINES} more"]
    declared = len(module.outputs)
    numbers = f" (it declares {declared}, forward gives {count})" if declared != count else ""
    return (
        f"{_place(module)} does not declare the outputs that its forward gives{numbers}; in its outputs\n  "
        + "\n  ".join(lines)
    )


def _edits(pairs: Iterable[Pair]) -> Iterator[str]:
    """What to change in the declaration, a line each."""
    for place, (entry, found) in enumerate(pairs):
        if found is None and entry is not None:
            yield f"leave out {_text(entry)}"
        elif entry is None and found is not None:
            yield f"add {_text(entry_of(f'output_{place}', found))}"
        elif entry is not None and found is not None and not _fits(entry, found):
            yield f"write {_text(entry_of(entry.name, found))} for {_text(entry)}"


def _text(entry: Output) -> str:
    """A declaration as it stands in the source."""
    dims: Any = entry.dims
    if dims is not None:
        dims = f"({', '.join(map(_quoted, dims))}{',' * (len(dims) == 1)})"
    kind = f", kind={_quoted(entry.kind)}" if entry.kind != "tensor" else ""
    return f"Output({_quoted(entry.name)}, {_quoted(entry.dtype)}, {dims}{kind})"


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if '"' in text else text.replace("'", '"')


def _place(module: type[Module]) -> str:
    file = getattr(sys.modules.get(module.__module__), "__file__", None)
    return f"{module.__name__} in {file!r}" if file else module.__name__
