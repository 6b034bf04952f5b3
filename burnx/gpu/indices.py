"""Indices as expressions of integers: division towards minus infinity where it matters, and what comes from memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from burnx.dtype import int32, int64
from burnx.gpu.dialects import Dialect
from burnx.gpu.pieces import Piece, maker
from burnx.shape import Call, Dim, Expr, Symbol

if TYPE_CHECKING:
    from burnx.gpu.writer import Writer

Atom = Symbol | Call


def dim_text(writer: Writer, dim: Dim) -> str:
    """An index or extent as an expression."""
    if not isinstance(dim, Expr):
        return str(int(dim))
    terms = sorted(_term(writer, monomial, factor) for monomial, factor in dim.terms.items())
    terms.sort(key=lambda text: text.startswith("-"))
    return " + ".join(terms).replace("+ -", "- ")


def _term(writer: Writer, monomial: tuple[Atom, ...], factor: int) -> str:
    atoms = sorted(_atom(writer, atom) for atom in monomial)
    if not atoms:
        return str(factor)
    sign = "-" if factor == -1 else "" if factor == 1 else f"{factor} * "
    return sign + " * ".join(atoms)


def _atom(writer: Writer, atom: Atom) -> str:
    if isinstance(atom, Symbol):
        return writer.names[atom.name]
    return _CALLS[atom.kind](writer, atom)


def factor_text(writer: Writer, dim: Dim) -> str:
    """An index that may stand beside ``*`` and ``/``."""
    text = dim_text(writer, dim)
    return text if text.isalnum() else f"({text})"


def is_natural(dim: Dim, names: set[str]) -> bool:
    """Whether an index is surely not negative, given names of which none is."""
    if not isinstance(dim, Expr):
        return dim >= 0
    return all(
        factor >= 0 and all(_is_natural_atom(atom, names) for atom in monomial)
        for monomial, factor in dim.terms.items()
    )


def _is_natural_atom(atom: Atom, names: set[str]) -> bool:
    if isinstance(atom, Symbol):
        return atom.name in names
    if atom.kind == "mod":
        return isinstance(atom.right, int) and atom.right > 0
    both = is_natural(atom.left, names), is_natural(atom.right, names)
    return any(both) if atom.kind == "max" else all(both)


# --- calls: divisors are positive -----------------------------------------------------------------------------------


def _division(sign: str, helper: str, of_power: Callable[[int], str]) -> Callable[..., str]:
    def write(writer: Writer, call: Call) -> str:
        by, left = call.right, factor_text(writer, call.left)
        if isinstance(by, int) and by & (by - 1) == 0:
            return f"({left} {of_power(by)})"
        if is_natural(call.left, writer.natural):
            return f"({left} {sign} {factor_text(writer, by)})"
        name = f"{helper}_{writer.index_type}"
        writer.needs.add(name)
        return f"{name}({dim_text(writer, call.left)}, {dim_text(writer, by)})"

    return write


def _extreme(writer: Writer, call: Call) -> str:
    dtype = int64 if writer.form.wide else int32
    sides = [dim_text(writer, each) for each in (call.left, call.right)]
    return writer.apply(call.kind, sides, dtype)


def _broadcast(writer: Writer, call: Call) -> str:
    left = factor_text(writer, call.left)
    return f"({left} == 1 ? {factor_text(writer, call.right)} : {left})"


_CALLS: dict[str, Callable[..., str]] = {
    "floordiv": _division("/", "floor_div", lambda by: f">> {by.bit_length() - 1}"),
    "mod": _division("%", "floor_rest", lambda by: f"& {by - 1}"),
    "min": _extreme,
    "max": _extreme,
    "broadcast": _broadcast,
}

# --- the functions --------------------------------------------------------------------------------------------------

_LOOKUP = """\
FUNCTION i64 lookup(i64 index, i64 limit, GLOBAL i32 *error)
{
    if (index < 0) index += limit;
    if (index >= 0 && index < limit) return index;
    *error = 1;
    return 0;
}
"""
_DIVISIONS = {"floor_div": "x / y - (x % y < 0)", "floor_rest": "x % y < 0 ? x % y + y : x % y"}


@maker
def _make(dialect: Dialect, name: str) -> Piece | None:
    if name == "lookup":
        return Piece(_LOOKUP)
    stem, _, type_ = name.rpartition("_")
    if stem not in _DIVISIONS:
        return None
    body = _DIVISIONS[stem]
    return Piece(f"FUNCTION {type_} {name}({type_} x, {type_} y) {{ return {body}; }}\n")
