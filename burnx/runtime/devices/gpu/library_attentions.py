"""Which kernels a library's attention can stand for.

Scores may be multiplied by a number, and something may be added.  Where a kernel rounds them on their way they are more
exact here, as weights are in burnx's own form; a race compares the results.  What is added must be a constant that leaves
each row something to see: what a library makes of a row without is its own affair, and where scores are all about as large
as the largest float16, they are not the kernel's any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from burnx.dtype import DType, bfloat16, dtype_name, float16, float32
from burnx.fusion.storage import Storage
from burnx.gpu.attention_parts import Attention as Parts
from burnx.gpu.attention_parts import attention_of
from burnx.kernels.ir import Apply, Cast, Constant, Kernel, Load, Local, Store, Value
from burnx.runtime.devices.gpu.library_attention import Attention, Heads
from burnx.runtime.devices.gpu.library_products import Walk, find_walk, join_loops
from burnx.shape import evaluate

Sizes = Mapping[str, int]
MOST_DEEP = 128  # elements of a row that every cuDNN takes
EIGHT = 8  # elements that are read at once
TAME = 1000.0  # what is added may reach so far, at its greatest in a row


def find_attention(kernel: Kernel, sizes: Sizes) -> Attention | None:
    """A kernel as one attention; None if what it does is no library's to do."""
    found = attention_of(kernel)
    if found is None or found.spared or found.guarded:
        return None
    given = found.scores.contract.left.dtype
    score = _score(found, found.score, given)
    store = _result(found, given)
    operands = (found.scores.contract.right, found.sums.contract.right)
    if score is None or store is None or given not in (float16, bfloat16):
        return None
    if any(each.dtype != given for each in (*operands, store.buffer)):
        return None
    return _attention(kernel, found, score, store, sizes)


def count_products(kernel: Kernel, sizes: Sizes) -> int:
    """The multiplications of an attention; 0 for other kernels."""
    found = attention_of(kernel)
    if found is None:
        return 0
    turns = [evaluate(each, sizes) for _, each in found.outer]
    inner = evaluate(found.scores.inner, sizes) + evaluate(found.sums.columns, sizes)
    keys = evaluate(found.scores.columns, sizes)
    return math.prod(turns) * evaluate(found.count, sizes) * keys * inner


def is_tame(kernel: Kernel, sizes: Sizes, storages: Sequence[Storage]) -> bool:
    """Whether something is added to scores, and is a constant with a moderate number in each row."""
    asked = find_attention(kernel, sizes)
    bias = None if asked is None else asked.bias
    storage = None if bias is None else storages[bias.buffer].root
    if bias is None or storage is None or storage.role != "constant" or storage.array is None:
        return False
    flat = np.ascontiguousarray(storage.array).reshape(-1)
    steps = (*bias.steps, 1)
    last = sum((n - 1) * step for n, step in zip(bias.extents, steps, strict=True))
    if storage.zeroed or bias.start + last >= flat.size:
        return False
    strides = [step * flat.itemsize for step in steps]
    rows = as_strided(flat[bias.start :], bias.extents, strides, writeable=False)
    return bool((np.abs(rows.max(axis=-1).astype(np.float32)) <= TAME).all())  # not so of NaN


# --- scores and results -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Score:
    """factor * product + what is loaded."""

    factor: float
    bias: Load | None = None


def _score(found: Parts, value: Value, given: DType) -> _Score | None:
    """What a value is made of, roundings aside; None if there is more to it."""
    value = _unrounded(value, given)
    if isinstance(value, Local):
        if value.name == found.scores.contract.name:
            return _Score(1.0)
        named = next((each.value for each in found.lets if each.name == value.name), None)
        return None if named is None else _score(found, named, given)
    if not isinstance(value, Apply) or len(value.arguments) != 2 or value.dtype != float32:
        return None
    one, two = value.arguments
    if value.function in ("mul", "div"):
        if isinstance(one, Constant) and value.function == "mul":
            one, two = two, one
        if not isinstance(two, Constant):
            return None
        return _times(_score(found, one, given), value.function, float(two.value))
    return _added(found, (one, two), given) if value.function == "add" else None


def _times(score: _Score | None, function: str, number: float) -> _Score | None:
    """A score times a number that is positive: a library looks for the greatest one before."""
    if score is None or score.bias is not None or not 0 < number < math.inf:
        return None
    return _Score(score.factor * number if function == "mul" else score.factor / number)


def _added(found: Parts, terms: tuple[Value, Value], given: DType) -> _Score | None:
    for term, rest in (terms, terms[::-1]):
        load = term.value if isinstance(term, Cast) and not term.bits else term
        if isinstance(load, Load) and load.dtype in (given, float32):
            score = _score(found, rest, given)
            return None if score is None or score.bias is not None else _Score(score.factor, load)
    return None


def _unrounded(value: Value, given: DType) -> Value:
    while isinstance(value, Cast) and not value.bits:
        if value.dtype not in (given, float32) or value.value.dtype not in (given, float32):
            break
        value = value.value
    return value


def _result(found: Parts, given: DType) -> Store | None:
    """Where the sums are stored, if nothing else happens to them."""
    body = found.sums.contract.body
    if len(body) != 1 or not isinstance(body[0], Store) or body[0].combine:
        return None
    value = _unrounded(body[0].value, given)
    is_sum = isinstance(value, Local) and value.name == found.sums.contract.name
    return body[0] if is_sum else None


# --- how it is walked -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop's turns, and its steps through queries, keys, values, the result and, if there is one, the bias."""

    turns: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Spread:
    """The loops outside as batch and heads; of heads the steps of keys and values lead to the next of ``key_heads``."""

    batch: _Loop
    heads: _Loop
    key_heads: int


def _attention(
    kernel: Kernel, found: Parts, score: _Score, store: Store, sizes: Sizes
) -> Attention | None:
    walks = _walks(found, score, store, sizes)
    turns = [evaluate(each, sizes) for _, each in found.outer]
    count, keys = evaluate(found.count, sizes), evaluate(found.scores.columns, sizes)
    if walks is None or 0 in turns or min(count, keys) < 1:
        return None
    spread = _spread(turns, [walk.loops[:-2] for walk in walks])
    rows, deep = _row_steps(found, walks, sizes), _deep(found, walks, sizes)
    wide = evaluate(found.sums.columns, sizes)
    if spread is None or rows is None or not _fits(deep) or not _fits(wide):
        return None
    one, other = found.scores.contract, found.sums.contract
    buffers = [each.buffer for each in (one.left, one.right, other.right, store)]
    shapes = [(count, deep), (keys, deep), (keys, wide), (count, wide)]
    if score.bias is not None:
        buffers, shapes = [*buffers, score.bias.buffer], [*shapes, (count, keys)]
    made = [
        _heads(kernel.buffers.index(buffer), (place, walks[place], rows[place]), shape, spread)
        for place, (buffer, shape) in enumerate(zip(buffers, shapes, strict=True))
    ]
    kept = [each for each in made if each is not None]
    if len(kept) < len(made):
        return None
    queries, keyed, values, result, *bias = kept
    name = dtype_name(one.left.dtype)
    if score.bias is None:
        return Attention(name, queries, keyed, values, result, score.factor)
    added = dtype_name(score.bias.dtype)
    return Attention(name, queries, keyed, values, result, score.factor, bias[0], added)


def _fits(extent: int) -> bool:
    return 0 < extent <= MOST_DEEP and extent % EIGHT == 0


def _walks(found: Parts, score: _Score, store: Store, sizes: Sizes) -> list[Walk] | None:
    """How queries, keys, values, the result and the bias are walked, elements of rows (of scores: keys) one by one."""
    one, other = found.scores.contract, found.sums.contract
    names = [name for name, _ in (*found.outer, *one.rows)]
    inner, last = [name for name, _ in one.inner], [name for name, _ in other.inner]
    walks = [
        find_walk(one.left.index, names, one.column[0], inner, sizes),
        find_walk(one.right.index, names, one.column[0], inner, sizes),
        find_walk(other.right.index, names, other.column[0], last, sizes),
        find_walk(store.index, names, other.column[0], (), sizes),
    ]
    if score.bias is not None:
        walks.append(find_walk(score.bias.index, names, one.column[0], (), sizes))
    kept = [each for each in walks if each is not None]
    if len(kept) < len(walks) or any(each.column != 1 for each in kept[2:]):
        return None
    return kept


def _deep(found: Parts, walks: Sequence[Walk], sizes: Sizes) -> int:
    """The elements of a query and a key; 0 if they do not lie side by side."""
    extents = [evaluate(each, sizes) for _, each in found.scores.contract.inner]
    joined = join_loops(extents, list(zip(walks[0].inner, walks[1].inner, strict=True)))
    return joined[0].turns if len(joined) == 1 and joined[0].steps == (1, 1) else 0


def _row_steps(found: Parts, walks: Sequence[Walk], sizes: Sizes) -> list[int] | None:
    """From one row to the next; None if rows of a strip, and strips, are not walked as one."""
    extents = [evaluate(each, sizes) for _, each in found.scores.contract.rows]
    which = [place for place in range(len(walks)) if place not in (1, 2)]
    steps = list(zip(*(walks[place].loops[-2:] for place in which), strict=True))
    joined = join_loops(extents, steps)
    if len(joined) > 1:
        return None
    rows = dict(zip(which, joined[0].steps, strict=True)) if joined else {}
    return [
        rows.get(place, 0) if place in which else (walks[1].column, walks[2].inner[0])[place - 1]
        for place in range(len(walks))
    ]


def _spread(turns: Sequence[int], steps: Sequence[tuple[int, ...]]) -> _Spread | None:
    """The loops outside as batch and heads; None if there are more."""
    along = list(zip(*steps, strict=True)) or []
    loops = [_Loop(count, each) for count, each in zip(turns, along, strict=True) if count > 1]
    if len(loops) > 2:
        joined = join_loops([each.turns for each in loops], [each.steps for each in loops])
        loops = [_Loop(each.turns, each.steps) for each in joined]
    once = _Loop(1, (0,) * len(steps))
    if len(loops) == 3:
        shared = _shared(loops[1], loops[2])
        return None if shared is None else _Spread(loops[0], shared, loops[1].turns)
    if len(loops) > 3:
        return None
    batch, heads = [once, once, *loops][-2:] if len(loops) < 3 else (once, once)
    same = [step == 0 for step in heads.steps[1:3]]
    if same[0] != same[1]:
        return None
    return _Spread(batch, heads, 1 if same[0] else heads.turns)


def _shared(some: _Loop, each: _Loop) -> _Loop | None:
    """Heads of queries for the same keys and values, and these outside, as one loop."""
    if any(each.steps[1:3]):
        return None
    for place, (outside, inside) in enumerate(zip(some.steps, each.steps, strict=True)):
        if place not in (1, 2) and outside != inside * each.turns:
            return None
    steps = (each.steps[0], *some.steps[1:3], *each.steps[3:])
    return _Loop(some.turns * each.turns, steps)


def _heads(
    buffer: int, walked: tuple[int, Walk, int], shape: tuple[int, int], spread: _Spread
) -> Heads | None:
    """Where the heads of an operand lie; None if a library would not read them there.

    A bias has extents of 1 where it stays the same; all else must go on, by steps that vectors of elements fit into.
    """
    place, walk, row = walked
    heads = spread.key_heads if place in (1, 2) else spread.heads.turns
    extents = [spread.batch.turns, heads, shape[0]]
    steps = [spread.batch.steps[place], spread.heads.steps[place], row]
    if place == 4:
        extents = [n if step else 1 for n, step in zip(extents, steps, strict=True)]
    elif walk.start % EIGHT or any(
        n > 1 and step % EIGHT for n, step in zip(extents, steps, strict=True)
    ):
        return None
    packed = shape[1]
    for axis in (2, 1, 0):
        if extents[axis] == 1:
            steps[axis] = packed
        elif steps[axis] <= 0:
            return None
        packed = steps[axis] * extents[axis]
    batch, head, across = steps
    return Heads(buffer, walk.start, (*extents, shape[1]), (batch, head, across))  # type: ignore[arg-type]
