"""burnx: ONNX in, readable Python in between, ONNX out, on its own runtime."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "BurnxError": "burnx.errors",
    "Device": "burnx.runtime.device",
    "Tensor": "burnx.tensor",
    "devices": "burnx.runtime.device",
    "load": "burnx.api",
    "nn": "burnx.nn",
    "ops": "burnx.ops",
}
__all__ = [*_WHERE]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"burnx has no {name!r}")
    module = importlib.import_module(where)
    value = module if where.endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


if TYPE_CHECKING:
    from burnx import nn, ops
    from burnx.api import load
    from burnx.errors import BurnxError
    from burnx.runtime.device import Device, devices
    from burnx.tensor import Tensor
