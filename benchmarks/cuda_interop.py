"""Arrays of CuPy and PyTorch into burnx on a CUDA device and back, by address: nothing passes through the host.

    python benchmarks/cuda_interop.py [--device cuda:0]

Prints a line for each check; exit status 1 if one fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

TEXT = """<ir_version: 8, opset_import: ["": 17]>
small (float[n, 3] x) => (float[n, 4] y, float[n, 3] same)
<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { y = MatMul(x, w) same = Identity(x) }"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = X @ np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def checks(device: str) -> Iterator[tuple[str, Callable[[], bool]]]:
    """What is checked, and how."""
    import cupy
    import torch
    from onnx import parser

    import burnx

    model = burnx.load(parser.parse_model(TEXT), device="cpu").to(device)
    given = {"cupy": cupy.asarray(X), "torch": torch.from_numpy(X).cuda()}
    no_copies = cupy.cuda.Stream(non_blocking=True)
    for name, x in given.items():
        y, same = model(x)
        yield f"{name}: outputs stay there", partial(_is, y.device, device)
        yield f"{name}: values", partial(np.allclose, y.numpy(), Y)
        yield f"{name}: no output is the input", partial(_differ, same, x)
        yield f"{name}: cupy.from_dlpack is the memory", partial(_same, cupy.from_dlpack, y)
        yield f"{name}: torch.from_dlpack is the memory", partial(_same, torch.from_dlpack, y)
        yield f"{name}: torch.as_tensor is the memory", partial(_same, _as_cuda_tensor, y)
        yield f"{name}: cupy.asarray is the memory", partial(_same, cupy.asarray, y)
    yield "a capsule keeps the memory", partial(_outlives, model, cupy, torch)
    yield "a strided input", lambda: np.allclose(model(given["cupy"].T.copy().T)[0].numpy(), Y)
    yield "an input that is not ready yet", partial(_waits, model, cupy, no_copies)
    yield "an input that is written to afterwards", partial(_is_taken, model, torch)
    compiled = burnx.compile(lambda t: t * 2, device)
    for name, x in given.items():
        doubled = compiled(x)
        yield f"{name}: compiled", partial(_are, doubled, X * 2)
        yield f"{name}: what is compiled leaves", partial(_same, torch.from_dlpack, doubled)
        yield f"{name}: plain calls", partial(_are, doubled + 1, X * 2 + 1)
    yield "half precision", partial(_half, burnx, cupy, device)
    yield "bfloat16", partial(_bfloat, burnx, torch, device)
    yield "a model on the cpu refuses", partial(_refuses, model.to("cpu"), given["torch"])
    yield "a gradient is refused", partial(_refuses, model, given["torch"].clone().requires_grad_())


def _is(found: Any, wanted: Any) -> bool:
    return bool(found == wanted)


def _are(found: Any, wanted: Any) -> bool:
    return bool(np.allclose(found.numpy(), wanted))


def _same(taken: Callable[[Any], Any], array: Any) -> bool:
    return _address(taken(array)) == _address(array)


def _differ(one: Any, other: Any) -> bool:
    return _address(one) != _address(other)


def _as_cuda_tensor(array: Any) -> Any:
    import torch

    return torch.as_tensor(array, device="cuda")


def _address(value: Any) -> int:
    return int(value.__cuda_array_interface__["data"][0])


def _outlives(model: Any, cupy: Any, torch: Any) -> bool:
    kept = torch.from_dlpack(model(cupy.asarray(X))[0])
    for _ in range(20):  # whoever freed it would hand it out again here
        model(cupy.zeros_like(cupy.asarray(X)))
    return bool(np.allclose(kept.cpu(), Y))


def _waits(model: Any, cupy: Any, stream: Any) -> bool:
    with stream:
        busy = cupy.ones((4096, 4096), cupy.float32)
        for _ in range(20):
            busy = busy @ busy * 1e-4
        x = cupy.asarray(X) + busy[0, 0] * 0
        return bool(np.allclose(model(x)[0].numpy(), Y, equal_nan=True))


def _is_taken(model: Any, torch: Any) -> bool:
    x = torch.from_numpy(X).cuda()
    y = model(x)[0]
    x.fill_(99)
    return bool(np.allclose(y.numpy(), Y))


def _half(burnx: Any, cupy: Any, device: str) -> bool:
    doubled = burnx.compile(lambda t: t * 2, device)(cupy.asarray(X.astype(np.float16)))
    return bool(np.array_equal(cupy.from_dlpack(doubled).get(), (X * 2).astype(np.float16)))


def _bfloat(burnx: Any, torch: Any, device: str) -> bool:
    x = torch.from_numpy(X).cuda().to(torch.bfloat16)
    doubled = burnx.compile(lambda t: t * 2, device)(x)
    return bool(torch.equal(torch.from_dlpack(doubled), x * 2))


def _refuses(model: Any, x: Any) -> bool:
    from burnx.errors import InputError

    try:
        model(x)
    except InputError:
        return True
    return False


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    failed = 0
    for name, check in checks(parser.parse_args(arguments).device):
        try:
            said = "ok" if check() else "WRONG"
        except Exception as error:  # the other checks are worth knowing, too
            said = f"{type(error).__name__}: {str(error)[:300]}"
        failed += said != "ok"
        print(f"{name}: {said}", flush=True)
    print("all ok" if not failed else f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
