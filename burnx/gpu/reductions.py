"""Values of all threads of a group combined into one, which all of them then know."""

from __future__ import annotations

from collections.abc import Callable

from burnx.dtype import DType
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import NAMED, type_name
from burnx.gpu.functions import apply
from burnx.gpu.pieces import Piece, maker

FUNCTIONS = ("add", "mul", "min", "max", "and", "or")
_WARP = 32


def room(group: int, dialect: Dialect) -> int:
    """Numbers of 64 bits that a group's reductions need in local memory."""
    return (max(group // _WARP, 1)) if dialect.shuffles else group


def combine_name(function: str, dtype: DType) -> str:
    return f"group_{function}_{type_name(dtype)}"


@maker
def _make(dialect: Dialect, name: str) -> Piece | None:
    if not name.startswith("group_"):
        return None
    function, _, type_ = name.removeprefix("group_").rpartition("_")
    if function not in FUNCTIONS or type_ not in NAMED:
        return None
    needs: set[str] = set()
    dtype = NAMED[type_]
    write = _with_shuffles if dialect.shuffles else _in_halves
    text = write(type_, lambda x, y: apply(needs, dialect, function, [x, y], dtype))
    head = f"FUNCTION {type_} {name}({type_} x, LOCAL u64 *room, i32 thread, i32 threads)"
    return Piece(f"{head}\n{{\n{text}}}\n", tuple(sorted(needs)))


def _in_halves(type_: str, both: Callable[[str, str], str]) -> str:
    """Halves combined with halves; ``threads`` is a power of two."""
    kept = "u8" if type_ == "bool" else type_
    return f"""\
    LOCAL {kept} *part = (LOCAL {kept} *)room;
    part[thread] = x;
    BARRIER;
    for (i32 half_ = threads / 2; half_ > 0; half_ /= 2) {{
        if (thread < half_) part[thread] = {both("part[thread]", "part[thread + half_]")};
        BARRIER;
    }}
    x = part[0];
    BARRIER;
    return x;
"""


def _with_shuffles(type_: str, both: Callable[[str, str], str]) -> str:
    """Threads that run in lockstep exchange values, then each adds up what these gave."""
    wide = type_ in ("i32", "u32", "i64", "u64", "f32", "f64")
    other = f"({type_})__shfl_xor_sync(0xffffffffu, {'x' if wide else '(i32)x'}, step)"
    kept = "u8" if type_ == "bool" else type_
    return f"""\
    for (i32 step = {_WARP // 2}; step > 0; step >>= 1) {{
        const {type_} other = {other};
        x = {both("x", "other")};
    }}
    if (threads <= {_WARP}) return x;
    LOCAL {kept} *part = (LOCAL {kept} *)room;
    if (thread % {_WARP} == 0) part[thread / {_WARP}] = x;
    BARRIER;
    x = part[0];
    for (i32 place = 1; place < threads / {_WARP}; place++) x = {both("x", "part[place]")};
    BARRIER;
    return x;
"""
