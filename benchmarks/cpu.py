"""Every benchmark model on burnx, onnxruntime, OpenVINO and PyTorch, on the CPU.

    python benchmarks/cpu.py [--models REGEX] [--engines burnx,onnxruntime,openvino,torch] [--threads 2]
                             [--rounds N] [--quick] [--json FILE]

Results of a whole run go to benchmarks/results/cpu-DATE.json, which tools/update_readme.py puts into the README;
those of a part, of --quick or without burnx go nowhere unless --json says where.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from listed_models import Entry, bench_entries
from machine import best_peaks, describe_machine, measure_peaks
from measuring import ENGINES, Settings, measure_model, usable_engines
from overhead import measure_overhead, overhead_table
from results_table import summarise, summary_lines, text_table

from burnx.cli.bench_turns import Plan

RESULTS = Path(__file__).resolve().parent / "results"
USUAL = Plan(rounds=15, turn_s=0.2, pause_s=0.1)
QUICK = Plan(rounds=2, turn_s=0.05, pause_s=0.05)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="", metavar="REGEX", help="those it is found in")
    parser.add_argument("--engines", default=",".join(ENGINES), help="in the order of their turns")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help=f"turns of each engine ({USUAL.rounds})")
    parser.add_argument("--quick", action="store_true", help="few and short turns, to try it out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    options = parser.parse_args(arguments)
    options.engines = options.engines.split(",")
    unknown = sorted(set(options.engines) - set(ENGINES))
    if unknown:
        parser.error(f"an engine is one of {', '.join(ENGINES)}; found {', '.join(unknown)}")
    if options.threads < 1 or (options.rounds is not None and options.rounds < 1):
        parser.error("--threads and --rounds are at least 1")
    return options


def plan_for(options: argparse.Namespace) -> Plan:
    """How often and how long is measured."""
    plan = QUICK if options.quick else USUAL
    return Plan(options.rounds or plan.rounds, plan.turn_s, plan.pause_s)


def target_file(options: argparse.Namespace, date: str) -> Path | None:
    """Where the results go; None if nowhere."""
    if options.json is not None:
        return Path(options.json)
    whole = not options.quick and not options.models and "burnx" in options.engines
    return RESULTS / f"cpu-{date}.json" if whole else None


def measure_all(entries: Sequence[Entry], settings: Settings) -> dict[str, Any]:
    """The results of all models; stderr hears of each one when it is done."""
    models: dict[str, Any] = {}
    for number, entry in enumerate(entries, 1):
        name = entry["name"]
        try:
            models[name] = measure_model(entry, settings)
        except (
            Exception
        ) as error:  # a model that cannot be had or measured is no reason to lose the others
            say(f"{name}: {type(error).__name__}: {error}")
            continue
        times = (f"{key} {row['median_ms']:.3f}" for key, row in models[name]["engines"].items())
        say(f"{number}/{len(entries)} {name}: {', '.join(times)} ms")
    return models


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = parse_options()
    settings = Settings(usable_engines(options.engines, say), options.threads, plan_for(options))
    entries = bench_entries(options.models)
    if not entries:
        say(f"--models {options.models!r} is found in no name of a benchmark model")
        return 2
    machine = describe_machine()
    peaks = measure_peaks(options.threads)
    overhead = measure_overhead(settings)
    models = measure_all(entries, settings)
    later = measure_peaks(options.threads)  # others may have used the CPUs the first time
    peaks = {name: max(peak, later.get(name, 0.0)) for name, peak in peaks.items()}
    date = dt.date.today().isoformat()
    results = {
        "date": date,
        "threads": options.threads,
        "rounds": settings.plan.rounds,
        "machine": {**machine, "load_average_after": describe_machine()["load_average"]},
        "peaks": peaks,
        "best_peaks": best_peaks(peaks),
        "overhead": overhead,
        "models": models,
        "summary": summarise(models),
    }
    print(text_table(models, best_peaks(peaks)))
    print("\n".join(["", *summary_lines(models), "", overhead_table(overhead)]))
    target = target_file(options, date)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        say(f"wrote {target}")
    return 0 if len(models) == len(entries) else 1


if __name__ == "__main__":
    sys.exit(main())
