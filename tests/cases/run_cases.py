#!/usr/bin/env python3
"""Run the cases, each sub-case and route in a process of its own.

    python run_cases.py [--engine burnx|onnxruntime|reference] [--route run,source,roundtrip] [--device cpu]
                        [-k REGEX] [--json FILE] [--jobs N] [--quiet]

Routes of burnx: ``run`` (the file straight to the runtime), ``source`` (the generated Python, imported in a process
that has not seen the file) and ``roundtrip`` (that source exported and run by onnxruntime, or by burnx where
onnxruntime is known to be wrong).  Results: pass, wrong (other values), error (an exception, or an unclear one),
crash, timeout; for the other engines also known (a disagreement that the case explains) and surprise (an agreement
where the case expects none).  The exit status is 1 if anything but pass and known is among them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import onnx
from casebook import ROUTES, Case, Mismatch, SubCase, assert_clear, words_of

FORK = multiprocessing.get_context("fork")
FINE = ("pass", "known")


class Refused(Exception):
    """An error that was raised in another process."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Crashed(BaseException):
    """Another process ended without an answer."""


# ------------------------------------------------------------------------------------------ engines
class Bench:
    """What a sub-case is tried on: one engine, one route, one device and a folder of its own."""

    def __init__(self, engine: str, route: str, device: str, folder: Path) -> None:
        self.engine, self.route, self.device, self.folder = engine, route, device, folder

    @property
    def burnx(self) -> Any:
        import burnx

        return burnx

    def open(
        self, model: onnx.ModelProto, example: Mapping[str, Any], sub: SubCase | None = None
    ) -> Callable:
        """Make ``model`` callable (inputs by name -> outputs by name) by this bench's engine and route."""
        return getattr(self, f"_open_{self.route if self.engine == 'burnx' else self.engine}")(
            model, example, sub
        )

    def outputs(self, model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self.open(model, inputs)(inputs)

    def save(self, model: onnx.ModelProto | bytes, name: str = "model.onnx") -> Path:
        path = self.folder / name
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def generate(self, source: Path, target: str = "generated.py") -> Path:
        """Import ``source`` in another process, so that the file it writes has to stand on its own."""
        path = self.folder / target
        apart(self.burnx.import_onnx, str(source), str(path))
        return path

    def module(self, path: Path) -> Any:
        """A generated file, imported."""
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module

    def network(self, path: Path) -> Any:
        """``Model.load()`` of a generated file."""
        return self.module(path).Model.load()

    def export(
        self, network: Any, example: Mapping[str, Any], name: str = "exported.onnx", **options: Any
    ) -> Path:
        path = self.folder / name
        self.burnx.export_onnx(network, dict(example), str(path), **options)
        return path

    def rerun(self, path: Path, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs of a file by onnxruntime, in order."""
        session = self._session(onnx.load(str(path)))
        return session.run(None, dict(inputs))

    def _open_run(
        self, model: onnx.ModelProto, example: Mapping[str, Any], sub: SubCase | None
    ) -> Callable:
        loaded = self.burnx.load(model, device=self.device)
        return lambda inputs: dict(loaded.run(dict(inputs)))

    def _open_source(
        self, model: onnx.ModelProto, example: Mapping[str, Any], sub: SubCase | None
    ) -> Callable:
        network = self.network(self.generate(self.save(model)))
        return lambda inputs: call(network, model, inputs)

    def _open_roundtrip(
        self, model: onnx.ModelProto, example: Mapping[str, Any], sub: SubCase | None
    ) -> Callable:
        network = self.network(self.generate(self.save(model)))
        path = self.export(network, example)
        exported = onnx.load(str(path))
        as_valid(model, path)
        same_names(model, exported, example)
        if sub is not None and sub.exported is not None:
            sub.exported(exported)
        if sub is not None and "onnxruntime" in sub.wrong:
            return self._open_run(str(path), example, sub)
        return by_onnxruntime(by_onnxruntime(self._open_onnxruntime)(exported, example, sub))

    def _session(self, model: onnx.ModelProto) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"]
        )

    def _open_onnxruntime(
        self, model: onnx.ModelProto, example: Mapping[str, Any], sub: SubCase | None
    ) -> Callable:
        session = self._session(model)
        names = [output.name for output in model.graph.output]
        return lambda inputs: dict(zip(names, session.run(None, dict(inputs))))

    def _open_reference(
        self, model: onnx.ModelProto, example: Mapping[str, Any], sub: SubCase | None
    ) -> Callable:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(model)
        names = [output.name for output in model.graph.output]
        return lambda inputs: dict(zip(names, evaluator.run(None, dict(inputs))))


def by_onnxruntime(function: Callable) -> Callable:
    """``function`` with its errors marked as onnxruntime's."""

    def marked(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise Refused("onnxruntime", f"on the exported file: {error}") from None

    return marked


def call(network: Any, model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Call generated code: required inputs by position, inputs with a default by name."""
    defaults = {initializer.name for initializer in model.graph.initializer}
    order = [value.name for value in model.graph.input if value.name in inputs]
    result = network(
        *(inputs[name] for name in order if name not in defaults),
        **{name: inputs[name] for name in order if name in defaults},
    )
    names = [output.name for output in model.graph.output]
    values = [result] if len(names) == 1 else list(result)
    if len(values) != len(names):
        raise Mismatch(f"expected {len(names)} outputs, got {len(values)}")
    return {name: to_numpy(value) for name, value in zip(names, values)}


def to_numpy(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [to_numpy(item) for item in value]
    return value.numpy() if hasattr(value, "numpy") else value


def is_valid(model: onnx.ModelProto, full: bool) -> bool:
    try:
        onnx.checker.check_model(model, full_check=full)
    except Exception:
        return False
    return True


def as_valid(model: onnx.ModelProto, exported: Path) -> None:
    """The exported file passes the checker as far as the file it comes from does."""
    for full in (True, False):
        if is_valid(model, full):
            return onnx.checker.check_model(str(exported), full_check=full)


def same_names(
    model: onnx.ModelProto, exported: onnx.ModelProto, example: Mapping[str, Any]
) -> None:
    """The exported file has the inputs and outputs of the file it comes from, in order."""
    pairs = (
        ("outputs", [v.name for v in model.graph.output], [v.name for v in exported.graph.output]),
        ("inputs", list(example), [v.name for v in exported.graph.input if v.name in example]),
    )
    for what, before, after in pairs:
        if before != after:
            raise Mismatch(f"exported {what} are {after}, not {before}")


# ------------------------------------------------------------------------------------------ one sub-case
def judge(sub: SubCase, bench: Bench) -> tuple[str, str]:
    """Try ``sub`` on ``bench``: a status and what it rests on."""
    if sub.check is not None and bench.engine != "burnx":
        return "skip", "a property of burnx"
    try:
        sub.check(bench) if sub.check is not None else attempt(sub, bench)
        status, detail = "pass", ""
    except AssertionError as error:
        status, detail = "wrong", str(error)
    except Crashed as ended:
        status, detail = "crash", str(ended)
    except Exception as error:
        status, detail = "error", f"{getattr(error, 'kind', type(error).__name__)}: {error}"
    return against_known(sub, bench.engine, status, detail)


def against_known(sub: SubCase, engine: str, status: str, detail: str) -> tuple[str, str]:
    """Weigh a result with what the case says of this engine."""
    known = sub.wrong.get(engine)
    if known is None or status == "skip":
        return status, detail
    return (
        ("surprise", f"agrees, although it {known}")
        if status == "pass"
        else ("known", f"it {known} ({status}: {detail})")
    )


def attempt(sub: SubCase, bench: Bench) -> None:
    model = sub.model()
    try:
        run = bench.open(model, sub.runs[0].inputs, sub)
        results = [run(case.inputs) for case in sub.runs]
    except AssertionError:
        raise
    except Exception as error:
        if not (sub.raises or (sub.may_raise and bench.engine not in sub.wrong)):
            raise
        if bench.engine == "burnx" and getattr(error, "kind", "") != "onnxruntime":
            assert_clear(error, words_of(model) | {"model.onnx"})
        return
    if sub.raises:
        raise Mismatch(f"an error is right, but it gave {results}")
    for case, result in zip(sub.runs, results):
        sub.compare(case, result)


# ------------------------------------------------------------------------------------------ processes
def apart(function: Callable, *arguments: Any) -> Any:
    """Call ``function`` in another process; an error there is raised here as ``Refused``."""
    receiver, sender = FORK.Pipe(duplex=False)

    def work() -> None:
        try:
            function(*arguments)
            sender.send(None)
        except BaseException as error:
            sender.send((getattr(error, "kind", type(error).__name__), str(error)))

    process = FORK.Process(target=work)
    process.start()
    sender.close()
    try:
        problem = receiver.recv()
    except EOFError:
        process.join()
        raise Crashed(ending(process.exitcode)) from None
    process.join()
    if problem is not None:
        raise Refused(*problem)


def ending(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


@dataclass
class Result:
    case: str
    sub: str
    route: str
    status: str = "crash"
    detail: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        detail = f"  {' '.join(self.detail.split())[:300]}" if self.detail else ""
        return (
            f"{self.status:8} {self.route:10} {self.seconds:6.2f}s  {self.case}.{self.sub}{detail}"
        )


class Worker:
    """A process that judges one sub-case on one route."""

    def __init__(self, sub: SubCase, engine: str, route: str, device: str, folder: Path) -> None:
        folder.mkdir()
        self.sub, self.folder, self.engine = sub, folder, engine
        self.result = Result(sub.case, sub.name, route)
        self.receiver, sender = FORK.Pipe(duplex=False)
        self.started = time.monotonic()
        self.process = FORK.Process(
            target=self._work, args=(sender, Bench(engine, route, device, folder))
        )
        self.process.start()
        sender.close()

    def _work(self, sender: Connection, bench: Bench) -> None:
        os.setsid()
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1), os.dup2(log, 2)
        sender.send(judge(self.sub, bench))
        sender.close()
        os._exit(0)

    def close(self) -> Result:
        """Take the worker's verdict, or say how it ended without one."""
        self.result.seconds = time.monotonic() - self.started
        try:
            if self.receiver.poll():
                verdict = self.receiver.recv()
            else:
                verdict = ("timeout", f"no answer in {self.sub.timeout:g} s")
        except EOFError:
            self.process.join()
            verdict = against_known(self.sub, self.engine, "crash", ending(self.process.exitcode))
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.result.status, self.result.detail = verdict
        return self.result


def sweep(
    jobs: Iterable[tuple[SubCase, str]], engine: str, device: str, parallel: int
) -> Iterable[Result]:
    """Judge every (sub-case, route), at most ``parallel`` at once."""
    queue, running = list(reversed(list(jobs))), []
    with tempfile.TemporaryDirectory(prefix="cases-") as root:
        while queue or running:
            while queue and len(running) < parallel:
                sub, route = queue.pop()
                running.append(Worker(sub, engine, route, device, Path(root, str(len(queue)))))
            left = min(worker.started + worker.sub.timeout for worker in running) - time.monotonic()
            ready = wait([worker.receiver for worker in running], timeout=max(left, 0.0))
            for worker in list(running):
                if (
                    worker.receiver in ready
                    or time.monotonic() > worker.started + worker.sub.timeout
                ):
                    running.remove(worker)
                    yield worker.close()


# ------------------------------------------------------------------------------------------ command line
def preload(engine: str, routes: list[str]) -> None:
    """Import the engines once; the workers are forked from here."""
    modules = [{"reference": "onnx.reference"}.get(engine, engine)]
    modules += ["onnxruntime"] if "roundtrip" in routes else []
    for module in modules:
        try:
            __import__(module)
        except ImportError as error:
            sys.exit(f"run_cases: cannot import {module}: {error}")


def summary(results: list[Result], routes: list[str], label: str) -> str:
    """How many of the sub-cases that were tried are fine on all their routes, and how many on each route."""
    subs: dict[str, bool] = {}
    for result in results:
        if result.status == "skip":
            continue
        key = f"{result.case}.{result.sub}"
        subs[key] = subs.get(key, True) and result.status in FINE
    passed = Counter(result.route for result in results if result.status in FINE)
    counts = "/".join(str(passed[route]) for route in routes)
    return f"{sum(subs.values())} of {len(subs)} {label}sub-cases pass on routes {'/'.join(routes)}: {counts}"


def main(cases: list[Case], argv: list[str] | None = None, label: str = "") -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--engine", choices=("burnx", "onnxruntime", "reference"), default="burnx")
    options.add_argument("--route", default=",".join(ROUTES), help="of burnx: run,source,roundtrip")
    options.add_argument("--device", default="cpu")
    options.add_argument("-k", default="", metavar="REGEX", help="only sub-cases whose id matches")
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--quiet", action="store_true", help="no line for what passes")
    options = options.parse_args(argv)
    routes = options.route.split(",") if options.engine == "burnx" else [options.engine]
    if options.engine == "burnx" and not set(routes) <= set(ROUTES):
        sys.exit(f"run_cases: routes are {', '.join(ROUTES)}")
    os.environ["BURNX_DEVICE"] = options.device
    preload(options.engine, routes)
    subs = [sub for case in cases for sub in case.subs if re.search(options.k, str(sub))]
    jobs = [
        (sub, route)
        for sub in subs
        for route in routes
        if route in sub.routes or options.engine != "burnx"
    ]
    results = []
    for result in sweep(jobs, options.engine, options.device, options.jobs):
        results.append(result)
        if not (options.quiet and result.status in (*FINE, "skip")):
            print(result.line(), flush=True)
    totals = Counter(result.status for result in results)
    closing = summary(results, routes, label)
    if options.json:
        record = {"engine": options.engine, "totals": dict(totals), "summary": closing}
        record["results"] = [asdict(result) for result in results]
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
    print(
        ", ".join(f"{status} {count}" for status, count in sorted(totals.items()))
        or "nothing matched"
    )
    print(closing)
    return 0 if totals and set(totals) <= {*FINE, "skip"} else 1


if __name__ == "__main__":
    from cases import all_cases

    sys.exit(main(all_cases()))
