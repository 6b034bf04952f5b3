"""One process of ``cuda_torch.py``: measures rows, each engine in turn, and prints a line of JSON for each as soon as it is there.

It reads a list of rows from stdin.  What a row could not do is its ``errors``; the other engines go on.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cuda_models import TOLERANCE, make_inputs, make_model

MARK = "ROW "  # what is not a row is somebody else's print
Call = Callable[[], Any]
OVERHEAD = (100, 200)  # steps of the chains whose difference is the overhead


def measure(row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of all engines for a model, dtype and batch size."""
    import torch

    found: dict[str, Any] = {"errors": {}}
    calls: dict[str, Call] = {}
    outputs: dict[str, Any] = {}
    with torch.inference_mode():
        expected = _exact(row)
        model = make_model(row["model"], row["dtype"]).to(row["torch_device"])
        inputs = _on(row, make_inputs(row["model"], row["dtype"], row["batch"]))
        opened = {
            "eager": lambda: _open_eager(model, inputs),
            "compile": lambda: _open_compiled(model, inputs, found),
            "burnx": lambda: _open_burnx(row, inputs, found),
            "burnx from torch": lambda: _open_from_torch(calls["burnx"], inputs),
        }
        for engine in row["engines"]:
            try:
                calls[engine] = opened[engine]()
                outputs[engine] = _as_torch(calls[engine]())
            except Exception as error:  # one engine's failure is its own
                calls.pop(engine, None)
                found["errors"][engine] = f"{type(error).__name__}: {str(error)[:600]}"
        found["difference"] = {name: _apart(expected, each) for name, each in outputs.items()}
        tolerance = TOLERANCE["tf32" if row["tf32"] else row["dtype"]]
        found["agrees"] = {name: apart <= tolerance for name, apart in found["difference"].items()}
        del outputs, expected
        found |= _take_turns(calls, row)
    return found


# --- engines ------------------------------------------------------------------------------------------------------
def _exact(row: Mapping[str, Any]) -> Any:
    """The output in float32 without TF32."""

    _allow_tf32(False)
    try:
        model = make_model(row["model"], "fp32").to(row["torch_device"])
        inputs = _on(row, make_inputs(row["model"], row["dtype"], row["batch"]))
        given = [each.float() if each.is_floating_point() else each for each in inputs]
        return model(*given).float().cpu()
    finally:
        _allow_tf32(bool(row["tf32"]))


def _allow_tf32(allowed: bool) -> None:
    """Whether PyTorch computes products and convolutions of float32 in TF32."""
    import torch

    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def _on(row: Mapping[str, Any], inputs: tuple[Any, ...]) -> list[Any]:
    return [each.to(row["torch_device"]) for each in inputs]


def _open_eager(model: Any, inputs: list[Any]) -> Call:
    def call() -> Any:
        result = model(*inputs)
        _finish_torch()
        return result

    return call


def _open_compiled(model: Any, inputs: list[Any], found: dict[str, Any]) -> Call:
    import torch

    torch._dynamo.reset()
    compiled = torch.compile(model, mode="reduce-overhead")

    def call() -> Any:
        result = compiled(*inputs)
        _finish_torch()
        return result

    found["compile_first_ms"] = _timed_ms(call)
    for _ in range(3):  # its graphs are recorded in the calls after the first
        call()
    return call


def _open_burnx(row: Mapping[str, Any], inputs: list[Any], found: dict[str, Any]) -> Call:
    """burnx on arrays in its own memory; opened with empty caches, and again with those that this left."""
    import burnx

    where = burnx.Device(row["device"])
    given = [where.put(each.cpu().numpy()) for each in inputs]
    folder = tempfile.mkdtemp(prefix="burnx-cuda-", dir=row["scratch"])
    os.environ["BURNX_CACHE"] = f"{folder}/burnx"
    os.environ["CUPY_CACHE_DIR"] = f"{folder}/cupy"
    for caches in ("cold", "warm"):
        _forget_functions(row["device"])
        model = None
        started = time.perf_counter()
        model = burnx.load(row["file"], device=where)
        found[f"burnx_{caches}_load_ms"] = (time.perf_counter() - started) * 1e3
        _finished(model(*given))
        found[f"burnx_{caches}_ms"] = (time.perf_counter() - started) * 1e3
    return partial(_call_burnx, model, given)


def _open_from_torch(call: Any, inputs: list[Any]) -> Call:
    """The same model on PyTorch's tensors."""
    return partial(_call_burnx, call.args[0], inputs)


def _call_burnx(model: Any, given: list[Any]) -> Any:
    return _finished(model(*given))


def _forget_functions(device: str) -> None:
    """Forget what is built, as a new process has not built it."""
    room = importlib.import_module(f"burnx.runtime.devices.{device.partition(':')[0]}")
    if ":" in device:
        room.find_driver(device).functions.clear()
    gc.collect()


def _finished(result: Any) -> Any:
    """A result, once it is there."""
    driver = getattr(result, "driver", None)
    if driver is not None:
        driver.finish()
    return result


def _finish_torch() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


# --- figures ------------------------------------------------------------------------------------------------------
def _take_turns(calls: Mapping[str, Call], row: Mapping[str, Any]) -> dict[str, Any]:
    """Median and least milliseconds of each engine's calls; engines take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(row["rounds"]):
        for name, call in calls.items():
            call()
            until = time.perf_counter() + row["turn_s"]
            done = 0
            while done < 5 or time.perf_counter() < until:
                times[name].append(_timed_ms(call))
                done += 1
    return {
        name: {"median_ms": statistics.median(each), "min_ms": min(each), "calls": len(each)}
        for name, each in times.items()
    }


def _timed_ms(call: Call) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3


def _as_torch(result: Any) -> Any:
    import torch

    value = result[0] if isinstance(result, (tuple, list)) else result
    if not isinstance(value, torch.Tensor):
        value = torch.from_numpy(value.numpy() if hasattr(value, "numpy") else value)
    return value.float().cpu().clone()


def _apart(expected: Any, found: Any) -> float:
    """The largest difference, as a share of the largest magnitude; infinite for another shape or NaN."""
    if expected.shape != found.shape:
        return float("inf")
    apart = float((expected - found).abs().max() / expected.abs().max())
    return apart if apart == apart else float("inf")


# --- what a launch costs --------------------------------------------------------------------------------------------
def measure_launches(row: Mapping[str, Any]) -> dict[str, Any]:
    """What each kernel of a replayed program takes when it has next to nothing to do, launch included."""
    import burnx

    where = burnx.Device(row["device"])
    medians, kernels = [], []
    for steps in OVERHEAD:
        model = burnx.load(_chain(steps), device=where)
        given = where.put(_eye())
        profile = model.profile({"x": _eye()})
        kernels.append(len(profile))
        calls: dict[str, Call] = {"chain": partial(_call_burnx, model, [given])}
        medians.append(_take_turns(calls, row)["chain"]["median_ms"])
    apart_us = (medians[1] - medians[0]) / (OVERHEAD[1] - OVERHEAD[0]) * 1e3
    return {
        "errors": {},
        "steps": list(OVERHEAD),
        "kernels": kernels,
        "call_ms": medians,
        "per_kernel_us": apart_us,
    }


def _chain(steps: int) -> Any:
    """Products of small matrices, one after the other: a kernel each, since a product is kept in memory."""
    from onnx import TensorProto, helper, numpy_helper

    kind = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", [f"v{at}" if at else "x", "w"], [f"v{at + 1}"], name=f"step{at}")
        for at in range(steps)
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [kind("x", TensorProto.FLOAT, [16, 16])],
        [kind(f"v{steps}", TensorProto.FLOAT, [16, 16])],
        [numpy_helper.from_array(_eye(), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _eye() -> Any:
    import numpy as np

    return np.eye(16, dtype=np.float32)


def _release() -> None:
    """Give memory back, so that the next row finds it."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


def main() -> int:
    measures = {"model": measure, "launches": measure_launches}
    for row in json.load(sys.stdin):
        try:
            found = measures[row["kind"]](row)
        except Exception as error:  # the next row may do better
            found = {"errors": {"row": f"{type(error).__name__}: {str(error)[:600]}"}}
        print(MARK + json.dumps({**row, **found}), flush=True)
        _release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
