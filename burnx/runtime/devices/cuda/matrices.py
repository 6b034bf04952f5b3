"""What the matrix units of a device do at their best: warps, or warpgroups, that do nothing but multiply small matrices.

Source: NVIDIA PTX ISA 8.0, section 9.7.13, mma.m16n8k16; the warpgroups' products are those of ``burnx.gpu``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from burnx.errors import UsageError
from burnx.gpu.dialects import CUDA
from burnx.gpu.emitter import prelude
from burnx.gpu.tiles_form import WARP, WARPGROUP, WARPGROUPS_OF
from burnx.gpu.tiles_swizzled import ALIGNMENT, LINE, SWIZZLE
from burnx.gpu.tiles_wgmma_units import HIGH, product_name
from burnx.runtime.devices.cuda.modules import load_function

TF32 = "BURNX_TF32"
KINDS = {"float16": "f16", "bfloat16": "bf16"}
WARPS_OF_A_GROUP = 8
GROUPS_OF_A_UNIT = 8
CHAINS = 8  # products of a warp that do not wait for each other
TURNS = 2048
FLOPS = 2 * 16 * 8 * 16  # of one product of a warp
WIDE = 256  # columns of a warpgroup's product, whose operands take 40 KiB
RUNS = 5


def find_matrices(capability: int) -> frozenset[str]:
    """The dtypes whose products matrix units take as they are; tfloat32 in place of float32 only if that was asked for.

    Raises: UsageError if BURNX_TF32 is neither 0 nor 1.
    """
    asked = os.environ.get(TF32) or "0"
    if asked not in ("0", "1"):
        raise UsageError(f"{TF32} is 1 for products of float32 in TF32, else 0; found {asked!r}")
    if capability < 80:
        return frozenset()
    return frozenset(("float16", "bfloat16", *(("tfloat32",) if asked == "1" else ())))


def write_text(kind: str) -> str:
    """A kernel that multiplies and adds, whatever the numbers are."""
    sums = ", ".join(f"%{place}" for place in range(4))
    return f"""
extern "C" __global__ void multiply(float *result, int turns) {{
  float c[{CHAINS}][4] = {{}};
  unsigned a[4] = {{threadIdx.x, 1u, 2u, 3u}}, b[2] = {{threadIdx.x, 5u}};
  for (int turn = 0; turn < turns; ++turn) {{
#pragma unroll
    for (int j = 0; j < {CHAINS}; ++j)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
          "{{{sums}}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{{sums}}};"
          : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }}
  float total = 0.0f;
#pragma unroll
  for (int j = 0; j < {CHAINS}; ++j) total += c[j][0] + c[j][1] + c[j][2] + c[j][3];
  result[blockIdx.x * blockDim.x + threadIdx.x] = total;
}}
"""


def write_group_text(dtype: str) -> str:
    """As ``write_text``, of warpgroups."""
    name = product_name(dtype, WIDE)
    return f"""{prelude(CUDA, [name])}
extern "C" __global__ void __launch_bounds__({WARPGROUP}) multiply(float *result, int turns) {{
  __shared__ __align__({ALIGNMENT}) u32 operands[{(HIGH + WIDE) * LINE // 4}];
  float sums[{WIDE // 2}];
#pragma unroll
  for (int j = 0; j < {WIDE // 2}; ++j) sums[j] = 0.0f;
  for (int j = threadIdx.x; j < {(HIGH + WIDE) * LINE // 4}; j += {WARPGROUP}) operands[j] = j * 2654435761u & 0x3fff3fff;
  show_copies();
  BARRIER;
  const u64 rest = {SWIZZLE | ALIGNMENT // 16 << 32 | 1 << 16}ULL;
  const u64 left = rest + local_address(operands) / 16, right = left + {HIGH * LINE // 16};
  for (int turn = 0; turn < turns; ++turn) {{
    begin_products();
#pragma unroll
    for (int j = 0; j < {CHAINS}; ++j) {name}<0, 0, 1>(sums, left + j % 4 * 2, right + j % 4 * 2);
    end_products();
    wait_for_products<0>();
  }}
  float total = 0.0f;
#pragma unroll
  for (int j = 0; j < {WIDE // 2}; ++j) total += sums[j];
  result[blockIdx.x * blockDim.x + threadIdx.x] = total;
}}
"""


def measure_matrices(driver: Any, stamp: dict[str, str]) -> Mapping[str, float]:
    """Operations a second, by the dtype of what is multiplied."""
    grouped = driver.limits.capability == WARPGROUPS_OF
    threads = WARPGROUP if grouped else WARP * WARPS_OF_A_GROUP
    groups = driver.limits.units * GROUPS_OF_A_UNIT
    flops = 2 * HIGH * WIDE * 16 if grouped else FLOPS * WARPS_OF_A_GROUP
    memory = driver.allocate(groups * threads * 4)
    arguments = (np.uint64(memory.ptr), np.int32(TURNS))
    found = {}
    for dtype in sorted(driver.limits.matrices & KINDS.keys()):
        text = write_group_text(dtype) if grouped else write_text(KINDS[dtype])
        function = load_function(text, "multiply", stamp, driver.name)

        def launch(function: Any = function) -> None:
            function((groups, 1, 1), (threads, 1, 1), arguments, stream=driver.stream)

        launch()
        least_ns = max(min(driver.timed(launch) for _ in range(RUNS)), 1)
        found[dtype] = 1e9 * flops * CHAINS * TURNS * groups / least_ns
    return found
