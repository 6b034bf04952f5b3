"""One program on the cpu device, fused and unfused, with one thread and several, and on the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from burnx.agreement.tolerance import close
from burnx.dtype import is_float
from burnx.errors import BurnxError
from burnx.program import Program
from burnx.runtime.devices.cpu.runner import Runner
from burnx.runtime.devices.reference.interpreter import Interpreter
from tests.unit.cpu.guarded import guarded_copy, guarded_memory

Array = np.ndarray[Any, Any]
PLANS = "burnx.runtime.devices.cpu.plans"


@contextmanager
def eager_threads() -> Iterator[None]:
    """Small work is shared among threads, too."""
    with mock.patch(f"{PLANS}.SOLO_WORK", 0), mock.patch(f"{PLANS}.ALONE_WORK", 0):
        yield


def run(runner: Any, program: Program, inputs: Sequence[Array]) -> list[Array] | BurnxError:
    """The outputs, or the error."""
    try:
        return [np.asarray(each) for each in runner.run(program, list(inputs))]
    except BurnxError as error:
        return error


def compare(
    expected: list[Array] | BurnxError, found: list[Array] | BurnxError, exact: Sequence[bool]
) -> str | None:
    """How two results differ."""
    if isinstance(expected, BurnxError) or isinstance(found, BurnxError):
        same = type(expected) is type(found)
        return None if same else f"expected {expected!r}, found {found!r}"
    for place, (one, two) in enumerate(zip(expected, found, strict=True)):
        strict = exact[place]
        difference = close(one, two, *((0.0, 0.0) if strict and is_float(one.dtype) else ()))
        if difference is not None:
            return f"output {place}{' (exact)' if strict else ''}: {difference}"
    return None


def same_bits(one: list[Array] | BurnxError, two: list[Array] | BurnxError) -> bool:
    if isinstance(one, BurnxError) or isinstance(two, BurnxError):
        return type(one) is type(two)
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


def check_guarded(program: Program, inputs: Sequence[Array], **options: Any) -> Any:
    """The results with forbidden pages around all memory: who leaves it ends the process."""
    with guarded_memory():
        safe = [guarded_copy(np.asarray(each)) for each in inputs]
        return run(Runner(**options), program, safe)


class Contest:
    """The runners of one program."""

    def __init__(self, program: Program, exact: Sequence[bool]) -> None:
        self.program, self.exact = program, exact
        self.reference = Interpreter()
        self.runners = {
            "fused": Runner(threads=1),
            "unfused": Runner(threads=1, fuse=False),
        }
        self.crowds = {count: Runner(threads=count) for count in (2, 3)}

    def check(self, inputs: Sequence[Array]) -> list[Array] | BurnxError:
        """The reference's results, with which all others must agree."""
        expected = run(self.reference, self.program, inputs)
        results = {}
        for name, runner in self.runners.items():
            results[name] = run(runner, self.program, inputs)
            difference = compare(expected, results[name], self.exact)
            assert difference is None, f"{name}: {difference}"
        with eager_threads():
            for count, runner in self.crowds.items():
                found = run(runner, self.program, inputs)
                assert same_bits(results["fused"], found), f"{count} threads give other bits"
        return expected
