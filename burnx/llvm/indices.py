"""Indices: dimensions worked out as i64, addresses, and how an index moves from lane to lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

from burnx.kernels.ir import Buffer, Statement, Value
from burnx.llvm.context import Context
from burnx.llvm.dtypes import memory_type
from burnx.llvm.literals import widen
from burnx.llvm.uses import free_names, used_indices
from burnx.llvm.writer import Ssa, integer
from burnx.shape import Call, Dim, Expr, Symbol, bounds, symbols

Monomial = tuple[Symbol | Call, ...]
Term = tuple[Monomial, int]


def number(context: Context, dim: Dim) -> Ssa:
    """An index as an i64; inside lanes, that of the first lane."""
    if not isinstance(dim, Expr):
        return integer(int(dim))
    return _sum(context, list(dim.terms.items()))


def _sum(context: Context, terms: Sequence[Term]) -> Ssa:
    """Terms are added from the outermost scope inwards, so that each scope finds what is known outside."""
    constant = sum(factor for monomial, factor in terms if not monomial)
    total = integer(0)
    so_far: tuple[Term, ...] = ()
    for level, group in _by_level(context, terms):
        so_far = (*so_far, *group)
        total = _remember(
            context, ("sum", so_far), level, partial(_add_terms, context, total, group)
        )
    return context.add(total, integer(constant))


def _by_level(context: Context, terms: Iterable[Term]) -> Iterator[tuple[int, tuple[Term, ...]]]:
    leveled = [(_level(context, term[0]), term) for term in terms if term[0]]
    leveled.sort(key=lambda each: each[0])
    for level, group in groupby(leveled, key=lambda each: each[0]):
        yield level, tuple(term for _, term in group)


def _level(context: Context, monomial: Monomial) -> int:
    return max(context.depth(name) for name in _names(context, monomial))


def _names(context: Context, monomial: Monomial) -> frozenset[str]:
    found = context.facts.get(monomial)
    if not isinstance(found, frozenset):
        found = symbols(Expr({monomial: 1}))
        context.facts[monomial] = found
    return found


def _remember(context: Context, key: object, level: int, make: Callable[[], Ssa]) -> Ssa:
    """What was worked out before under ``key``, in a scope not outside of where its symbols are bound."""
    for scope in reversed(context.scopes[max(level, 0) :]):
        if key in scope.numbers:
            return scope.numbers[key]
    made = make()
    context.scopes[-1].numbers[key] = made
    return made


def _add_terms(context: Context, total: Ssa, terms: Iterable[Term]) -> Ssa:
    for monomial, factor in terms:
        value = _product(context, monomial)
        if factor != 1:
            value = context.writer.binary("mul nsw", value, integer(factor))
        total = context.add(total, value)
    return total


def _product(context: Context, monomial: Monomial) -> Ssa:
    def multiply() -> Ssa:
        first, *rest = [_atom(context, atom) for atom in monomial]
        for each in rest:
            first = context.writer.binary("mul nsw", first, each)
        return first

    return _remember(context, ("product", monomial), _level(context, monomial), multiply)


def _atom(context: Context, atom: Symbol | Call) -> Ssa:
    if isinstance(atom, Symbol):
        return _symbol(context, atom.name)

    def work_out() -> Ssa:
        left, right = number(context, atom.left), number(context, atom.right)
        return _CALLS[atom.kind](context, atom, left, right)

    return _remember(context, atom, _level(context, (atom,)), work_out)


def _symbol(context: Context, name: str) -> Ssa:
    found = context.find(name)
    if not found.type.startswith("<"):
        return found
    return context.pick(found, context.picked or integer(0))


# --- division -------------------------------------------------------------------------------------------------------


def _is_positive(context: Context, dim: Dim, least: int) -> bool:
    key = ("bounds", dim)
    if key not in context.facts:
        context.facts[key] = bounds(dim)[0]
    low = context.facts[key]
    return isinstance(low, (int, float)) and low >= least


def _divisor(context: Context, dim: Dim, value: Ssa) -> Ssa:
    """The divisor, 1 in place of 0: code may run before its loop is known to have turns."""
    if isinstance(dim, int):
        return value
    zero = context.writer.compare("icmp eq", value, integer(0))
    return context.writer.select(zero, integer(1), value)


def _floordiv(context: Context, call: Call, left: Ssa, right: Ssa) -> Ssa:
    writer = context.writer
    if isinstance(call.right, int) and call.right > 0 and call.right & (call.right - 1) == 0:
        return writer.binary("ashr", left, integer(call.right.bit_length() - 1))
    by = _divisor(context, call.right, right)
    if _is_positive(context, call.left, 0) and _is_positive(context, call.right, 0):
        return writer.binary("udiv", left, by)
    quotient = writer.binary("sdiv", left, by)
    below = _is_rounded_up(context, left, by)
    return writer.select(below, writer.binary("sub", quotient, integer(1)), quotient)


def _mod(context: Context, call: Call, left: Ssa, right: Ssa) -> Ssa:
    writer = context.writer
    by = _divisor(context, call.right, right)
    if _is_positive(context, call.left, 0) and _is_positive(context, call.right, 0):
        return writer.binary("urem", left, by)
    rest = writer.binary("srem", left, by)
    below = _is_rounded_up(context, left, by)
    return writer.select(below, writer.binary("add", rest, by), rest)


def _is_rounded_up(context: Context, left: Ssa, by: Ssa) -> Ssa:
    """Whether division towards zero rounded up: there is a rest, of another sign than the divisor."""
    writer = context.writer
    rest = writer.binary("srem", left, by)
    some = writer.compare("icmp ne", rest, integer(0))
    other = writer.compare("icmp slt", writer.binary("xor", rest, by), integer(0))
    return writer.binary("and", some, other)


def _extreme(function: str) -> Callable[[Context, Call, Ssa, Ssa], Ssa]:
    def work_out(context: Context, call: Call, left: Ssa, right: Ssa) -> Ssa:
        return context.writer.call("i64", f"llvm.{function}.i64", left, right)

    return work_out


def _broadcast(context: Context, call: Call, left: Ssa, right: Ssa) -> Ssa:
    one = context.writer.compare("icmp eq", left, integer(1))
    return context.writer.select(one, right, left)


_CALLS: dict[str, Callable[[Context, Call, Ssa, Ssa], Ssa]] = {
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _extreme("smin"),
    "max": _extreme("smax"),
    "broadcast": _broadcast,
}

# --- addresses ------------------------------------------------------------------------------------------------------


def pointer(context: Context, buffer: Buffer, dim: Dim) -> Ssa:
    """The address of an element: the part known outside the innermost scope once, then the rest."""
    terms = list(dim.terms.items()) if isinstance(dim, Expr) else [((), int(dim))]
    constant = sum(factor for monomial, factor in terms if not monomial)
    place = context.base(buffer)
    so_far: tuple[Term, ...] = ()
    for level, group in _by_level(context, terms):
        so_far = (*so_far, *group)
        place = _remember(
            context,
            (id(buffer), so_far),
            level,
            partial(_advance_by, context, buffer, place, group),
        )
    return _advance(context, buffer, place, integer(constant))


def _advance_by(context: Context, buffer: Buffer, place: Ssa, terms: tuple[Term, ...]) -> Ssa:
    return _advance(context, buffer, place, _sum(context, terms))


def _advance(context: Context, buffer: Buffer, place: Ssa, elements: Ssa) -> Ssa:
    if elements.name == "0":
        return place
    return context.writer.pointer(place, elements, memory_type(buffer.dtype))


def prepare(context: Context, body: tuple[Statement, ...]) -> None:
    """Work out now what the indices inside ``body`` need and what is known already."""
    for buffer, dim in used_indices(context, body):
        if not isinstance(dim, Expr):
            continue
        known = [term for term in dim.terms.items() if term[0] and _is_known(context, term[0])]
        if known and buffer is not None and id(buffer) in context.bases:
            pointer(context, buffer, Expr(dict(known)))
        elif known:
            _sum(context, known)


def _is_known(context: Context, monomial: Monomial) -> bool:
    return all(
        context.is_bound(name) and not context.varies(name) for name in _names(context, monomial)
    )


# --- lanes and loops ------------------------------------------------------------------------------------------------


def varies(context: Context, dim: Dim) -> bool:
    """Whether the index is another one in every lane."""
    if context.count == 1 or not isinstance(dim, Expr):
        return False
    return any(context.varies(name) for term in dim.terms if term for name in _names(context, term))


def stride(context: Context, dim: Dim) -> Dim | None:
    """How far an index moves from a lane to the next; None if that is not the same everywhere."""
    if not varies(context, dim) or not isinstance(dim, Expr) or context.vector is None:
        return 0
    total: Dim = 0
    variable = Symbol(context.vector.variable)
    for monomial, factor in dim.terms.items():
        if not monomial or not any(map(context.varies, _names(context, monomial))):
            continue
        rest = tuple(atom for atom in monomial if atom != variable)
        if len(rest) != len(monomial) - 1 or not all(_is_known(context, (atom,)) for atom in rest):
            return None
        total = total + (Expr({rest: factor}) if rest else factor)
    return total


def indices_of_lanes(context: Context, dim: Dim) -> Ssa:
    """The index in every lane, as a vector of i64."""
    count, step, writer = context.count, stride(context, dim), context.writer
    if isinstance(step, int):
        start = widen(writer, number(context, dim), count)
        offsets = ", ".join(f"i64 {step * lane}" for lane in range(count))
        return writer.binary("add nsw", start, Ssa(f"<{offsets}>", start.type))
    result = Ssa("poison", f"<{count} x i64>")
    for lane in range(count):
        with context.one_lane(integer(lane)):
            index = number(context, dim)
        result = writer.value(result.type, f"insertelement {result}, {index}, i64 {lane}")
    return result


def value_varies(context: Context, value: Value) -> bool:
    """Whether a value may be another one in every lane."""
    return context.count > 1 and any(map(context.varies, free_names(context, value)))


def name_loops(context: Context, flat: Ssa, loops: Sequence[tuple[str, Dim]]) -> None:
    """Bind the variables of nested loops from one flat turn, the last variable counting fastest."""
    rest, writer = flat, context.writer
    for variable, extent in reversed(loops[1:]):
        size = context.index(extent)
        context.bind(variable, writer.binary("urem", rest, size))
        rest = writer.binary("udiv", rest, size)
    if loops:
        context.bind(loops[0][0], rest)
