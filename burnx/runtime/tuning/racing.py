"""A race: the first candidate is the safe one; another wins if it gives the same numbers in less time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from burnx.errors import BurnxError

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)

RUNS = 7  # of a candidate that stays in the race
WEAK = 2.0  # a candidate that takes so many times as long as the best is not run again
MARGIN = 0.97  # of the first one's time: what is won less than that may be chance
ENOUGH = 0.85  # of what the device could do at best: from there on nothing is looked for


class Trial(Protocol[C_contra]):
    """How a candidate is run."""

    def run(self, candidate: C_contra) -> Any:
        """Run it once from the same start as the others; what it has written.

        Raises: BurnxError if there is no such code for this device.
        """

    def agrees(self, expected: Any, found: Any) -> bool:
        """Whether two candidates have written the same numbers."""

    def time(self, candidate: C_contra) -> int:
        """Nanoseconds of a run."""


@dataclass(frozen=True, slots=True)
class Lap(Generic[C]):
    """What became of a candidate: its best time, and "won", "slower", "weak", "wrong", "failed" or "not run"."""

    candidate: C
    elapsed_ns: int | None
    verdict: str


@dataclass(slots=True)
class Outcome(Generic[C]):
    """``laps`` are in the order of the candidates."""

    best: C
    best_ns: int
    laps: list[Lap[C]] = field(default_factory=list)


def race(candidates: Sequence[C], trial: Trial[C], least_ns: float = 0.0) -> Outcome[C]:
    """The fastest of the candidates; ``least_ns`` is what the device would take at its best, 0 if not known.

    Raises: BurnxError if the first candidate cannot be run.
    """
    first, *others = candidates
    expected = trial.run(first)
    first_ns = _time(first, trial, None, least_ns)
    best, best_ns = first, first_ns
    laps: list[Lap[C]] = [Lap(first, first_ns, "slower")]
    for each in others:
        if _is_enough(best_ns, least_ns):
            laps.append(Lap(each, None, "not run"))
            continue
        verdict = _examine(each, trial, expected)
        if verdict:
            laps.append(Lap(each, None, verdict))
            continue
        spent = _time(each, trial, best_ns, least_ns)
        laps.append(Lap(each, spent, "weak" if spent > WEAK * best_ns else "slower"))
        if spent < min(best_ns, MARGIN * first_ns):
            best, best_ns = each, spent
    won = [
        Lap(lap.candidate, lap.elapsed_ns, "won") if lap.candidate is best else lap for lap in laps
    ]
    return Outcome(best, best_ns, won)


def _is_enough(elapsed_ns: int, least_ns: float) -> bool:
    """Whether there is little left to win.  Less than the least says that it does not hold here: data in a cache."""
    return least_ns <= elapsed_ns <= least_ns / ENOUGH


def _examine(candidate: C, trial: Trial[C], expected: Any) -> str:
    """Why a candidate is out of the race; empty if it is not."""
    try:
        found = trial.run(candidate)
    except BurnxError:
        return "failed"
    return "" if trial.agrees(expected, found) else "wrong"


def _time(candidate: C, trial: Trial[C], best_ns: int | None, least_ns: float) -> int:
    """The least of several runs; of few, if the candidate is weak or as fast as can be."""
    least = trial.time(candidate)
    for run in range(1, RUNS):
        weak = best_ns is not None and run >= 2 and least > WEAK * best_ns
        if weak or (run >= 2 and _is_enough(least, least_ns)):
            break
        least = min(least, trial.time(candidate))
    return least
