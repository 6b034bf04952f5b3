"""One engine in a process of its own: ``python -m burnx.cli.bench_child`` does the same by hand.

It reads one JSON line at a time and answers each with one.  The first line is the job; then come orders:
``{"do": "load"}``, ``{"do": "first"}``, ``{"do": "outputs", "path": "..."}``, ``{"do": "turn", "seconds": 0.3}``,
``{"do": "peak"}``.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnx.cli.bench_engines import ENGINES, Call, Job, listed
from burnx.errors import BurnxError

_STATUS = Path("/proc/self/status")


@dataclass(slots=True)
class Child:
    """A job, its inputs, and what has been opened for it so far."""

    job: Job
    inputs: Mapping[str, Any]
    base_bytes: int = 0
    calls: list[Call] = field(default_factory=list)


def main() -> int:
    """Obey orders until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says that it was interrupted
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an engine prints must not look like an answer
    job = Job(**json.loads(sys.stdin.readline()))
    # written by the parent a moment ago, in a folder of its own
    child = Child(job, pickle.loads(Path(job.inputs).read_bytes()))
    for line in sys.stdin:
        print(json.dumps(_obey(child, json.loads(line))), file=answers, flush=True)
    return 0


def _obey(child: Child, order: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return ORDERS[order["do"]](child, order)
    except BurnxError as error:
        return {"error": str(error), "kind": type(error).__name__}
    except Exception as error:  # whatever an engine raises is its answer
        text = " ".join(str(error).split())[:500]
        return {"error": f"{type(error).__name__}: {text}", "kind": "DeviceError"}


def _load(child: Child, order: Mapping[str, Any]) -> Mapping[str, Any]:
    engine = ENGINES[child.job.engine]
    for module in engine.modules:
        importlib.import_module(module)
    _forget_peak()
    child.base_bytes = _resident("VmRSS")
    start = time.perf_counter_ns()
    child.calls.append(engine.open(child.job, child.inputs))
    return {"load_ms": _since_ms(start)}


def _first(child: Child, order: Mapping[str, Any]) -> Mapping[str, Any]:
    start = time.perf_counter_ns()
    child.calls[0]()
    return {"first_ms": _since_ms(start)}


def _outputs(child: Child, order: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave the outputs of a call, a list in the model's order, pickled in a file of the parent's."""
    values = listed(child.calls[0]())
    Path(order["path"]).write_bytes(pickle.dumps(values))
    return {"outputs": len(values)}


def _turn(child: Child, order: Mapping[str, Any]) -> Mapping[str, Any]:
    """Calls for some seconds, at least one, after one that is not timed."""
    call = child.calls[0]
    call()
    times_ms: list[float] = []
    end = time.perf_counter() + order["seconds"]
    while not times_ms or time.perf_counter() < end:
        start = time.perf_counter_ns()
        call()
        times_ms.append(_since_ms(start))
    return {"times_ms": times_ms}


def _peak(child: Child, order: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"peak_bytes": max(0, _resident("VmHWM") - child.base_bytes)}


ORDERS: dict[str, Callable[[Child, Mapping[str, Any]], Mapping[str, Any]]] = {
    "load": _load,
    "first": _first,
    "outputs": _outputs,
    "turn": _turn,
    "peak": _peak,
}


def _since_ms(start: int) -> float:
    return (time.perf_counter_ns() - start) / 1e6


def _forget_peak() -> None:
    """Let the peak count from here on, where the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _resident(key: str) -> int:
    """A line of the process's status in bytes; 0 where there is none."""
    try:
        match = re.search(rf"^{key}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0


if __name__ == "__main__":
    sys.exit(main())
