"""The engines that bench can time: how to import each, and how to open a model in it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from burnx.errors import DeviceError, UsageError

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Job:
    """What a child is to do: run ``model`` in ``engine`` on the inputs pickled at ``inputs``.

    ``options`` are the keyword arguments of ``burnx.load`` beside ``threads``; other engines take none.
    """

    engine: str
    model: str
    inputs: str
    threads: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Engine:
    """``package`` is what must be installed, ``modules`` what counts as importing the engine."""

    package: str
    modules: tuple[str, ...]
    open: Callable[[Job, Mapping[str, Any]], Call]


def check_installed(name: str) -> None:
    """Raises: DeviceError if the engine is not installed."""
    engine = ENGINES[name]
    if importlib.util.find_spec(engine.package) is None:
        raise DeviceError(f"{name} is not installed: pip install {engine.package}")


def _open_burnx(job: Job, inputs: Mapping[str, Any]) -> Call:
    from burnx import api

    model = api.load(job.model, threads=job.threads, **job.options)
    return lambda: model.run(dict(inputs))


def _open_onnxruntime(job: Job, inputs: Mapping[str, Any]) -> Call:
    from burnx.conformance.engines import open_onnxruntime

    run = open_onnxruntime(job.model, job.threads)
    return lambda: run(inputs)


def _open_openvino(job: Job, inputs: Mapping[str, Any]) -> Call:
    openvino = importlib.import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": job.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # else it may answer in bfloat16 where the CPU has it
    }
    request = openvino.Core().compile_model(job.model, "CPU", settings).create_infer_request()
    return lambda: request.infer(dict(inputs))


def _open_torch(job: Job, inputs: Mapping[str, Any]) -> Call:
    torch = importlib.import_module("torch")
    torch.set_num_threads(job.threads)
    module = _torch_module(torch, job.model)
    tensors = [torch.from_numpy(np.array(value)) for value in inputs.values()]

    def call() -> object:
        with torch.inference_mode():
            return module(*tensors)

    return call


def _torch_module(torch: Any, model: str) -> Any:
    path = torch_file(model)
    if path.suffix == ".pt2":
        return torch.export.load(str(path)).module()
    if path.suffix == ".onnx":
        return importlib.import_module("onnx2torch").convert(str(path)).eval()
    return torch.jit.load(str(path), map_location="cpu").eval()


def torch_file(model: str) -> Path:
    """The exported program or TorchScript file beside a model; PyTorch itself does not read ONNX.

    The ONNX file, if there is neither and onnx2torch is installed.
    Raises: UsageError if there is nothing that PyTorch can run.
    """
    stem = Path(model.partition(".py:")[0]).with_suffix("")
    for suffix in (".pt2", ".torchscript.pt", ".ts"):
        path = stem.with_name(stem.name + suffix)
        if path.exists():
            return path
    if model.endswith(".onnx") and importlib.util.find_spec("onnx2torch") is not None:
        return Path(model)
    raise UsageError(
        f"PyTorch does not read ONNX: --against torch runs {stem}.pt2 (torch.export.save) or "
        f"{stem}.torchscript.pt (torch.jit.save), or takes onnx2torch; none of them is there"
    )


def listed(results: Any) -> list[Any]:
    """What a call gave, as a list of arrays in the model's order."""
    if isinstance(results, Mapping):
        results = list(results.values())
    values = results if isinstance(results, (list, tuple)) else [results]
    return [value.numpy() if hasattr(value, "numpy") else value for value in values]


_OWN = (
    "burnx.api",
    "burnx.importer.onnx_file",
    "burnx.importer.onnx_graph",
    "burnx.lowering",
    "burnx.runtime.devices.cpu",
)
ENGINES: dict[str, Engine] = {
    "burnx": Engine("burnx", _OWN, _open_burnx),
    "onnxruntime": Engine(
        "onnxruntime",
        ("onnxruntime", "burnx.conformance.engines"),
        _open_onnxruntime,
    ),
    "openvino": Engine("openvino", ("openvino",), _open_openvino),
    "torch": Engine("torch", ("torch",), _open_torch),
}
