"""Timing engines in turn, each in a child process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import burnx.errors
from burnx.cli.bench_engines import Job
from burnx.errors import DeviceError

Progress = Callable[[int, int], None]
Ask = Callable[..., Any]
# python -m burnx.cli.bench_child, finding modules exactly where this process does
_CHILD = (
    "import sys; sys.path[:] = {path!r}; from burnx.cli.bench_child import main; sys.exit(main())"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """``rounds`` turns of each engine, each of ``turn_s`` seconds or one call, a pause before each.

    The pause is there because the threads of an engine may spin on for a while after a call.
    """

    rounds: int
    turn_s: float = 0.3
    pause_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Timing:
    """What one engine took; ``times_ms`` are all timed calls."""

    times_ms: tuple[float, ...]
    load_ms: float
    first_ms: float
    load_cold_ms: float
    first_cold_ms: float
    peak_bytes: int

    @property
    def median_ms(self) -> float:
        return statistics.median(self.times_ms)

    def as_json(self) -> dict[str, Any]:
        return {
            "median_ms": self.median_ms,
            "min_ms": min(self.times_ms),
            "load_ms": self.load_ms,
            "first_ms": self.first_ms,
            "first_cold_ms": self.first_cold_ms,
            "peak_bytes": self.peak_bytes,
            "load_cold_ms": self.load_cold_ms,
            "calls": len(self.times_ms),
        }


def time_engines(jobs: Sequence[Job], plan: Plan, progress: Progress) -> dict[str, Timing]:
    """Time every job: first calls with an empty and a warm kernel cache, then turns A B A B.

    Raises: DeviceError if an engine fails or its process ends.
    """
    total = len(jobs) * (plan.rounds + 2)
    done = iter(range(1, total + 1))
    with tempfile.TemporaryDirectory(prefix="burnx-") as cache, contextlib.ExitStack() as open_now:
        cold: dict[str, Mapping[str, float]] = {}
        for job in jobs:
            with child_process(job, cache) as ask:
                cold[job.engine] = first_calls(ask)
            progress(next(done), total)
        children: dict[str, Ask] = {}
        warm: dict[str, Mapping[str, float]] = {}
        for job in jobs:
            children[job.engine] = open_now.enter_context(child_process(job, cache))
            warm[job.engine] = first_calls(children[job.engine])
            progress(next(done), total)
        times = take_turns(children, plan, lambda: progress(next(done), total))
        peaks = {name: peak_bytes(ask) for name, ask in children.items()}
    return {name: timing(times[name], warm[name], cold[name], peaks[name]) for name in children}


def first_calls(ask: Ask) -> dict[str, float]:
    """Let a child open its model and call it once: {"load_ms", "first_ms"}."""
    return {**ask("load"), **ask("first")}


def take_turns(
    children: Mapping[str, Ask], plan: Plan, after: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """The times of all calls, in ms; ``after`` is called after each turn."""
    times: dict[str, list[float]] = {name: [] for name in children}
    for _ in range(plan.rounds):
        for name, ask in children.items():
            time.sleep(plan.pause_s)
            times[name] += ask("turn", seconds=plan.turn_s)["times_ms"]
            after()
    return times


def peak_bytes(ask: Ask) -> int:
    """How much the peak resident size of a child has grown since its imports."""
    return int(ask("peak")["peak_bytes"])


def timing(
    times_ms: Sequence[float], warm: Mapping[str, float], cold: Mapping[str, float], peak: int
) -> Timing:
    """The figures of one engine; ``warm`` and ``cold`` are what ``first_calls`` gave."""
    return Timing(
        times_ms=tuple(times_ms),
        load_ms=warm["load_ms"],
        first_ms=warm["first_ms"],
        load_cold_ms=cold["load_ms"],
        first_cold_ms=cold["first_ms"],
        peak_bytes=peak,
    )


@contextlib.contextmanager
def child_process(job: Job, cache: str) -> Iterator[Ask]:
    """A child with this job; what is given sends it an order and returns the answer."""
    environment = {**os.environ, "BURNX_THREADS": str(job.threads)}
    if environment.get("BURNX_CACHE") != "off":
        environment["BURNX_CACHE"] = cache
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _CHILD.format(path=sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    try:
        _send(process, asdict(job))

        def ask(order: str, **details: Any) -> Any:
            _send(process, {"do": order, **details})
            return _answer(process, job.engine)

        yield ask
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        process.wait()


def _send(process: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # the missing answer says what happened
        process.stdin.write(f"{json.dumps(message)}\n")
        process.stdin.flush()


def _answer(process: subprocess.Popen[str], engine: str) -> Mapping[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise DeviceError(f"{engine}: its process ended with status {process.wait()}")
    answer: Mapping[str, Any] = json.loads(line)
    if "error" in answer:
        kind = getattr(burnx.errors, answer["kind"], DeviceError)
        raise kind(f"{engine}: {answer['error']}")
    return answer
