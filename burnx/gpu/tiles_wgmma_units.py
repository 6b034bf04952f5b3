"""Functions around the warpgroup products of compute capability 9.0 (wgmma): operands lie in local memory, or the left one in registers.

An operand is told by a descriptor, 64 bits: where it begins, how far its blocks lie apart, how its rows are swizzled.

Groups of a cluster wait for each other and read each other's local memory.

Source: PTX ISA 8.0, sections 9.7.14 (wgmma), 9.7.12.4 (proxies), 9.7.12.3 (barrier.cluster) and 9.7.8.22 (mapa).
"""

from __future__ import annotations

from burnx.gpu.dialects import Dialect
from burnx.gpu.pieces import Piece, maker
from burnx.gpu.tiles_units import UNITS

WGMMA = "wgmma"
LINES = "wgmma_lines"
CLUSTER = "cluster"
KINDS = {"float16": ("f16", 16), "bfloat16": ("bf16", 16), "tfloat32": ("tf32", 8)}
"""What PTX calls a dtype, and the inner places of one product."""
HIGH = 64  # rows of one product

_TEXT = """\
FUNCTION void show_copies()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
FUNCTION void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
FUNCTION void end_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int ahead> FUNCTION void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(ahead) : "memory");
}
FUNCTION i32 same_in_warp(i32 value)
{
    return __shfl_sync(0xffffffffu, value, 0);
}
"""

_CLUSTER_TEXT = """\
FUNCTION void wait_for_cluster()
{
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
FUNCTION float *memory_of(i32 rank, const float *own)
{
    u64 place;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(place) : "l"(own), "r"(rank));
    return (float *)place;
}
"""


def product_name(dtype: str, columns: int) -> str:
    """The function that multiplies 64 rows by so many columns."""
    return f"{WGMMA}_{dtype}_{columns}"


@maker
def _make(_: Dialect, name: str) -> Piece | None:
    if name == LINES:
        return Piece(_TEXT, (UNITS,))
    if name == CLUSTER:
        return Piece(_CLUSTER_TEXT)
    parts = name.split("_")
    if len(parts) == 3 and parts[0] == WGMMA and parts[1] in KINDS:
        return Piece(_product_text(name, parts[1], int(parts[2])), (LINES,))
    return None


def _product_text(name: str, dtype: str, columns: int) -> str:
    """Both operands by descriptors; ``turned`` is 1 for one whose rows (columns) lie next to each other.

    ``adds``: 0 where the sums begin with this product.
    """
    kind, deep = KINDS[dtype]
    count = columns // 2
    sums = ", ".join(f"%{place}" for place in range(count))
    held = ", ".join(f'"+f"(sum[{place}])' for place in range(count))
    turns = f", %{count + 3}, %{count + 4}" if deep == 16 else ""
    given = ', "n"(left_turned), "n"(right_turned)' if deep == 16 else ""
    return f"""\
template <int left_turned, int right_turned, int adds> FUNCTION void {name}(
    float (&sum)[{count}], u64 left, u64 right)
{{
    asm volatile("{{ .reg .pred adds; setp.ne.b32 adds, %{count + 2}, 0; "
                 "wgmma.mma_async.sync.aligned.m64n{columns}k{deep}.f32.{kind}.{kind} "
                 "{{{sums}}}, "
                 "%{count}, %{count + 1}, adds, 1, 1{turns}; }}"
                 : {held}
                 : "l"(left), "l"(right), "n"(adds){given});
}}
"""
