"""The cpu device: burnx's own compiler.

Enters: a Program and arrays.  Leaves: arrays.  May import: fusion, kernels, primitives, program and below, and llvmlite.
A program is cut into segments (``segments.py``); fusion makes each a schedule of kernels, which become LLVM IR (``llvm/``)
and object code (``objects.py``, ``building.py``); a plan for given sizes (``plans.py``) is run by the native machine
(``machine.py``).  What was made once is kept for the next process (``kept.py``).  Start reading at ``runner.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from burnx.program import Program
from burnx.runtime.compiled.foreign import name_foreign
from burnx.runtime.devices.cpu.kept import plan_stamp
from burnx.runtime.devices.cpu.memory import live_workspaces
from burnx.runtime.devices.cpu.objects import compiled_kernels
from burnx.runtime.devices.cpu.runner import Runner
from burnx.runtime.devices.cpu.threads import prepare_threads
from burnx.runtime.kept.models import Shelf, Slot
from burnx.runtime.kept.models import find_shelf as _find_shelf
from burnx.runtime.tuning.roofline import Roofline


def prepare(program: Program, options: Mapping[str, Any], slot: Slot | None = None) -> Runner:
    """A runner for a program: ``threads``, ``fuse`` and ``tune`` are what it asks of ``options``.

    With a ``slot`` the program is kept there once it has run.
    """
    return _make_runner(options, slot)


def open_kept(
    slot: Slot, options: Mapping[str, Any], whole: Callable[[], Program]
) -> tuple[Program, Runner] | None:
    """The program that is kept in a slot, and a runner for it; ``whole`` makes it anew where it is needed."""
    runner = _make_runner(options, slot)
    program = runner.open(whole)
    return None if program is None else (program, runner)


def find_shelf(path: Path, base_dir: Path | None, options: Mapping[str, Any]) -> Shelf | None:
    """What is kept of a model file; None where nothing is kept."""
    return _find_shelf(path, base_dir, options, plan_stamp)


def _make_runner(options: Mapping[str, Any], slot: Slot | None) -> Runner:
    threads = prepare_threads(options.get("threads"))
    fuse, tune = options.get("fuse", True), bool(options.get("tune"))
    return Runner(threads=threads, fuse=fuse, tune=tune, slot=slot)


def find_roofline(options: Mapping[str, Any], name: str) -> Roofline:
    """What the processor does at its best with the threads of ``options``."""
    from burnx.runtime.devices.cpu.tuning import cpu_roofline

    return cpu_roofline(prepare_threads(options.get("threads")))


def measure_memory(name: str) -> dict[str, int]:
    """What running programs hold of the memory; their constants lie where the model's do."""
    held = sum(len(each.array) for each in list(live_workspaces))
    return {"used_bytes": held, "reserved_bytes": held, "arena_bytes": held}


__all__ = [
    "compiled_kernels",
    "find_roofline",
    "find_shelf",
    "measure_memory",
    "name_foreign",
    "open_kept",
    "prepare",
]
