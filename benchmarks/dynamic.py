"""Many random shapes through one dynamic model: nothing is compiled again, and memory stays flat.

    python benchmarks/dynamic.py [--model distilbert_base.ts] [--shapes 1000] [--warm 50] [--size NAME=LOW-HIGH ...]
                                 [--compare 20] [--threads 2] [--json FILE]

The first call has the largest sizes, so that every buffer has its largest size early.  Exit status 1 if kernels were
built after the warm-up, if resident memory grew, or if outputs differ from onnxruntime's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from listed_models import models_module

from burnx.cli.spec import read_inputs

Sizes = dict[str, tuple[int, int]]
FIRST, OTHER = (1, 4), (1, 160)  # usual sizes of the first axis, and of every other
SLACK_BYTES = 16 << 20  # what an allocator may keep or give back from call to call


@dataclass(frozen=True, slots=True)
class State:
    """What may not grow: kernels by the device's own count where it keeps one, kept ones, memory."""

    compiled: int | None
    kept: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """Times of all calls after the warm-up, in ms, and the state before and after them."""

    times_ms: tuple[float, ...]
    warm: State
    end: State
    peak_bytes: int

    @property
    def growth_bytes(self) -> int:
        """How much more was resident at any time than after the warm-up."""
        return self.peak_bytes - self.warm.resident_bytes


def compiled_kernels() -> int | None:
    """How many kernels this process has compiled: ``burnx.runtime.devices.cpu.compiled_kernels()``.

    None if the device keeps no such count.
    """
    count = getattr(importlib.import_module("burnx.runtime.devices.cpu"), "compiled_kernels", None)
    return None if count is None else int(count())


def state(cache: Path) -> State:
    kept = sum(1 for path in cache.rglob("*") if path.is_file())
    return State(compiled_kernels(), kept, resident_bytes())


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_sizes(declared: Sequence[Any], asked: Mapping[str, tuple[int, int]]) -> Sizes:
    """The least and largest size of every named dimension of a model's inputs.

    Raises: SystemExit if the model has none, or not one that was asked for.
    """
    sizes: Sizes = {}
    for value in declared:
        for axis, dim in enumerate(value.dims or ()):
            if isinstance(dim, str) and dim.isidentifier():
                sizes.setdefault(dim, FIRST if axis == 0 else OTHER)
    strange = sorted(asked.keys() - sizes.keys())
    if strange or not sizes:
        names = ", ".join(sizes) or "none"
        raise SystemExit(f"the model's named dimensions are {names}; asked for {strange}")
    return {**sizes, **asked}


def parse_size(text: str) -> tuple[str, tuple[int, int]]:
    """NAME=LOW-HIGH."""
    found = re.fullmatch(r"(\w+)=(\d+)-(\d+)", text)
    if found is None or int(found[2]) > int(found[3]):
        raise argparse.ArgumentTypeError(f"a size is NAME=LOW-HIGH, found {text!r}")
    return found[1], (int(found[2]), int(found[3]))


def shapes(sizes: Sizes, count: int) -> list[dict[str, int]]:
    """The largest sizes, then random ones; the same every time."""
    random = np.random.default_rng(0)
    largest = {name: high for name, (_, high) in sizes.items()}
    others = [
        {name: int(random.integers(low, high + 1)) for name, (low, high) in sizes.items()}
        for _ in range(count - 1)
    ]
    return [largest, *others]


def run_shapes(model: Any, dims: Sequence[dict[str, int]], warm: int, cache: Path) -> Run:
    """Call the model with every shape."""
    times, peak = [], 0
    before = state(cache)
    for number, sizes in enumerate(dims):
        inputs = read_inputs((), model.inputs, sizes, number).values
        start = time.perf_counter_ns()
        model.run(inputs)
        times.append((time.perf_counter_ns() - start) / 1e6)
        if number + 1 == warm:
            before, peak = state(cache), 0
        peak = max(peak, resident_bytes())
    return Run(tuple(times[warm:]), before, state(cache), peak)


def faults(run: Run) -> list[str]:
    """What is not as it should be."""
    found = []
    if run.end.compiled != run.warm.compiled:
        found.append(f"{run.end.compiled} kernels compiled, {run.warm.compiled} after the warm-up")
    if run.end.kept != run.warm.kept:
        found.append(f"{run.end.kept} files in the cache, {run.warm.kept} after the warm-up")
    if run.growth_bytes > SLACK_BYTES:
        found.append(f"resident memory grew by {run.growth_bytes / 1e6:.1f} MB")
    return found


def differing(model: Any, path: Path, dims: Sequence[dict[str, int]]) -> list[str]:
    """The shapes at which the outputs are not those of onnxruntime."""
    from burnx.agreement.tolerance import close
    from burnx.conformance.engines import open_onnxruntime

    ask = open_onnxruntime(str(path))
    found = []
    for number, sizes in enumerate(dims):
        inputs = read_inputs((), model.inputs, sizes, number).values
        expected, actual = ask(inputs), model.run(inputs)
        difference = close(list(expected.values()), list(actual.values()))
        found += [] if difference is None else [f"{sizes}: {difference}"]
    return found


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="distilbert_base.ts", help="a listed model, or a file")
    parser.add_argument("--shapes", type=int, default=1000)
    parser.add_argument("--warm", type=int, default=50, help="calls before the state is kept")
    parser.add_argument("--size", type=parse_size, action="append", default=[])
    parser.add_argument("--compare", type=int, default=20, help="shapes compared with onnxruntime")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not 1 <= options.warm < options.shapes:
        parser.error("--warm is at least 1 and less than --shapes")
    return options


def model_path(name: str) -> Path:
    if Path(name).suffix == ".onnx":
        return Path(name)
    models = models_module()
    path: Path = models.path(models.entries()[name])
    return path


def main() -> int:
    options = parse_options()
    os.environ["BURNX_THREADS"] = str(options.threads)
    with tempfile.TemporaryDirectory(prefix="burnx-") as folder:
        os.environ["BURNX_CACHE"] = folder
        from burnx import api

        path = model_path(options.model)
        model = api.load(str(path))
        sizes = open_sizes(model.inputs, dict(options.size))
        dims = shapes(sizes, options.shapes)
        run = run_shapes(model, dims, options.warm, Path(folder))
    found = faults(run) + differing(model, path, dims[: options.compare])
    report(options.model, sizes, run)
    for text in found:
        print(f"WRONG: {text}")
    if options.json is not None:
        text = json.dumps({**asdict(run), "sizes": sizes, "faults": found}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    return int(bool(found))


def report(name: str, sizes: Sizes, run: Run) -> None:
    ranges = ", ".join(f"{dim} {low} to {high}" for dim, (low, high) in sizes.items())
    print(f"{name}, {len(run.times_ms)} random shapes after the warm-up: {ranges}")
    print(f"ms a call: median {statistics.median(run.times_ms):.3f}, most {max(run.times_ms):.3f}")
    counted = run.end.compiled if run.end.compiled is not None else "not counted"
    print(f"kernels compiled: {counted}; files in the cache: {run.end.kept}")
    now, growth = run.end.resident_bytes / 1e6, run.growth_bytes / 1e6
    print(f"resident: {now:.1f} MB at the end, at most {growth:.1f} MB over the warm-up")


if __name__ == "__main__":
    sys.exit(main())
