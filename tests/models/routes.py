"""One step of trying a real model, made to run in a process of its own.

    python routes.py STEP NAME FOLDER DEVICE

``expected`` asks onnxruntime and keeps its outputs in FOLDER; ``import`` writes the generated
source there; ``run``, ``source`` and ``roundtrip`` are compared with what was expected.  A step
writes FOLDER/STEP.json: {"status", "detail", "seconds", "error"}; a step that ends without one
has crashed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import models
import numpy as np
from spread import WITHIN, excess, own_spread
from tolerance import Mismatch, compare

Values = dict[str, Any]


def ask_onnxruntime(path: Path, inputs: Mapping[str, Any]) -> Values:
    """The outputs of a file by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    given = in_full_accuracy(path) or str(path)
    session = onnxruntime.InferenceSession(given, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def in_full_accuracy(path: Path) -> bytes | None:
    """The model without leave to quantize activations (``accuracy_level`` 4), None if it gives none.

    With that leave onnxruntime is a hundredth off from what the weights say.
    """
    import onnx

    levels = [
        attribute
        for node in onnx.load(path, load_external_data=False).graph.node
        for attribute in node.attribute
        if attribute.name == "accuracy_level" and attribute.i == 4
    ]
    if not levels:
        return None
    model = onnx.load(path)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    return bytes(model.SerializeToString())


def generate(path: Path, folder: Path) -> None:
    import burnx

    burnx.import_onnx(str(path), str(folder / "generated.py"))


def load_generated(folder: Path) -> Any:
    """``Model.load()`` of the generated source, which has to stand on its own."""
    spec = importlib.util.spec_from_file_location("generated", folder / "generated.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(folder / "generated.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["generated"] = module
    spec.loader.exec_module(module)
    return module.Model.load()


def to_numpy(value: Any) -> Any:
    if isinstance(value, list):
        return [to_numpy(item) for item in value]
    return value.numpy() if hasattr(value, "numpy") else value


def by_run(path: Path, folder: Path, inputs: Mapping[str, Any], names: list[str]) -> Values:
    import burnx

    return dict(burnx.load(str(path), device=os.environ["BURNX_DEVICE"]).run(dict(inputs)))


def by_source(path: Path, folder: Path, inputs: Mapping[str, Any], names: list[str]) -> Values:
    result = load_generated(folder)(*inputs.values())
    values = list(result) if isinstance(result, tuple) else [result]
    if len(values) != len(names):
        raise Mismatch(f"{len(names)} outputs are right, the source gives {len(values)}")
    return {name: to_numpy(value) for name, value in zip(names, values, strict=True)}


def by_roundtrip(path: Path, folder: Path, inputs: Mapping[str, Any], names: list[str]) -> Values:
    import onnx

    import burnx

    exported = folder / "exported.onnx"
    burnx.export_onnx(load_generated(folder), dict(inputs), str(exported))
    onnx.checker.check_model(str(exported), full_check=True)
    return ask_onnxruntime(exported, inputs)


ROUTES: dict[str, Callable[[Path, Path, Mapping[str, Any], list[str]], Values]] = {
    "run": by_run,
    "source": by_source,
    "roundtrip": by_roundtrip,
}


class Within(Exception):
    """A result is off, but by no more than onnxruntime's answers are from each other."""


def weigh(
    mismatch: Mismatch,
    path: Path,
    inputs: Mapping[str, Any],
    folder: Path,
    pair: tuple[Values, ...],
) -> Exception:
    """A mismatch, or that it is within onnxruntime's own spread, which is measured once in a folder."""
    kept = folder / "spread.json"
    if not kept.exists():
        kept.write_text(json.dumps(own_spread(path, inputs)))
    spread = json.loads(kept.read_text())
    too_far = excess(*pair, spread)
    if too_far is not None:
        return Mismatch(f"{mismatch}; {too_far}", mismatch.error)
    widest = ", ".join(f"{name} {value:.3g}" for name, value in spread.items())
    return Within(f"{mismatch}; onnxruntime from itself: {widest}", mismatch.error)


def perform(step: str, entry: Mapping[str, Any], folder: Path) -> float:
    """Carry out a step; for a route, how far off it is.

    Raises: Mismatch if a route gives other values than onnxruntime, Within if that is how onnxruntime is too.
    """
    path, kept = models.path(entry), folder / "expected.pickle"
    if step == "import":
        generate(path, folder)
        return 0.0
    inputs = in_order(path, models.inputs(entry))
    if step == "expected":
        kept.write_bytes(pickle.dumps(ask_onnxruntime(path, inputs)))
        return 0.0
    expected = pickle.loads(kept.read_bytes())
    found = ROUTES[step](path, folder, inputs, list(expected))
    try:
        return compare(expected, found)
    except Mismatch as mismatch:
        if "spread" not in entry:
            raise
        raise weigh(mismatch, path, inputs, folder, (expected, found)) from None


def in_order(path: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs in the order in which the file declares them."""
    import onnx

    declared = [value.name for value in onnx.load(path, load_external_data=False).graph.input]
    return {name: np.asarray(inputs[name]) for name in declared if name in inputs}


def main(step: str, name: str, folder: Path, device: str) -> None:
    os.environ["BURNX_DEVICE"] = device
    entry, started = models.entries()[name], time.perf_counter()
    record: dict[str, Any] = {"status": "pass", "detail": "", "error": None}
    try:
        record["error"] = perform(step, entry, folder)
    except Mismatch as mismatch:
        record.update(status="wrong", detail=str(mismatch), error=mismatch.error)
    except Within as within:
        record.update(status=WITHIN, detail=str(within.args[0]), error=within.args[1])
    except models.Unavailable as reason:
        record.update(status="unfetched", detail=str(reason))
    except Exception as error:
        record.update(status="error", detail=f"{type(error).__name__}: {error}")
    record["seconds"] = round(time.perf_counter() - started, 3)
    (folder / f"{step}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
