"""Inputs that are made up until the model takes them: sizes that nothing sets grow where the smallest do not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from burnx.cli.console import Console
from burnx.cli.dims import AS_SMALL_AS_CAN_BE, BATCHES, OTHERS, Growth
from burnx.cli.spec import GrownTooLarge, Inputs
from burnx.errors import BurnxError, ModelError, ShapeError, VerifyError

Result = TypeVar("Result")
SIZES = (
    16,
    64,
    256,
    576,
)  # a few words; a picture in small; frames of sound and a context beside them
LONGEST_REASON = 240
DOES_NOT_FIT = (ModelError, ShapeError, VerifyError)


def attempt_inputs(
    read: Callable[[Growth], Inputs],
    attempt: Callable[[Mapping[str, Any]], Result],
    console: Console,
) -> tuple[dict[str, Any], Result]:
    """Inputs that ``attempt`` runs through with, and what it gives for them; stderr hears what was made up.

    Sizes that nothing sets are 1, or, where that ends in an error, the least of ``SIZES`` that does not.
    Raises: the error with sizes of 1 if it is none of them.
    """
    smallest = read(AS_SMALL_AS_CAN_BE)
    try:
        result = attempt(smallest.values)
    except DOES_NOT_FIT as error:
        grown = _grown(read, attempt, smallest.open)
        if grown is None:
            say_made_up(smallest, console)
            raise
        growth, inputs, result = grown
        console.notice(_why(growth, error))
        say_made_up(inputs, console)
        return inputs.values, result
    say_made_up(smallest, console)
    return smallest.values, result


def try_inputs(
    read: Callable[[Growth], Inputs], trial: Callable[[Mapping[str, Any]], Any], console: Console
) -> dict[str, Any]:
    """Inputs that ``trial`` runs through with; it is only made where a size is open."""
    inputs = read(AS_SMALL_AS_CAN_BE)
    if inputs.open:
        return attempt_inputs(read, trial, console)[0]
    say_made_up(inputs, console)
    return inputs.values


def say_made_up(inputs: Inputs, console: Console) -> None:
    """Let stderr hear what was made up."""
    for note in inputs.notes:
        console.notice(note)
    console.made_up = console.made_up or bool(inputs.notes)


def _grown(
    read: Callable[[Growth], Inputs],
    attempt: Callable[[Mapping[str, Any]], Result],
    kinds: frozenset[str],
) -> tuple[Growth, Inputs, Result] | None:
    """The first larger sizes that do, the inputs that have them, and what came of these."""
    for growth in _growths(kinds):
        try:
            inputs = read(growth)
            return growth, inputs, attempt(inputs.values)
        except GrownTooLarge:
            continue
        except DOES_NOT_FIT:
            continue
    return None


def _growths(kinds: frozenset[str]) -> Iterator[Growth]:
    """Larger sizes, of what is no batch first."""
    if OTHERS in kinds:
        yield from map(Growth, SIZES)
    if BATCHES in kinds:
        yield from (Growth(size, batches=True) for size in SIZES)


def _why(growth: Growth, error: BurnxError) -> str:
    what = "sizes that nothing sets" if growth.batches else "sizes that nothing sets, but batches,"
    reason = str(error)
    short = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}…"
    return f"{what} are {growth.size} here, since the model fails with 1: {short}"
