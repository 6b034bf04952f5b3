"""Division of indices towards minus infinity, and indices that come from memory."""

from __future__ import annotations

from burnx.gpu.dialects import Dialect
from burnx.gpu.pieces import Piece, maker

_LOOKUP = """\
FUNCTION i64 lookup(i64 index, i64 limit, GLOBAL i32 *error)
{
    if (index < 0) index += limit;
    if (index >= 0 && index < limit) return index;
    *error = 1;
    return 0;
}
"""


@maker
def _make(dialect: Dialect, name: str) -> Piece | None:
    if name == "lookup":
        return Piece(_LOOKUP)
    stem, _, type_ = name.rpartition("_")
    if stem == "floor_div":
        body = "x / y - (x % y < 0)"
    elif stem == "floor_rest":
        body = "x % y < 0 ? x % y + y : x % y"
    else:
        return None
    return Piece(f"FUNCTION {type_} {name}({type_} x, {type_} y) {{ return {body}; }}\n")
