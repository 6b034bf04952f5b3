"""An attention that a vendor's library carries out: what it is asked for, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

Four = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Heads:
    """Where rows of heads lie in a buffer, the elements of a row side by side.

    ``start`` is the first element; ``extents`` are batch, heads, rows and elements of a row; ``steps`` lead to the next
    of the first three.
    """

    buffer: int
    start: int
    extents: Four
    steps: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Attention:
    """result = softmax(``factor`` * queries keys' + bias) values, along the keys, with all between in float32.

    ``given`` is the dtype of the operands and the result, ``added`` that of the bias, of which extents of 1 are the same
    for all.  Keys and values may have fewer heads, each for neighbouring ones of the queries.  ``temporary_bytes`` and
    ``rank`` are those of a ``Gemm``.
    """

    given: str
    queries: Heads
    keys: Heads
    values: Heads
    result: Heads
    factor: float = 1.0
    bias: Heads | None = None
    added: str = ""
    temporary_bytes: int = 0
    rank: int = 0


def attention_from_row(row: Any) -> Attention:
    """Raises: TypeError, LookupError, ValueError if it is not what ``library.as_row`` has made of one."""
    made = dict(row)
    for name in ("queries", "keys", "values", "result", "bias"):
        made[name] = None if name == "bias" and made[name] is None else _heads(made[name])
    if set(made) != {each.name for each in fields(Attention)}:
        raise TypeError("an attention has other fields")
    return Attention(**made)


def _heads(row: Any) -> Heads:
    batch, heads, rows, wide = map(int, row["extents"])
    one, two, three = map(int, row["steps"])
    return Heads(
        int(row["buffer"]), int(row["start"]), (batch, heads, rows, wide), (one, two, three)
    )
