"""The three ways from an ONNX file to values, each tried on one test.

``run``        the file straight to the runtime
``source``     the generated Python, imported and called
``roundtrip``  that source captured and exported; right if onnxruntime or the reference
               evaluator of onnx gives the expected values from the exported file, or
               burnx where neither runs it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import onnx

from burnx.conformance.backend_tests import BackendTest, DataSet, Value, input_names
from burnx.conformance.comparison import find_mismatch
from burnx.conformance.engines import Run, first_line, open_onnxruntime, open_reference, unboxed
from burnx.conformance.generated import import_generated
from burnx.conformance.limitations import declared_limitation
from burnx.errors import BurnxError, ExportError, UnsupportedError
from burnx.exporter.checking import check_model
from burnx.tensor import to_numpy


@dataclass(frozen=True, slots=True)
class Cell:
    """What one route gave on one test; ``judge`` is the engine that ran an exported file."""

    status: str
    message: str = ""
    judge: str = ""
    seconds: float = 0.0


class Engine(Protocol):
    """The part of the public api that the routes call."""

    def load(self, model: Any, *, device: str) -> Any: ...
    def import_onnx(self, source: str, target: str) -> Any: ...
    def export_onnx(self, model: Any, inputs: Mapping[str, Value], target: str) -> Any: ...


class Bench:
    """One test while it is tried: its model, data and source are made once, in its own folder."""

    def __init__(self, test: BackendTest, engine: Engine, device: str, folder: Path) -> None:
        self.test = test
        self.engine = engine
        self.device = device
        self.folder = folder

    @cached_property
    def model(self) -> onnx.ModelProto:
        return self.test.load_model()

    @cached_property
    def data_sets(self) -> tuple[DataSet, ...]:
        return self.test.load_data(self.model)

    @cached_property
    def names(self) -> tuple[list[str], list[str]]:
        """Names of the inputs and of the outputs."""
        return input_names(self.model), [value.name for value in self.model.graph.output]

    @cached_property
    def generated(self) -> Any:
        """The generated ``Model``, loaded with its weights."""
        path = self.folder / "model.onnx"
        path.write_bytes(self.model.SerializeToString())
        self.engine.import_onnx(str(path), str(self.folder / "generated.py"))
        return import_generated(self.folder / "generated.py").Model.load()

    def feeds(self, data: DataSet) -> dict[str, Value]:
        return dict(zip(self.names[0], data.inputs, strict=True))

    def mismatch(self, data: DataSet, found: Sequence[Value]) -> str | None:
        """How the outputs differ from the expected ones; None where there is nothing to compare with."""
        if data.doubt:
            return None
        return find_mismatch(self.test, data.outputs, found)


def try_route(bench: Bench, route: str) -> Cell:
    """The cell of one test and route; every exception becomes a status."""
    started = time.perf_counter()
    try:
        cell = _try_data_sets(bench, ROUTES[route])
    except UnsupportedError as error:
        cell = Cell("unsupported", str(error))
    except BurnxError as error:
        cell = Cell("error", f"{type(error).__name__}: {error}")
    except Exception as error:  # what an engine raises is the result of the test
        cell = Cell("error", f"unexpected {type(error).__name__}: {error}")
    cell = _apply_limitation(cell, declared_limitation(bench.test))
    return replace(cell, seconds=round(time.perf_counter() - started, 4))


def _try_data_sets(bench: Bench, try_one: Callable[[Bench, DataSet], Cell]) -> Cell:
    """The first cell that is not a pass; nothing to compare is never a pass."""
    cell = Cell("error", "the test has no expected outputs, so nothing was compared")
    for data in bench.data_sets:
        if not data.outputs and not data.doubt:
            return cell
        cell = _settle(try_one(bench, data), data)
        if cell.status != "pass":
            return cell
    return cell


def _settle(cell: Cell, data: DataSet) -> Cell:
    """A cell with the engine that judged it; what was compared with nothing is no pass."""
    if cell.status != "pass":
        return cell
    return Cell("skip", data.doubt) if data.doubt else replace(cell, judge=cell.judge or data.judge)


def _apply_limitation(cell: Cell, reason: str | None) -> Cell:
    """A declared limitation is unsupported even if values came out; the message says what did."""
    if reason is None or cell.status == "unsupported":
        return cell
    outcome = cell.message or "the expected values came out all the same"
    return replace(cell, status="unsupported", message=f"declared: {reason} ({outcome})")


def _run_directly(bench: Bench, data: DataSet) -> Cell:
    model = bench.engine.load(bench.model, device=bench.device)
    outputs = model.run(bench.feeds(data))
    missing = [name for name in bench.names[1] if name not in outputs]
    if missing:
        return Cell("wrong", f"outputs {missing} are missing among {list(outputs)}")
    return _compared(bench, data, [outputs[name] for name in bench.names[1]])


def _run_source(bench: Bench, data: DataSet) -> Cell:
    result = bench.generated(*data.inputs)
    several = len(bench.names[1]) > 1
    if several and not isinstance(result, tuple):
        return Cell("wrong", f"a tuple of outputs expected, {type(result).__name__} found")
    return _compared(bench, data, to_numpy(list(result) if several else [result]))


def _run_exported(bench: Bench, data: DataSet) -> Cell:
    path = bench.folder / "exported.onnx"
    try:
        bench.engine.export_onnx(bench.generated, bench.feeds(data), str(path))
    except ExportError as error:
        refused = _refusal(bench.model)
        if not refused:
            raise
        text = f"not compared: onnx's checker refuses the file it came from as well: {refused}"
        return Cell("skip", f"{text}; {error}")
    onnx.checker.check_model(str(path), full_check=True)
    exported = onnx.load(path)
    names = (input_names(exported), [value.name for value in exported.graph.output])
    if names != bench.names:
        return Cell("wrong", f"inputs and outputs {bench.names} expected, {names} exported")
    return _judge_exported(bench, data, path)


def _refusal(model: onnx.ModelProto) -> str:
    """What onnx's checker has against a model; empty if nothing."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    try:
        check_model(copy)
    except ExportError as error:
        return first_line(error)
    return ""


def _judge_exported(bench: Bench, data: DataSet, path: Path) -> Cell:
    """The first judge that finds the expected values settles it; who was asked is in the message."""
    verdicts = []
    for judge, open_model in JUDGES.items():
        try:
            outputs = open_model(bench, str(path))(bench.feeds(data))
            kinds = [value.type for value in bench.model.graph.output]
            found = [unboxed(*pair) for pair in zip(kinds, outputs.values(), strict=True)]
            problem = bench.mismatch(data, found)
        except Exception as error:  # a judge that fails leaves it to the next one
            verdicts.append(
                ("error", f"{judge} failed: {type(error).__name__}: {first_line(error)}")
            )
            continue
        if problem is None and not (data.doubt and judge == OWN):
            return Cell("pass", judge=judge)
        if problem is None:
            continue
        verdicts.append(("wrong", f"{judge}: {problem}"))
    message = "; ".join(message for _, message in verdicts)
    if any(status == "wrong" for status, _ in verdicts):
        return Cell("wrong", message)
    if data.doubt:  # nobody runs the file that it came from either
        return Cell("skip", f"{data.doubt}; {message}")
    return Cell("error", message)


def _compared(bench: Bench, data: DataSet, found: Sequence[Value]) -> Cell:
    problem = bench.mismatch(data, found)
    return Cell("pass") if problem is None else Cell("wrong", problem)


ROUTES: dict[str, Callable[[Bench, DataSet], Cell]] = {
    "run": _run_directly,
    "source": _run_source,
    "roundtrip": _run_exported,
}
OWN = "burnx"
JUDGES: dict[str, Callable[[Bench, str], Run]] = {
    "onnxruntime": lambda _, path: open_onnxruntime(path),
    "reference": lambda _, path: open_reference(path),
    OWN: lambda bench, path: bench.engine.load(path, device=bench.device).run,
}
