"""What a call costs when there is nothing to compute: a model that adds four numbers.

python benchmarks/overhead.py [--threads 2] [--rounds 7] [--engines burnx,onnxruntime] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measuring import ENGINES, Settings, measure_file, usable_engines
from results_table import aligned

from burnx.cli.bench_turns import Plan

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
add (float[4] x, float[4] y) => (float[4] z) { z = Add(x, y) }
"""


def write_model(folder: Path) -> Path:
    """The model as a file."""
    from onnx import parser

    path = folder / "add.onnx"
    path.write_bytes(parser.parse_model(MODEL).SerializeToString())
    return path


def measure_overhead(settings: Settings) -> dict[str, dict[str, Any]]:
    """The figures of each engine for the model."""
    inputs = {name: np.arange(4, dtype=np.float32) for name in ("x", "y")}
    with tempfile.TemporaryDirectory(prefix="burnx-") as folder:
        return measure_file(str(write_model(Path(folder))), inputs, settings)


def overhead_table(figures: dict[str, dict[str, Any]]) -> str:
    rows = [["engine", "median µs", "min µs", "calls"]]
    for name, row in figures.items():
        times = (f"{row[key] * 1e3:.2f}" for key in ("median_ms", "min_ms"))
        rows.append([name, *times, str(row["calls"])])
    return aligned(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    engines = usable_engines(options.engines.split(","), lambda text: print(text, file=sys.stderr))
    plan = Plan(options.rounds, turn_s=0.1, pause_s=0.1)
    figures = measure_overhead(Settings(engines, options.threads, plan))
    print(overhead_table(figures))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
