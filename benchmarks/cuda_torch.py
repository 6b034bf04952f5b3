"""burnx beside PyTorch on a CUDA device: eager and torch.compile(mode="reduce-overhead"), in one run and in turn.

    python benchmarks/cuda_torch.py [--models REGEX] [--dtypes fp32,fp16] [--batches 1,32] [--json FILE]
                              [--engines eager,compile,burnx] [--device cuda:0] [--rounds 5] [--files FOLDER]

A row is printed as soon as it is there; one that fails says why, and the next goes on.  Milliseconds are medians of
calls that include synchronisation, inputs and outputs on the device.  ``cold`` is opening the file and the first call
with empty caches, ``warm`` the same with the caches that it left; ``first`` is the first call of torch.compile.
Float32 is measured without TF32 on either side (PyTorch's convolutions use it by default, burnx nothing unasked), and with
``--tf32`` in further rows in TF32 on both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_models import DTYPES, SUBJECTS

HERE = Path(__file__).parent
MARK = "ROW "
ENGINES = ("eager", "compile", "burnx", "burnx from torch")
Row = dict[str, Any]
HEAD = (
    "model         dtype batch    eager  compile    burnx  ×eager ×compile     cold     warm    "
    "first  apart"
)


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="burnx-cuda-") as scratch:
        files = Path(options.files or scratch)
        started = time.perf_counter()
        failures = _export_all(_wanted(options), files, options)
        print(f"exported in {time.perf_counter() - started:.0f} s", flush=True)
        for name, reason in failures.items():
            print(f"{name}: not exported: {reason}", flush=True)
        rows = [{**row, "scratch": scratch} for row in _rows(options, files)]
        print(HEAD, flush=True)
        machine, results = _machine(), []
        for found in _measure_all(rows, options):
            results.append(found)
            print(_line(found), flush=True)
            if (
                options.json is not None
            ):  # after each row: a machine that is taken away loses no row
                report = {"machine": machine, "rows": results}
                options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if results and not any(row.get("errors") for row in results) else 1


# --- what is measured -----------------------------------------------------------------------------------------------
def _wanted(options: argparse.Namespace) -> list[tuple[str, str]]:
    names = [name for name in SUBJECTS if re.search(options.models, name)]
    return [(name, dtype) for name in names for dtype in options.dtypes.split(",")]


def _file(files: Path, name: str, dtype: str) -> Path:
    return files / f"{name}.{dtype}.onnx"


def _export_all(
    wanted: Sequence[tuple[str, str]], files: Path, options: argparse.Namespace
) -> dict[str, str]:
    """Write the files that are not there, side by side; what failed, and why."""
    files.mkdir(parents=True, exist_ok=True)
    script, running = str(HERE / "cuda_models.py"), {}
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2"}
    failures: dict[str, str] = {}
    for name, dtype in wanted:
        path = _file(files, name, dtype)
        if not path.exists():
            command = [sys.executable, script, name, dtype, str(path)]
            pipe = subprocess.PIPE
            running[f"{name} {dtype}"] = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=pipe, text=True, env=environment
            )
        if len(running) >= options.jobs:
            failures |= _await(running)
    return failures | _await(running)


def _await(running: dict[str, subprocess.Popen[str]]) -> dict[str, str]:
    failures = {}
    for name, process in running.items():
        _, said = process.communicate()
        if process.returncode:
            failures[name] = (said.strip().splitlines() or ["no word"])[-1][:300]
    running.clear()
    return failures


def _rows(options: argparse.Namespace, files: Path) -> Iterator[Row]:
    shared = {
        "engines": [name.strip() for name in options.engines.split(",")],
        "device": options.device,
        "torch_device": "cuda" if options.device.startswith("cuda") else "cpu",
        "rounds": options.rounds,
        "turn_s": options.turn_s,
        "tf32": False,
    }
    if options.launches:
        yield {"kind": "launches", "model": "launches", "dtype": "fp32", "batch": 1, **shared}
    for name, dtype in _wanted(options):
        path = _file(files, name, dtype)
        for batch in map(int, options.batches.split(",")):
            row = {"kind": "model", "model": name, "dtype": dtype, "batch": batch}
            for tf32 in (False, True) if options.tf32 and dtype == "fp32" else (False,):
                if path.exists():
                    yield {**row, "file": str(path), **shared, "tf32": tf32, "one_sided": False}


def _measure_all(rows: Sequence[Row], options: argparse.Namespace) -> Iterator[Row]:
    """The rows, in a process that is replaced after a row that failed: a device's error stays with a process.

    Rows in TF32 come last, in processes of their own.
    """
    left = sorted(rows, key=lambda row: bool(row["tf32"]))
    deadline = time.monotonic() + options.limit_s
    while left and time.monotonic() < deadline:
        alike = [row for row in left if row["tf32"] == left[0]["tf32"]]
        process = subprocess.Popen(
            [sys.executable, str(HERE / "cuda_rows.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"BURNX_TF32": str(int(left[0]["tf32"]))},
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(alike))
        process.stdin.close()
        done = 0
        for line in process.stdout:
            if not line.startswith(MARK):
                continue
            found: Row = json.loads(line[len(MARK) :])
            done += 1
            yield found
            if found["errors"] or time.monotonic() > deadline:
                break
        process.kill()
        process.wait()
        if done == 0:
            done = 1
            yield {**left[0], "errors": {"row": f"its process ended: {process.returncode}"}}
        left = left[done:]
    for row in left:
        yield {**row, "errors": {"row": f"not measured: over {options.limit_s:g} s"}}


# --- what is shown --------------------------------------------------------------------------------------------------
def _line(row: Row) -> str:
    if row["kind"] == "launches" and "per_kernel_us" in row:
        kernels = " and ".join(map(str, row["kernels"]))
        return f"a replayed kernel with nothing to do: {row['per_kernel_us']:.2f} µs ({kernels} kernels)"
    medians = {name: row[name]["median_ms"] for name in ENGINES if name in row}
    own = medians.get("burnx")
    ratios = [
        f"{medians[name] / own:8.2f}" if own and name in medians else "       -"
        for name in ("eager", "compile")
    ]
    times = [_number(medians.get(name)) for name in ("eager", "compile", "burnx")]
    starts = [
        _number(row.get(f"{key}_ms")) for key in ("burnx_cold", "burnx_warm", "compile_first")
    ]
    apart = row.get("difference", {}).get("burnx")
    shown = "-" if apart is None else f"{apart:.1e}"
    wrong = "" if row.get("agrees", {}).get("burnx", True) else " WRONG"
    dtype = "tf32" if row["tf32"] else row["dtype"]
    head = f"{row['model']:13} {dtype} {row['batch']:5}"
    errors = "".join(f"\n    {name}: {text}" for name, text in row.get("errors", {}).items())
    return " ".join([head, *times, *ratios, *starts, f"{shown:>6}"]) + wrong + errors


def _number(value: float | None) -> str:
    return "       -" if value is None else f"{value:8.3f}" if value < 1000 else f"{value:8.0f}"


def _machine() -> Mapping[str, Any]:
    import importlib.metadata as metadata

    versions = {}
    for name in ("torch", "cupy-cuda13x", "cupy-cuda12x", "onnx", "torchvision", "transformers"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    import burnx

    listed = [f"{each.name}: {each.about}, {each.driver}" for each in burnx.devices()]
    return {"versions": versions, "devices": listed, "burnx": burnx.__version__}


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default="", metavar="REGEX")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--engines", default="eager,compile,burnx,burnx from torch")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn-s", type=float, default=0.1)
    parser.add_argument("--limit-s", type=float, default=460.0, help="start no row after this")
    parser.add_argument("--jobs", type=int, default=8, help="exports side by side")
    parser.add_argument("--files", metavar="FOLDER", help="keep the ONNX files here")
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--tf32", action="store_true", help="float32 also in TF32 on both sides")
    parser.add_argument("--launches", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
