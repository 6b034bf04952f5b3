"""Work that may crash or hang, in forked workers that are replaced when it does.

A worker takes one task at a time and announces each step before it starts it, so that what a
crash or a timeout costs is that one step: the rest of the task goes to a fresh worker.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Generic, TypeVar

Result = TypeVar("Result")
_FORK = multiprocessing.get_context("fork")
_START_S = 30.0


@dataclass(frozen=True, slots=True)
class Task:
    """Some steps, by name, of the item with that number."""

    number: int
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step(Generic[Result]):
    """A finished step: its result, or None and the failure, ``crash`` or ``timeout``."""

    number: int
    step: str
    result: Result | None
    failure: str = ""


@dataclass(slots=True)
class Worker:
    """A forked process, the task it has and the step it is at."""

    process: ForkProcess
    connection: Connection
    task: Task | None = None
    done: list[str] = field(default_factory=list)
    deadline: float = 0.0


Labour = Callable[[Task, Callable[[str], None], Callable[[str, Result], None]], None]
"""Does a task: calls the first function before each step, the second with its result."""


def ask_child(function: Callable[[], Result]) -> Result:
    """What a function gives in a forked process; what it raises is raised here.

    Drivers of devices do not survive a fork, so that the process that forks workers must not wake one.
    """
    ours, theirs = _FORK.Pipe()

    def answer() -> None:
        try:
            theirs.send((function(), None))
        except Exception as error:
            theirs.send((None, error))

    process = _FORK.Process(target=answer)
    process.start()
    theirs.close()
    try:
        found, error = ours.recv()
    finally:
        process.join()
    if error is not None:
        raise error
    return found


def run_tasks(
    tasks: Sequence[Task], labour: Labour[Result], jobs: int, timeout_s: float
) -> Iterator[Step[Result]]:
    """Every step of every task, in the order in which they finish."""
    waiting = deque(tasks)
    workers: list[Worker] = []
    try:
        while waiting or any(worker.task is not None for worker in workers):
            _employ(workers, waiting, labour, jobs)
            for worker in _wait(workers):
                yield from _listen(worker, workers, waiting, timeout_s)
    finally:
        for worker in workers:
            _dismiss(worker)


def _employ(workers: list[Worker], waiting: deque[Task], labour: Labour[Result], jobs: int) -> None:
    """Give the idle something to do, and start workers while there is more."""
    while waiting:
        idle = next((worker for worker in workers if worker.task is None), None)
        if idle is None and len(workers) >= jobs:
            return
        if idle is None:
            idle = _start_worker(labour, [worker.connection for worker in workers])
            workers.append(idle)
        idle.task, idle.done = waiting.popleft(), []
        idle.deadline = time.monotonic() + _START_S
        try:
            idle.connection.send(idle.task)
        except OSError:  # it died while idle, which says nothing about the task
            waiting.appendleft(idle.task)
            workers.remove(idle)
            _dismiss(idle)


def _wait(workers: Sequence[Worker]) -> list[Worker]:
    """The workers that have something to say or are past their deadline."""
    busy = [worker for worker in workers if worker.task is not None]
    if not busy:
        return []
    left_s = min(worker.deadline for worker in busy) - time.monotonic()
    ready = wait([worker.connection for worker in busy], timeout=max(0.0, left_s))
    now = time.monotonic()
    return [worker for worker in busy if worker.connection in ready or worker.deadline <= now]


def _listen(
    worker: Worker, workers: list[Worker], waiting: deque[Task], timeout_s: float
) -> Iterator[Step[Result]]:
    task = worker.task
    assert task is not None, "only a busy worker is listened to"
    if not worker.connection.poll():
        yield from _replace(worker, workers, waiting, "timeout")
        return
    try:
        word, step, result = worker.connection.recv()
    except (EOFError, OSError):
        yield from _replace(worker, workers, waiting, "crash")
        return
    worker.deadline = time.monotonic() + timeout_s
    if word == "result":
        worker.done.append(step)
        yield Step(task.number, step, result)
    if word == "finished":
        worker.task = None


def _replace(
    worker: Worker, workers: list[Worker], waiting: deque[Task], failure: str
) -> Iterator[Step[Result]]:
    """Blame the step that the worker was at, and queue the ones after it."""
    _dismiss(worker)
    workers.remove(worker)
    task = worker.task
    assert task is not None, "only a busy worker is replaced"
    left = [step for step in task.steps if step not in worker.done]
    if left[1:]:
        waiting.appendleft(Task(task.number, tuple(left[1:])))
    if left:
        yield Step(task.number, left[0], None, failure)


def _dismiss(worker: Worker) -> None:
    worker.connection.close()
    worker.process.kill()
    worker.process.join()


def _start_worker(labour: Labour[Result], others: Sequence[Connection]) -> Worker:
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_work, args=(theirs, labour, (ours, *others)))
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # NumPy's threads are idle here and made to survive a fork; Python 3.12 warns of any.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    return Worker(process, ours)


def _work(connection: Connection, labour: Labour[Result], inherited: Sequence[Connection]) -> None:
    """The life of a worker: tasks until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True
    os.dup2(2, 1)  # stdout belongs to the report
    for other in inherited:
        other.close()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        labour(
            task,
            lambda step: connection.send(("start", step, None)),
            lambda step, result: connection.send(("result", step, result)),
        )
        connection.send(("finished", "", None))
