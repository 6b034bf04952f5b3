"""CUDA C++ run on the CPU: threads of a group as fibers, the matrix units' functions written out.

Only for texts of this project: a group's threads run one after the other up to the next barrier.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from burnx.gpu.code import Code
from burnx.gpu.dialects import CUDA
from burnx.gpu.emitter import prelude
from burnx.gpu.tiles_units import UNITS
from burnx.gpu.tiles_wgmma_units import CLUSTER

Array = np.ndarray[Any, Any]
COMPILER = shutil.which("g++")

_HEAD = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cstdlib>
#include <csetjmp>
#include <memory>
#include <ucontext.h>
#include <tuple>
#include <vector>
#define __device__
#define __global__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
struct float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned int x, y, z, w; };
struct alignas(8) uint2 { unsigned int x, y; };
struct float2 { float x, y; };
struct double2 { double x, y; };
struct Index { unsigned int x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
struct Fiber { ucontext_t first; jmp_buf at; bool begun, ended; };
static std::vector<Fiber> fibers;
static jmp_buf outside;
static int running;
static int first_group;
static void enter(int next)
{
    running = next; threadIdx.x = next % blockDim.x; blockIdx.x = first_group + next / blockDim.x;
    if (fibers[next].begun) _longjmp(fibers[next].at, 1);
    fibers[next].begun = true;
    setcontext(&fibers[next].first);
}
static void go_on()
{
    const int mine = running;
    if (_setjmp(fibers[mine].at)) return;
    int next = mine + 1;
    while (next < (int)fibers.size() && fibers[next].ended) next++;
    if (next == (int)fibers.size()) _longjmp(outside, 1);
    enter(next);
}
static void __syncthreads() { go_on(); }
const int AT_ONCE = 8;  // groups of a cluster; what they ask for at launch is their own
static int group_of_cluster() { return blockIdx.x - first_group; }
alignas(1024) static unsigned char given_memories[AT_ONCE][1 << 18];
#define given_memory given_memories[group_of_cluster()]
static int arrived, met;
static void wait_for_cluster()
{
    const int before = met;
    if (++arrived == (int)fibers.size()) { arrived = 0; met++; go_on(); return; }
    while (met == before) go_on();
}
static float *memory_of(int rank, const float *own)
{ return (float *)(given_memories[rank] + ((unsigned char *)own - given_memory)); }
static inline unsigned int __float_as_uint(float x) { unsigned int y; memcpy(&y, &x, 4); return y; }
static inline float __uint_as_float(unsigned int x) { float y; memcpy(&y, &x, 4); return y; }
static inline unsigned long long __double_as_longlong(double x) { unsigned long long y; memcpy(&y, &x, 8); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }

static char *windows[AT_ONCE];  // addresses in local memory are counted from here
static unsigned int local_address(const void *place)
{
    char *&window = windows[group_of_cluster()];
    if (!window) window = (char *)place;
    return (unsigned int)((char *)place - window) + (group_of_cluster() << 24);  // as in a cluster
}
static char *at(unsigned int place) { return windows[group_of_cluster()] + (place & 0xffffff); }
static void copy_bytes(unsigned int to, const void *from, bool inside, int count)
{
    if (((uintptr_t)at(to) | (inside ? (uintptr_t)from : 0)) % count) abort();
    if (inside) memcpy(at(to), from, count); else memset(at(to), 0, count);
}
static void copy16(unsigned int to, const void *from, bool inside) { copy_bytes(to, from, inside, 16); }
static void copy8(unsigned int to, const void *from, bool inside) { copy_bytes(to, from, inside, 8); }
static void copy4(unsigned int to, const void *from, bool inside) { copy_bytes(to, from, inside, 4); }
static void copy2(unsigned int to, const void *from, bool inside) { copy_bytes(to, from, inside, 2); }
static void end_copies() {}
template <int ahead> static void wait_for_copies() {}
static unsigned int load_word(unsigned int from) { unsigned int v; memcpy(&v, at(from), 4); return v; }

struct Warp { unsigned int places[32]; unsigned int left[32][4], right[32][2]; };
static Warp warps[64 * AT_ONCE];
static Warp &mine() { return warps[running / 32]; }
static void load_any(unsigned int *out, unsigned int from, bool turned)
{
    if ((uintptr_t)at(from) % 16) abort();
    mine().places[threadIdx.x % 32] = from;
    go_on();
    const int lane = threadIdx.x % 32;
    for (int matrix = 0; matrix < 4; matrix++) {
        unsigned short part[2];
        for (int half = 0; half < 2; half++) {
            const int row = turned ? lane % 4 * 2 + half : lane / 4, column = turned ? lane / 4 : lane % 4 * 2 + half;
            memcpy(&part[half], at(mine().places[matrix * 8 + row]) + 2 * column, 2);
        }
        memcpy(&out[matrix], part, 4);
    }
    go_on();
}
static void load_matrices(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, unsigned int from)
{ unsigned int out[4]; load_any(out, from, false); a = out[0]; b = out[1]; c = out[2]; d = out[3]; }
static void load_turned_matrices(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, unsigned int from)
{ unsigned int out[4]; load_any(out, from, true); a = out[0]; b = out[1]; c = out[2]; d = out[3]; }
static float from_float16(unsigned short x)
{
    const int exponent = x >> 10 & 31, rest = x & 1023;
    const float value = exponent == 31 ? (rest ? NAN : INFINITY)
        : exponent ? ldexpf(1024 + rest, exponent - 25) : ldexpf(rest, -24);
    return x >> 15 ? -value : value;
}
static unsigned short to_float16(float x)
{ const _Float16 small = (_Float16)x; unsigned short bits; memcpy(&bits, &small, 2); return bits; }
static float from_bfloat16(unsigned short x) { return __uint_as_float((unsigned int)x << 16); }
template <typename T> static T part_of(const unsigned int &word, int place) { T x; memcpy(&x, (const char *)&word + place * sizeof(T), sizeof(T)); return x; }
template <int per, typename T, typename F>
static void multiply(float (&sum)[4], const unsigned int (&left)[4], const unsigned int (&right)[2], F number)
{
    const int lane = threadIdx.x % 32;
    memcpy(mine().left[lane], left, 16); memcpy(mine().right[lane], right, 8);
    go_on();
    for (int place = 0; place < 4; place++) {
        const int row = lane / 4 + place / 2 * 8, column = lane % 4 * 2 + place % 2;
        double total = 0;
        for (int inner = 0; inner < 8 * per; inner++) {
            const int half = inner / (4 * per), lane_of = inner % (4 * per) / per, spot = inner % per;
            const unsigned int a = mine().left[row % 8 * 4 + lane_of][row / 8 + 2 * half];
            const unsigned int b = mine().right[column * 4 + lane_of][half];
            total += (double)number(part_of<T>(a, spot)) * number(part_of<T>(b, spot));
        }
        sum[place] += (float)total;
    }
    go_on();
}
static void multiply_float16(float (&sum)[4], const unsigned int (&left)[4], const unsigned int (&right)[2])
{ multiply<2, unsigned short>(sum, left, right, from_float16); }
static void multiply_bfloat16(float (&sum)[4], const unsigned int (&left)[4], const unsigned int (&right)[2])
{ multiply<2, unsigned short>(sum, left, right, from_bfloat16); }
static void multiply_tfloat32(float (&sum)[4], const unsigned int (&left)[4], const unsigned int (&right)[2])
{ multiply<1, unsigned int>(sum, left, right, [](unsigned int x) { return __uint_as_float(x & 0xffffe000u); }); }
static float exchange(float value, int step)
{
    const int lane = threadIdx.x % 32;
    memcpy(&mine().places[lane], &value, 4);
    go_on();
    float other; memcpy(&other, &mine().places[lane ^ step], 4);
    go_on();
    return other;
}
static float quick_power(float exponent) { return exp2f(exponent); }
static unsigned int pack_float16(float first, float second)
{ return to_float16(first) | (unsigned int)to_float16(second) << 16; }
static unsigned int to_bfloat16(float x)
{
    unsigned int bits; memcpy(&bits, &x, 4);
    if (x != x) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static unsigned int pack_bfloat16(float first, float second)
{ return to_bfloat16(first) | to_bfloat16(second) << 16; }
static void round_tfloat32(unsigned int &x)
{ if ((x & 0x7f800000) != 0x7f800000) x += 0x1000; x &= 0xffffe000; }
static void split_tfloat32(unsigned int &value, unsigned int &low)
{
    const float whole = __uint_as_float(value);
    value = (value + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(whole - __uint_as_float(value));
}
"""

_WARPGROUPS = r"""
static void show_copies() {}
static void begin_products() {}
static void end_products() {}
template <int ahead> static void wait_for_products() {}
static int same_in_warp(int value) { return value; }
template <int turned, int size> static unsigned int element_of(unsigned long long told, int free, int inner)
{
    const unsigned int start = (told & 0x3fff) << 4, block = (told >> 16 & 0x3fff) << 4, bunch = (told >> 32 & 0x3fff) << 4;
    if (told >> 62 != 1) abort();
    const int line = turned ? inner : free, along = turned ? free : inner, per = 128 / size;
    if (!turned && along >= per) abort();
    const unsigned int place = start + line / 8 * bunch + line % 8 * 128 + along / per * block + along % per * size;
    const unsigned int swizzled = place ^ (place >> 7 & 7) << 4;
    unsigned int bits = 0;
    memcpy(&bits, at(swizzled), size);
    return bits;
}
template <int left_turned, int right_turned, int adds, int size, int count, typename F>
static void multiply_lines(float (&sum)[count], unsigned long long left, unsigned long long right, F number)
{
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16;
    for (int place = 0; place < count; place++) {
        const int row = first + lane / 4 + place / 2 % 2 * 8, column = place / 4 * 8 + lane % 4 * 2 + place % 2;
        double total = 0;
        for (int inner = 0; inner < 32 / size; inner++)
            total += (double)number(element_of<left_turned, size>(left, row, inner))
                * number(element_of<right_turned, size>(right, column, inner));
        sum[place] = (adds ? sum[place] : 0) + (float)total;
    }
}
"""

_PRODUCT = """
template <int left_turned, int right_turned, int adds>
static void {name}(float (&sum)[{count}], unsigned long long left, unsigned long long right)
{{ multiply_lines<left_turned, right_turned, adds, {size}>(sum, left, right, {number}); }}
"""
_NUMBERS = {
    "float16": (2, "from_float16"),
    "bfloat16": (2, "from_bfloat16"),
    "tfloat32": (4, "[](unsigned int x) { return __uint_as_float(x & 0xffffe000u); }"),
}


def text_of(codes: Sequence[Code]) -> str:
    """CUDA texts with all that they need, the matrix units' functions left out or written out."""
    needs = frozenset[str]().union(*(code.needs for code in codes)) - {UNITS, CLUSTER}
    products = [name for name in sorted(needs) if name.startswith("wgmma")]
    texts = [prelude(CUDA, needs - {*products})]
    for name in products:
        _, dtype, columns = name.split("_")
        size, number = _NUMBERS[dtype]
        count = int(columns) // 2
        texts.append(_PRODUCT.format(name=name, count=count, size=size, number=number))
    return "\n".join([*texts, *(code.text for code in codes)])


_TAIL = r"""
static void (*entry)();
static void start() { entry(); fibers[running].ended = true; for (;;) go_on(); }
extern "C" void launch(void (*function)(), int groups, int group_threads, int cluster)
{
    const int threads = group_threads * cluster;
    entry = function; gridDim = {(unsigned int)groups, 1, 1}; blockDim = {(unsigned int)group_threads, 1, 1};
    const size_t room = 1 << 15;
    static std::unique_ptr<char[]> stacks(new char[1024 * AT_ONCE * room]);
    fibers.resize(threads);
    for (volatile int group = 0; group < groups; group = group + cluster) {
        first_group = group;
        for (int thread = 0; thread < threads; thread++) {
            Fiber &fiber = fibers[thread];
            getcontext(&fiber.first);
            fiber.first.uc_stack.ss_sp = &stacks[thread * room];
            fiber.first.uc_stack.ss_size = room;
            fiber.begun = fiber.ended = false;
            makecontext(&fiber.first, start, 0);
        }
        _setjmp(outside);
        int first = 0;
        while (first < threads && fibers[first].ended) first++;
        if (first < threads) enter(first);
    }
}
"""


_REPLACED = {
    'asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));': "result = from_float16(x);",
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));': "result = to_float16(x);",
}


def build(text: str, names: Sequence[str], kinds: str, folder: Path) -> list[Any]:
    """The functions of kernels' texts; ``kinds`` has a letter for each argument: p pointer, i int, l long.

    Each is called with the groups, the threads of a group, and the arguments.
    """
    types = {"p": "void *", "i": "int", "l": "long long"}
    lines = [f"static {types[kind]} given{place};" for place, kind in enumerate(kinds)]
    lines.append(
        "template <int n, typename R, typename... A> "
        "typename std::tuple_element<n, std::tuple<A...>>::type argument(R (*)(A...));"
    )
    parameters = ", ".join(f"{types[kind]} a{place}" for place, kind in enumerate(kinds))
    sets = " ".join(f"given{place} = a{place};" for place in range(len(kinds)))
    for name in names:
        casts = ", ".join(
            f"(decltype(argument<{place}>({name})))given{place}" for place in range(len(kinds))
        )
        lines.append(f"static void call_{name}() {{ {name}({casts}); }}")
        lines.append(f'extern "C" void run_{name}(int groups, int threads, {parameters})')
        lines.append(f"{{ {sets} memset(windows, 0, sizeof windows);")
        together = re.search(rf"__cluster_dims__\((\d+), 1, 1\)[^(]*\(\d+\) {name}\(", text)
        cluster = together[1] if together else "1"
        lines.append(f"  launch(call_{name}, groups, threads, {cluster}); }}")
    text = re.sub(r"extern __shared__ \S+ u8 given_memory\[\];", "", text)
    for old, new in _REPLACED.items():
        text = text.replace(old, new)
    source = "\n".join([_HEAD, _WARPGROUPS, text, _TAIL, *lines]) + "\n"
    stem = hashlib.sha256(source.encode()).hexdigest()[:16]
    path, made = folder / f"{stem}.cpp", folder / f"{stem}.so"
    path.write_text(source)
    command = [
        str(COMPILER),
        "-O1",
        "-w",
        "-U_FORTIFY_SOURCE",
        "-shared",
        "-fPIC",
        "-o",
        str(made),
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    library = ctypes.CDLL(str(made))
    letters = {"p": ctypes.c_void_p, "i": ctypes.c_int, "l": ctypes.c_longlong}
    functions = [getattr(library, f"run_{name}") for name in names]
    for function in functions:
        function.argtypes = [ctypes.c_int, ctypes.c_int, *(letters[kind] for kind in kinds)]
    return functions
