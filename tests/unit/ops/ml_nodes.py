"""Models of one node of ai.onnx.ml, run by burnx and by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import burnx
from burnx.agreement.tolerance import close
from burnx.conformance.generated import import_generated
from burnx.tensor import to_numpy

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"
onnxruntime.set_default_logger_severity(4)


def ml_model(
    op_type: str, feeds: Mapping[str, Array], outputs: int = 1, version: int = 3, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node; the sizes of its inputs are open."""
    names = [f"y{place}" for place in range(outputs)]
    inputs = []
    for name, array in feeds.items():
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(name, code, [None] * array.ndim))
    node = helper.make_node(op_type, list(feeds), names, domain=ML, **attributes)
    graph = helper.make_graph(
        [node], "ml", inputs, [onnx.ValueInfoProto(name=name) for name in names]
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def run(op_type: str, *xs: Array, device: str = "reference", **options: Any) -> list[Any]:
    feeds = {f"x{place}": x for place, x in enumerate(xs)}
    loaded = burnx.load(ml_model(op_type, feeds, **options), device=device)
    return list(loaded.run(feeds).values())


def run_onnxruntime(op_type: str, *xs: Array, **options: Any) -> list[Any]:
    feeds = {f"x{place}": x for place, x in enumerate(xs)}
    session = onnxruntime.InferenceSession(
        ml_model(op_type, feeds, **options).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    return list(session.run(None, feeds))


def check(op_type: str, *xs: Array, device: str = "reference", **options: Any) -> None:
    """Raises: AssertionError unless burnx gives what onnxruntime does."""
    wanted = run_onnxruntime(op_type, *xs, **options)
    found = run(op_type, *xs, device=device, **options)
    difference = close(wanted, found)
    assert difference is None, f"{op_type} {options}: {difference}"


def floats(rng: np.random.Generator, count: int) -> list[float]:
    """Numbers that are float32 exactly."""
    return [float(each) for each in rng.normal(size=count).astype(np.float32)]


def on_routes(model: onnx.ModelProto, feeds: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a model gives when it is run, from its source, and exported again to onnxruntime."""
    onnx.save(model, folder / "model.onnx")
    burnx.import_onnx(str(folder / "model.onnx"), str(folder / "model.py"))
    network = import_generated(folder / "model.py").Model.load()
    called = network(*feeds.values())
    burnx.export_onnx(network, feeds, str(folder / "out.onnx"))
    onnx.checker.check_model(folder / "out.onnx", full_check=True)
    session = onnxruntime.InferenceSession(folder / "out.onnx", providers=["CPUExecutionProvider"])
    return {
        "run": list(burnx.load(model).run(feeds).values()),
        "source": to_numpy(list(called) if isinstance(called, tuple) else [called]),
        "roundtrip": session.run(None, dict(feeds)),
    }
