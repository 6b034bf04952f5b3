"""Measuring one model: every engine in a process of its own, compared first, then timed in turn."""

from __future__ import annotations

import contextlib
import importlib.util
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from listed_models import Entry, file_and_inputs, model_facts, own_excess

from burnx.agreement.tolerance import close
from burnx.cli.bench_engines import Job, check_installed
from burnx.cli.bench_turns import (
    Ask,
    Plan,
    child_process,
    first_calls,
    peak_bytes,
    take_turns,
    timing,
)
from burnx.errors import BurnxError

ENGINES = ("burnx", "onnxruntime", "openvino", "torch")
JUDGE = "onnxruntime"


@dataclass(frozen=True, slots=True)
class Settings:
    """Which engines, with how many threads, and how long."""

    engines: Sequence[str]
    threads: int
    plan: Plan


@dataclass(slots=True)
class Opened:
    """The children of a model that came through their first calls, and why others did not."""

    cache: str
    children: dict[str, Ask] = field(default_factory=dict)
    cold: dict[str, Mapping[str, float]] = field(default_factory=dict)
    warm: dict[str, Mapping[str, float]] = field(default_factory=dict)
    outputs: dict[str, list[Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def usable_engines(asked: Sequence[str], notice: Callable[[str], None]) -> list[str]:
    """The engines that are installed; ``notice`` hears of the others."""
    found = []
    for name in asked:
        try:
            check_installed(name)
        except BurnxError as error:
            notice(str(error))
            continue
        if name == "torch" and importlib.util.find_spec("onnx2torch") is None:
            notice("torch takes part through onnx2torch, which is not installed")
            continue
        found.append(name)
    return found


def measure_model(entry: Entry, settings: Settings) -> dict[str, Any]:
    """What the report holds of a model: facts, whether the engines agree, and the figures of each."""
    path, inputs = file_and_inputs(entry)
    result: dict[str, Any] = {"kind": entry["kind"], **_facts(path, inputs)}
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_engines(str(path), inputs, settings))
        result["differs"] = differences(opened.outputs)
        for name, found in result["differs"].items() if "spread" in entry else ():
            pair = opened.outputs[JUDGE], opened.outputs[name]
            found["within"] = own_excess(path, inputs, *pair) is None
        result |= _figures(opened, settings.plan)
    return result


def measure_file(
    path: str, inputs: Mapping[str, Any], settings: Settings
) -> dict[str, dict[str, Any]]:
    """The figures of each engine for a file, with nothing compared."""
    with open_engines(path, inputs, settings) as opened:
        figures: dict[str, dict[str, Any]] = _figures(opened, settings.plan)["engines"]
    return figures


@contextlib.contextmanager
def open_engines(path: str, inputs: Mapping[str, Any], settings: Settings) -> Iterator[Opened]:
    """Every engine after its first calls, with an empty kernel cache and then with a warm one."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="burnx-")))
        pickled = folder / "inputs"
        pickled.write_bytes(pickle.dumps(dict(inputs)))
        opened = Opened(str(folder / "kernels"))
        Path(opened.cache).mkdir()
        for engine in settings.engines:
            job = Job(engine, path, str(pickled), settings.threads)
            try:
                _open_engine(job, opened, stack, folder / "outputs")
            except BurnxError as error:
                opened.failures[engine] = str(error)
        yield opened


def _open_engine(job: Job, opened: Opened, stack: contextlib.ExitStack, outputs: Path) -> None:
    name = job.engine
    with child_process(job, opened.cache) as ask:
        opened.cold[name] = first_calls(ask)
        ask("outputs", path=str(outputs))  # not by the child that is timed: it copies and pickles
    opened.outputs[name] = pickle.loads(outputs.read_bytes())  # a child of ours wrote it
    child = stack.enter_context(child_process(job, opened.cache))
    opened.warm[name] = first_calls(child)
    opened.children[name] = child


def _figures(opened: Opened, plan: Plan) -> dict[str, Any]:
    times = take_turns(opened.children, plan)
    figures = {}
    for name, ask in opened.children.items():
        row = timing(times[name], opened.warm[name], opened.cold[name], peak_bytes(ask))
        figures[name] = row.as_json()
    return {"engines": figures, "failures": dict(opened.failures)}


def differences(outputs: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """How each engine differs from onnxruntime beyond the tolerance; nothing for those that agree.

    ``within`` is whether onnxruntime is known to differ as much from itself.
    """
    expected = outputs.get(JUDGE)
    if expected is None:
        return {}
    pairs = {name: close(list(expected), list(values)) for name, values in outputs.items()}
    return {
        name: {"reason": str(difference), "within": False}
        for name, difference in pairs.items()
        if difference is not None
    }


def _facts(path: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return model_facts(path, inputs)
    except BurnxError as error:
        return {"flops": 0, "weight_bytes": path.stat().st_size, "not_counted": str(error)}
