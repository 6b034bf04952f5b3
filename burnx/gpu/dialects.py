"""OpenCL C and CUDA C++: the words in which they differ, and the header that hides most of that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """Words of a language.

    ``doubles`` is what else stands there where anything is of float64.  ``single`` ends the names of its functions of float; ``long`` ends a literal of 64 bits.  ``ids`` are the texts of:
    the thread in its group, the group along x, y, z, the groups along x, y, z.
    """

    name: str
    header: str
    doubles: str
    single: str
    long: str
    ids: tuple[str, ...]
    shuffles: bool
    options: tuple[str, ...]  # of its compiler


_OPENCL_HEADER = """\
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef float f32;
typedef uchar2 word2; typedef uchar4 word4; typedef uint2 word8; typedef uint4 word16;
#define FUNCTION static inline
#define GLOBAL __global
#define LOCAL __local
#define ALIGNED __attribute__((aligned(16)))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define bits_of_f32(x) as_uint(x)
#define f32_of_bits(x) as_float((u32)(x))
"""
_OPENCL_DOUBLES = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
#define bits_of_f64(x) as_ulong(x)
#define f64_of_bits(x) as_double((u64)(x))
"""

_CUDA_HEADER = """\
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32;
typedef u16 word2; typedef u32 word4; typedef uint2 word8; typedef uint4 word16;
#define FUNCTION static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define ALIGNED __align__(16)
#define BARRIER __syncthreads()
#define bits_of_f32(x) __float_as_uint(x)
#define f32_of_bits(x) __uint_as_float(x)
"""
_CUDA_DOUBLES = """\
typedef double f64;
#define bits_of_f64(x) ((u64)__double_as_longlong(x))
#define f64_of_bits(x) __longlong_as_double((i64)(x))
"""

OPENCL = Dialect(
    "opencl",
    _OPENCL_HEADER,
    _OPENCL_DOUBLES,
    single="",
    long="L",
    ids=(
        "(i32)get_local_id(0)",
        *(f"(i32)get_group_id({axis})" for axis in range(3)),
        *(f"(i32)get_num_groups({axis})" for axis in range(3)),
    ),
    shuffles=False,
    options=("-cl-std=CL1.2",),
)

CUDA = Dialect(
    "cuda",
    _CUDA_HEADER,
    _CUDA_DOUBLES,
    single="f",
    long="LL",
    ids=(
        "(i32)threadIdx.x",
        *(f"(i32)blockIdx.{axis}" for axis in "xyz"),
        *(f"(i32)gridDim.{axis}" for axis in "xyz"),
    ),
    shuffles=True,
    options=("--std=c++17",),
)
