"""A kernel as attention: scores, their softmax, and the weighted sum, of rows that are counted through strips.

Recognised are kernels as ``burnx.fusion.attention`` writes them, where nothing lies between maximum, exponential, sum and
quotient: only then the weights of some keys can be worked out before all scores are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from burnx.dtype import float32, is_float
from burnx.gpu.ranges import values_in
from burnx.gpu.tiles_product import Loops, Product, parallel_loops, walks
from burnx.kernels.affine import affine
from burnx.kernels.ir import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Contract,
    Fold,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Store,
    Value,
    walk,
)
from burnx.kernels.spelling import every_node
from burnx.shape import Call, Dim, Expr, symbols


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """``scores`` and ``sums`` are the products, with rows as (strip, row of the strip) of which there are ``count``.

    ``lets`` and ``score`` work out a score from its product.  ``spared``: weights that are no numbers are 0.  ``guarded``:
    those of a row of nothing but -inf are.
    """

    outer: Loops
    count: Dim
    scores: Product
    sums: Product
    lets: tuple[Let, ...]
    score: Value
    spared: bool = False
    guarded: bool = False

    def share(self, summed: str, total: str) -> str:
        """The text of a result, from a weighted sum and the sum of the weights."""
        if self.spared:  # without a total the sum is of values times 0, which not all are 0
            return f"({total} > 0 ? {summed} / {total} : {total} == 0 ? {summed} : 0)"
        under = f"({total} == 0 ? 1 : {total})" if self.guarded else total
        return f"{summed} / {under}"


def attention_of(kernel: Kernel) -> Attention | None:
    """The attention that is all a kernel does; None if it does something else."""
    loops, body = parallel_loops(kernel.body)
    if len(body) != 3 or not loops:
        return None
    first, rows, last = body
    if not (isinstance(first, Contract) and isinstance(rows, Loop) and isinstance(last, Contract)):
        return None
    held, softmax = _held(first), _softmax_in(rows)
    if held is None or softmax is None or not _is_softmax(softmax, held):
        return None
    if not _reads_weights(last, held):
        return None
    strip = _strip(first, loops[-1])
    if strip is None or first.rows != last.rows or rows.variable != first.rows[0][0]:
        return None
    height, count = strip
    counted = (loops[-1], (rows.variable, height))
    scores = _product(loops[:-1], replace(first, rows=counted))
    sums = _product(loops[:-1], replace(last, rows=counted, left=_anywhere(last)))
    if scores is None or sums is None:
        return None
    *lets, store = first.body
    assert isinstance(store, Store)
    return Attention(
        loops[:-1],
        count,
        scores,
        sums,
        tuple(each for each in lets if isinstance(each, Let)),
        store.value,
        _is_spared(rows),
        softmax.guarded,
    )


def _is_spared(rows: Loop) -> bool:
    return any(isinstance(each, Store) and _spared(each.value) for each in walk(rows.body))


def _spared(value: Value) -> Value | None:
    """What is kept of a value where it is a number, all else being 0."""
    if not isinstance(value, Apply) or value.function != "select":
        return None
    test, zero, kept = value.arguments
    checks = isinstance(test, Apply) and test.function == "is_nan" and test.arguments[0] is kept
    return kept if checks and isinstance(zero, Constant) and zero.value == 0 else None


def _held(first: Contract) -> Buffer | None:
    """The scratch buffer that the scores are stored in, all else being names."""
    *lets, store = first.body
    if not isinstance(store, Store) or store.combine or store.value.dtype != float32:
        return None
    if first.dtype != float32 or not all(isinstance(each, Let) for each in lets):
        return None
    return store.buffer if "worker" in symbols(store.index) else None


def _strip(first: Contract, loop: tuple[str, Dim]) -> tuple[Dim, Dim] | None:
    """(rows of a strip, all rows) from how many rows a strip has: min(rows, all - block * rows)."""
    if len(first.rows) != 1:
        return None
    extent, block = first.rows[0][1], loop[0]
    if block not in symbols(extent):
        return (extent, extent) if loop[1] == 1 else None  # one strip holds all
    if not isinstance(extent, Expr) or len(extent.terms) != 1:
        return None
    ((atoms, factor),) = extent.terms.items()
    if factor != 1 or len(atoms) != 1 or not isinstance(atoms[0], Call) or atoms[0].kind != "min":
        return None
    parts = [each for each in (atoms[0].left, atoms[0].right) if block not in symbols(each)]
    rests = [each for each in (atoms[0].left, atoms[0].right) if block in symbols(each)]
    found = affine(rests[0], [block]) if len(parts) == len(rests) == 1 else None
    return None if found is None else (parts[0], found[1])


def _product(outer: Loops, contract: Contract) -> Product | None:
    sides = walks(contract)
    inside = {name for name, _ in (*outer, *contract.rows, contract.column, *contract.inner)}
    extents = (*outer, *contract.rows, contract.column, *contract.inner)
    if sides is None or any(symbols(extent) & inside for _, extent in extents):
        return None
    return Product(outer, contract, *sides)


def _anywhere(last: Contract) -> Load:
    """The weights, which lie in no memory here: any place of their buffer."""
    return Load(last.left.buffer, 0)


@dataclass(frozen=True, slots=True)
class _Softmax:
    """Of a row: its ``greatest`` score, the ``total`` of its exponentials, and the loop that stores the weights.

    ``top`` is what is taken from scores, ``under`` what exponentials are divided by; ``guarded``: these are other numbers
    where all scores are -inf.
    """

    greatest: Fold
    total: Fold
    store: Loop
    top: str
    under: str
    guarded: bool = False


def _softmax_in(rows: Loop) -> _Softmax | None:
    """The parts of a row; where all scores are -inf, 0 may be taken from them and 1 be the total."""
    folds = [each for each in rows.body if isinstance(each, Fold)]
    store = rows.body[-1] if rows.body else None
    if len(folds) != 2 or any(len(each.accumulators) != 1 for each in folds):
        return None
    if not isinstance(store, Loop) or rows.body[0] is not folds[0]:
        return None
    names = [each.accumulators[0].name for each in folds]
    lets = tuple(each for each in rows.body if isinstance(each, Let))
    if not lets:
        alone = rows.body == (*folds, store)
        return _Softmax(folds[0], folds[1], store, names[0], names[1]) if alone else None
    if len(lets) != 3 or rows.body != (folds[0], *lets[:2], folds[1], lets[2], store):
        return None
    empty, top, under = lets
    if not _is_empty(empty.value, names[0]):
        return None
    if not (_is_chosen(top, empty, 0, names[0]) and _is_chosen(under, empty, 1, names[1])):
        return None
    return _Softmax(folds[0], folds[1], store, top.name, under.name, True)


def _is_empty(value: Value, greatest: str) -> bool:
    """Whether it asks if the greatest score is -inf."""
    if not isinstance(value, Apply) or value.function != "eq":
        return False
    one, two = value.arguments
    named = isinstance(one, Local) and one.name == greatest
    return named and isinstance(two, Constant) and two.value == -math.inf


def _is_chosen(let: Let, empty: Let, number: int, otherwise: str) -> bool:
    """Whether it is a number in an empty row, else what is named."""
    value = let.value
    if not isinstance(value, Apply) or value.function != "select":
        return False
    test, one, two = value.arguments
    asks = isinstance(test, Local) and test.name == empty.name
    named = isinstance(two, Local) and two.name == otherwise
    return asks and named and isinstance(one, Constant) and one.value == number


def _is_softmax(rows: _Softmax, held: Buffer) -> bool:
    greatest, total, store = rows.greatest, rows.total, rows.store
    if greatest.body:
        return False
    top, added = greatest.accumulators[0], total.accumulators[0]
    if top.function != "max" or added.function != "add" or not _is_load(top.value, held):
        return False
    if not _is_exponential(added.value, held, rows.top) or len(store.body) != 1:
        return False
    kept = _kept(total, held, rows.top)
    last = store.body[0]
    if kept is None or not isinstance(last, Store) or last.buffer is not held or last.combine:
        return False
    weight = _unrounded(last.value)
    quotient = _unrounded(_spared(weight) or weight)
    if not isinstance(quotient, Apply) or quotient.function != "div":
        return False
    over, under = quotient.arguments
    if not (isinstance(under, Local) and under.name == rows.under):
        return False
    return _is_exponential(over, held, rows.top) or any(_is_load(over, each) for each in kept)


def _unrounded(value: Value) -> Value:
    """A float32 without being rounded to fewer bits on its way: weights are not stored here, so nothing rounds them."""
    while isinstance(value, Cast) and not value.bits and is_float(value.value.dtype):
        value = value.value
    return value


def _kept(total: Fold, held: Buffer, top: str) -> list[Buffer] | None:
    """The buffers in which exponentials are kept; None if the sum does something else on its way."""
    kept = []
    for each in total.body:
        if not isinstance(each, Store) or each.combine or each.buffer is held:
            return None
        if not _is_exponential(each.value, held, top) or "worker" not in symbols(each.index):
            return None
        kept.append(each.buffer)
    return kept


def _is_load(value: Value, buffer: Buffer) -> bool:
    return isinstance(value, Load) and value.buffer is buffer


def _is_exponential(value: Value, held: Buffer, top: str) -> bool:
    """Whether it is exp(score - greatest)."""
    if not isinstance(value, Apply) or value.function != "exp":
        return False
    (inside,) = value.arguments
    if not isinstance(inside, Apply) or inside.function != "sub":
        return False
    score, less = inside.arguments
    return _is_load(score, held) and isinstance(less, Local) and less.name == top


def _reads_weights(last: Contract, held: Buffer) -> bool:
    """Whether the weights are the left operand, and read nowhere behind the sums."""
    if last.left.buffer is not held or last.dtype != float32 or len(last.inner) != 1:
        return False
    values = [value for each in walk(last.body) for value in values_in(each)]
    return not any(_is_load(node, held) for node in every_node(values))
