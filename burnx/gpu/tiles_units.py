"""Functions around the matrix units of a CUDA device, and copies that run beside the work."""

from __future__ import annotations

from burnx.gpu.dialects import Dialect
from burnx.gpu.pieces import Piece, maker

UNITS = "matrix_units"

_TEXT = """\
FUNCTION u32 local_address(const void *place)
{
    return (u32)__cvta_generic_to_shared(place);
}
FUNCTION void copy16(u32 to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
FUNCTION void copy8(u32 to, const void *from, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                 :: "r"(to), "l"(from), "r"(inside ? 8 : 0) : "memory");
}
FUNCTION void copy4(u32 to, const void *from, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(to), "l"(from), "r"(inside ? 4 : 0) : "memory");
}
FUNCTION void copy2(u32 to, const void *from, bool inside)
{
    const unsigned short value = inside ? *(const unsigned short *)from : 0;
    asm volatile("st.shared.u16 [%0], %1;" :: "r"(to), "h"(value) : "memory");
}
FUNCTION void end_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int ahead> FUNCTION void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(ahead) : "memory");
}
FUNCTION u32 load_word(u32 from)
{
    u32 value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
    return value;
}
FUNCTION void load_matrices(
    u32 &a, u32 &b, u32 &c, u32 &d, u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
FUNCTION void load_turned_matrices(
    u32 &a, u32 &b, u32 &c, u32 &d, u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
FUNCTION void multiply_float16(
    float (&sum)[4], const u32 (&left)[4], const u32 (&right)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),
                   "r"(right[0]), "r"(right[1]));
}
FUNCTION void multiply_bfloat16(
    float (&sum)[4], const u32 (&left)[4], const u32 (&right)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),
                   "r"(right[0]), "r"(right[1]));
}
FUNCTION void multiply_tfloat32(
    float (&sum)[4], const u32 (&left)[4], const u32 (&right)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),
                   "r"(right[0]), "r"(right[1]));
}
FUNCTION void round_tfloat32(u32 &value)
{
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(value) : "f"(__uint_as_float(value)));
}
FUNCTION void split_tfloat32(u32 &value, u32 &low)
{
    const float whole = __uint_as_float(value);
    value = value + 0x1000u & 0xffffe000u;
    low = __float_as_uint(whole - __uint_as_float(value)); /* the units leave out the bits that are too many */
}
FUNCTION f32 exchange(f32 value, i32 step)
{
    return __shfl_xor_sync(0xffffffffu, value, step);
}
FUNCTION f32 quick_power(f32 exponent)
{
    f32 result;
    asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(exponent));
    return result;
}
FUNCTION u32 pack_float16(f32 first, f32 second)
{
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}
FUNCTION u32 pack_bfloat16(f32 first, f32 second)
{
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}
"""


@maker
def _make(dialect: Dialect, name: str) -> Piece | None:
    return Piece(_TEXT) if name == UNITS else None
