"""Run real models on burnx and compare every route with onnxruntime.

    python tests/models/run_models.py [-k REGEX] [--route run,source,roundtrip] [--device cpu]
                                      [--json FILE] [--all] [--timeout SECONDS]

One line a model and route: status, route, seconds, largest relative error.  Statuses: pass,
wrong, error, crash, timeout, unfetched (the file cannot be had here, which is no pass), within
onnxruntime's own spread (off, as spread.py explains, which is counted apart from a pass).  Each
step is a process of its own; onnxruntime is asked once a model.  Exit status 1 if anything that
could be fetched falls short, or nothing could be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import models
from routes import ROUTES
from spread import WITHIN

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BEFORE = {"run": ("expected",), "source": ("expected", "import")}
BEFORE["roundtrip"] = BEFORE["source"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a model fared on a route, or at a step on the way there."""

    model: str
    step: str
    status: str
    detail: str
    seconds: float
    error: float | None

    def line(self) -> str:
        error = "-" if self.error is None else f"{self.error:.1e}"
        detail = f"  {' '.join(self.detail.split())[:300]}" if self.detail else ""
        return (
            f"{self.status:9} {self.step:9} {self.seconds:7.2f}s {error:>8}  {self.model}{detail}"
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """A model on a device, with a folder that holds what its steps leave behind."""

    entry: Mapping[str, Any]
    folder: Path
    device: str = "cpu"
    timeout: float = 600.0

    @property
    def name(self) -> str:
        return str(self.entry["name"])


def stage_one() -> list[dict[str, Any]]:
    """The models that have to pass on every route."""
    return [entry for entry in models.entries().values() if entry.get("stage") == 1]


def take(trial: Trial, step: str) -> Outcome:
    """A step's outcome; a step is taken once in a folder."""
    record = trial.folder / f"{step}.json"
    if not record.exists():
        record.write_text(json.dumps(spawn(trial, step, record)))
    return Outcome(trial.name, step, **json.loads(record.read_text()))


def spawn(trial: Trial, step: str, record: Path) -> dict[str, Any]:
    """Take a step in a process of its own; its record, or how it ended without one."""
    arguments = [step, trial.name, str(trial.folder), trial.device]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    failed: dict[str, Any] = {"seconds": trial.timeout, "error": None}
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "routes.py"), *arguments],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=trial.timeout,
        )
    except subprocess.TimeoutExpired:
        return failed | {"status": "timeout", "detail": f"no end within {trial.timeout:g} s"}
    if record.exists():
        return dict(json.loads(record.read_text()))
    detail = f"{step} ended with status {done.returncode}: {done.stderr[-300:]}"
    return failed | {"status": "crash", "detail": detail, "seconds": 0.0}


def judge(trial: Trial, route: str) -> Outcome:
    """How a model fares on a route; what fails before the route is the route's failure."""
    for step in BEFORE[route]:
        outcome = take(trial, step)
        if outcome.status != "pass":
            detail = f"{step}: {outcome.detail}"
            return Outcome(
                trial.name, route, outcome.status, detail, outcome.seconds, outcome.error
            )
    return take(trial, route)


def outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    """Every chosen model on every chosen route."""
    listed = list(models.entries().values()) if options.all else stage_one()
    for entry in listed:
        if not re.search(options.k, entry["name"]):
            continue
        with tempfile.TemporaryDirectory(prefix="models-") as folder:
            trial = Trial(entry, Path(folder), options.device, options.timeout)
            for route in options.route.split(","):
                yield judge(trial, route)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-k", default="", metavar="REGEX", help="only models whose name matches")
    parser.add_argument("--route", default=",".join(ROUTES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--all", action="store_true", help="later models too, not stage 1 only")
    parser.add_argument("--timeout", type=float, default=600.0, help="of each step, in seconds")
    options = parser.parse_args(arguments)
    unknown = set(options.route.split(",")) - set(ROUTES)
    if unknown:
        parser.error(f"routes are {', '.join(ROUTES)}; found {', '.join(sorted(unknown))}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    results = []
    for outcome in outcomes(options):
        results.append(outcome)
        print(outcome.line(), flush=True)
    totals = Counter(outcome.status for outcome in results)
    print(", ".join(f"{count} {status}" for status, count in sorted(totals.items())) or "none")
    if options.json is not None:
        record = {"totals": dict(totals), "results": [asdict(outcome) for outcome in results]}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if totals["pass"] and set(totals) <= {"pass", "unfetched", WITHIN} else 1


if __name__ == "__main__":
    sys.exit(main())
