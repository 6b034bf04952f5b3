"""burnx: ONNX in, readable Python in between, ONNX out, on its own runtime."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "BurnxError": "burnx.errors",
    "Device": "burnx.runtime.device",
    "Input": "burnx.nn",
    "Output": "burnx.nn",
    "Tensor": "burnx.tensor",
    "compile": "burnx.api",
    "cond": "burnx.capture.flow",
    "devices": "burnx.runtime.device",
    "export_onnx": "burnx.api",
    "import_onnx": "burnx.api",
    "load": "burnx.api",
    "loop": "burnx.capture.flow",
    "memory_report": "burnx.runtime.memory",
    "nn": "burnx.nn",
    "ops": "burnx.ops",
    "scan": "burnx.capture.flow",
    "script": "burnx.capture.scripting",
    "sequence_map": "burnx.capture.flow",
    "stack": "burnx.capture.carried",
    "trace": "burnx.api",
}
__all__ = [
    "BurnxError",
    "Device",
    "Input",
    "Output",
    "Tensor",
    "compile",
    "cond",
    "devices",
    "export_onnx",
    "import_onnx",
    "load",
    "loop",
    "memory_report",
    "nn",
    "ops",
    "scan",
    "script",
    "sequence_map",
    "stack",
    "trace",
]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"burnx has no {name!r}")
    module = importlib.import_module(where)
    if name == "ops":  # what is not captured is worked out: that takes the room above
        importlib.import_module("burnx.capture.lazy")
    value = module if where.endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


if TYPE_CHECKING:
    from burnx import nn, ops
    from burnx.api import compile, export_onnx, import_onnx, load, trace
    from burnx.capture.carried import stack
    from burnx.capture.flow import cond, loop, scan, sequence_map
    from burnx.capture.scripting import script
    from burnx.errors import BurnxError
    from burnx.nn import Input, Output
    from burnx.runtime.device import Device, devices
    from burnx.runtime.memory import memory_report
    from burnx.tensor import Tensor
