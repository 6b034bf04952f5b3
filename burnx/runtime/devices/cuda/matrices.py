"""What the matrix units of a device do at their best: warps that do nothing but multiply small matrices.

Source: NVIDIA PTX ISA 8.0, section 9.7.13, mma.m16n8k16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from burnx.runtime.devices.cuda.modules import load_function

KINDS = {"float16": "f16", "bfloat16": "bf16"}
WARPS_OF_A_GROUP = 8
GROUPS_OF_A_UNIT = 8
CHAINS = 8  # products of a warp that do not wait for each other
TURNS = 2048
FLOPS = 2 * 16 * 8 * 16  # of one product
RUNS = 5


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


def measure_matrices(driver: Any, stamp: dict[str, str]) -> Mapping[str, float]:
    """Operations a second, by the dtype of what is multiplied."""
    groups, threads = driver.limits.units * GROUPS_OF_A_UNIT, 32 * WARPS_OF_A_GROUP
    memory = driver.allocate(groups * threads * 4)
    arguments = (np.uint64(memory.ptr), np.int32(TURNS))
    found = {}
    for dtype in sorted(driver.limits.matrices & KINDS.keys()):
        function = load_function(write_text(KINDS[dtype]), "multiply", stamp, driver.name)

        def launch(function: Any = function) -> None:
            function((groups, 1, 1), (threads, 1, 1), arguments, stream=driver.stream)

        launch()
        least_ns = max(min(driver.timed(launch) for _ in range(RUNS)), 1)
        found[dtype] = 1e9 * FLOPS * CHAINS * TURNS * groups * WARPS_OF_A_GROUP / least_ns
    return found
