"""What ``--tune`` wins on a device, and with what: burnx's own forms, or products of a library.

    python benchmarks/tuned.py FILE.onnx... [--device cuda:0] [--dim batch=32] [--rounds 5] [--json FILE]

Median ms of calls on arrays that lie on the device, before and after tuning, in turn; how long tuning takes; how many
kernels with a race took which kind of form.  Exit status 1 if outputs differ by more than the tolerance of their dtype.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

NEAR = {"float16": 3e-2, "bfloat16": 1e-1}  # of the largest magnitude; float32: 2e-3
CALLS = 10
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    print(
        f"{'model':24} {'plain':>9} {'tuned':>9}  ratio {'tuning s':>9} {'apart':>8}  forms",
        flush=True,
    )
    rows = []
    for file in options.files:
        with tempfile.TemporaryDirectory(prefix="burnx-tuned-") as folder:
            os.environ["BURNX_CACHE"] = folder
            rows.append(_measure(file, options, Path(folder)))
        print(_line(rows[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["near"] for row in rows) else 1


def _measure(file: str, options: argparse.Namespace, folder: Path) -> Row:
    import burnx
    from burnx.cli.options import parse_dim
    from burnx.cli.spec import read_inputs

    where = burnx.Device(options.device)
    plain = burnx.load(file, device=where)
    made = read_inputs((), plain.inputs, dict(map(parse_dim, options.dim)), 0).values
    given = {name: where.put(value) for name, value in made.items()}
    expected = _on_host(plain.run(given))
    tuned = burnx.load(file, device=where, tune=True)
    began = time.perf_counter()
    tuned.run(given)
    tuning_s = time.perf_counter() - began
    found = _on_host(tuned.run(given))
    times = _take_turns([lambda: plain.run(given), lambda: tuned.run(given)], options.rounds, where)
    apart, near = _compare(expected, found)
    return {
        "model": Path(file).stem,
        "plain_ms": times[0],
        "tuned_ms": times[1],
        "tuning_s": tuning_s,
        "apart": apart,
        "near": near,
        "forms": dict(_count_forms(folder)),
    }


def _take_turns(calls: Sequence[Callable[[], Any]], rounds: int, where: Any) -> list[float]:
    from burnx.runtime.devices.gpu import find_driver

    driver = find_driver(where.name)
    spent: list[list[float]] = [[] for _ in calls]
    for call in [*calls, *calls, *calls]:
        call()
    for _ in range(rounds):
        for call, times in zip(calls, spent, strict=True):
            call()
            driver.finish()
            for _ in range(CALLS):
                began = time.perf_counter()
                call()
                driver.finish()
                times.append((time.perf_counter() - began) * 1e3)
    return [statistics.median(times) for times in spent]


def _on_host(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value.numpy()) for name, value in outputs.items()}


def _compare(expected: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[float, bool]:
    """(the largest difference as a share of the largest magnitude, whether all are near)."""
    worst, near = 0.0, True
    for name, value in expected.items():
        one, two = value.astype(np.float64), found[name].astype(np.float64)
        apart = float(np.abs(one - two).max() / max(np.abs(one).max(), 1e-30))
        worst, near = max(worst, apart), near and apart <= NEAR.get(value.dtype.name, 2e-3)
    return worst, near


def _count_forms(folder: Path) -> Counter[str]:
    """How many races each kind of form has won."""
    kinds: Counter[str] = Counter()
    for file in (folder / "tuning").glob("*.json"):
        text = file.read_bytes().decode("latin1")
        if '{"form"' not in text:
            continue
        found = json.loads(text[text.index('{"form"') :])["form"]
        whole = found["kind"] != "library" or not found["group"]
        kinds[found["kind"] + ("" if whole else " and a kernel")] += 1
    return kinds


def _line(row: Row) -> str:
    forms = ", ".join(f"{count} {kind}" for kind, count in sorted(row["forms"].items()))
    ratio = row["plain_ms"] / row["tuned_ms"]
    wrong = "" if row["near"] else " WRONG"
    return (
        f"{row['model'][:24]:24} {row['plain_ms']:9.3f} {row['tuned_ms']:9.3f} {ratio:6.2f} "
        f"{row['tuning_s']:9.1f} {row['apart']:8.1e}  {forms}{wrong}"
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE.onnx")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
