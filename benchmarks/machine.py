"""What the machine is, and the most it can do: fp32 operations and bytes of memory a second.

    python benchmarks/machine.py [--threads 2]

Operations are the better of NumPy's matrix product and a loop of fused multiply-adds that never leaves the registers;
memory is the better of a copy (read and written bytes) and a dot product that only reads, far larger than any cache.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PACKAGES = ("burnx", "numpy", "onnx", "llvmlite", "onnxruntime", "openvino", "torch", "onnx2torch")
FEATURES = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
REPEATS, LEAST_S = 12, 1.5  # of each measurement: others may be using the CPUs now and then
SIDE = 2048  # of the matrices that are multiplied
ARRAY_BYTES = 256 << 20
CHAINS = 12  # products under way at once: more than latency times units on any CPU meant here
STEPS = 2_000_000


def describe_machine() -> dict[str, Any]:
    """The CPU, what else it is busy with, and the versions of what is compared."""
    cpu = _cpu_facts()
    flags = cpu.get("flags", cpu.get("Features", "")).split()
    return {
        "cpu": cpu.get("model name", platform.processor() or platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "features": [name for name in (*FEATURES, "asimd", "asimddp", "bf16") if name in flags],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def measure_peaks(threads: int) -> dict[str, float]:
    """The peaks, measured in a process of its own whose BLAS has this many threads."""
    limits = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), str(threads)
    )
    found = subprocess.run(
        [sys.executable, str(Path(__file__)), "--threads", str(threads), "--peaks"],
        env={**os.environ, **limits},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    peaks: dict[str, float] = json.loads(found.stdout)
    return peaks


def best_peaks(peaks: Mapping[str, float]) -> tuple[float, float]:
    """(operations a second, bytes a second)."""
    return (
        max(peaks["matmul_flops"], peaks.get("fma_flops", 0.0)),
        max(peaks["copy_bytes"], peaks["read_bytes"]),
    )


def peaks_now(threads: int) -> dict[str, float]:
    """The peaks as this process finds them."""
    fma = fma_flops(threads)
    return {
        "matmul_flops": matmul_flops(),
        **({} if fma is None else {"fma_flops": fma}),
        **memory_bytes(threads),
    }


def matmul_flops() -> float:
    import numpy as np

    left = np.random.default_rng(0).standard_normal((SIDE, SIDE)).astype(np.float32)
    out = np.empty_like(left)
    return 2 * SIDE**3 / fastest([lambda: np.matmul(left, left, out=out)])


def memory_bytes(threads: int) -> dict[str, float]:
    """Bytes a second of all threads together, each on arrays of its own."""
    import numpy as np

    count = ARRAY_BYTES // 4
    pairs = [(np.ones(count, np.float32), np.ones(count, np.float32)) for _ in range(threads)]
    copies = [lambda pair=pair: np.copyto(*pair) for pair in pairs]
    reads = [lambda pair=pair: np.dot(pair[0], pair[0]) for pair in pairs]
    return {
        "copy_bytes": threads * 2 * ARRAY_BYTES / fastest(copies),
        "read_bytes": threads * ARRAY_BYTES / fastest(reads),
    }


def fma_flops(threads: int) -> float | None:
    """Operations a second of fused multiply-adds in registers; None where llvmlite cannot compile."""
    try:
        compiled, lanes = _compile_fma()
    except ImportError:
        return None
    loop = compiled["loop"]
    seconds = fastest([lambda: loop(STEPS)] * threads)
    return threads * 2.0 * lanes * CHAINS * STEPS / seconds


def fma_source(lanes: int) -> str:
    """LLVM IR of a loop of ``CHAINS`` independent multiply-adds on vectors of ``lanes`` floats."""
    vector, chains = f"<{lanes} x float>", range(CHAINS)
    factor = f"<{', '.join(['float 0x3FEFFFFFE0000000'] * lanes)}>"
    phis = [f"  %a{i} = phi {vector} [ %start, %entry ], [ %b{i}, %loop ]" for i in chains]
    products = [
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32"
        f"({vector} %a{i}, {vector} {factor}, {vector} %start)"
        for i in chains
    ]
    sums = [f"  %s{i + 1} = fadd {vector} {f'%s{i}' if i else '%start'}, %b{i}" for i in chains]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            "define float @fma_loop(i64 %count) {",
            "entry:",
            "  %seed = sitofp i64 %count to float",
            f"  %one = insertelement {vector} zeroinitializer, float %seed, i32 0",
            f"  %start = fadd {vector} %one, zeroinitializer",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *phis,
            *products,
            "  %next = add i64 %i, 1",
            "  %more = icmp ult i64 %next, %count",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *sums,
            f"  %sum = extractelement {vector} %s{CHAINS}, i32 0",
            "  ret float %sum",
            "}",
        ]
    )


def _compile_fma() -> tuple[dict[str, Any], int]:
    """The loop, which holds its engine alive, and how many floats a vector of this CPU has."""
    import ctypes

    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(fma_source(lanes)), machine)
    engine.finalize_object()
    address = engine.get_function_address("fma_loop")
    loop = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)
    return {"loop": loop, "engine": engine}, lanes


def fastest(works: Sequence[Callable[[], object]]) -> float:
    """Seconds of the fastest of many repeats of all works at once, each in a thread."""
    end = time.perf_counter() + LEAST_S
    seconds: list[float] = []
    with ThreadPoolExecutor(len(works)) as pool:
        while len(seconds) < REPEATS or time.perf_counter() < end:
            seconds.append(_elapsed(pool, works))
    return min(seconds)


def _elapsed(pool: ThreadPoolExecutor, works: Sequence[Callable[[], object]]) -> float:
    start = time.perf_counter()
    for future in [pool.submit(work) for work in works]:
        future.result()
    return time.perf_counter() - start


def _cpu_facts() -> dict[str, str]:
    """The first processor of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        module = sys.modules.get(package)
        return getattr(module, "__version__", None)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peaks", action="store_true", help="only the peaks, in this process")
    options = parser.parse_args()
    if options.peaks:
        print(json.dumps(peaks_now(options.threads)))
        return
    print(json.dumps({**describe_machine(), "peaks": measure_peaks(options.threads)}, indent=1))


if __name__ == "__main__":
    main()
