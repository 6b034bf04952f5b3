"""Every tile of burnx's products on a CUDA device: whether it is right, and how fast, beside CuPy's own product.

    python benchmarks/gpu_products.py [--shapes REGEX] [--dtypes float16,float32] [--all] [--json FILE] [--seconds 500]

The shapes are those of ResNet-50 and MobileNetV2 at batch 1 and 32 (as implicit products), BERT-base and ViT-B/16.  A form is right if
no element is further from the product in float64 than rounding its sums explains.  ``--all`` tries the whole menu instead
of the forms that the emitter would try.  CuPy does not have to be installed to list the shapes (--list).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from burnx.dtype import DTYPES, DType, dtype_name, float32
from burnx.gpu import tiles
from burnx.gpu.code import Code, Form, Limits
from burnx.gpu.dialects import CUDA
from burnx.gpu.emitter import prelude, write
from burnx.kernels.ir import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Contract,
    Kernel,
    Load,
    Local,
    Store,
    Value,
)
from burnx.shape import Dim, symbol

ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # the last bit, as a share of a number
REPEATS = 5
MOST = 100
VERBOSE = "--verbose" in sys.argv
CACHED = 100 << 20  # bytes
LIMITS = Limits(1024, 227 << 10, 32, 132, frozenset({"float16", "bfloat16"}), 90)


@dataclass(frozen=True, slots=True)
class Shape:
    """A convolution of (batch, side, side, channels) by a square window, or with ``side`` 0 a product of rows."""

    name: str
    batch: int  # or rows
    side: int
    channels: int  # or inner
    outputs: int  # or columns
    window: int = 1
    stride: int = 1
    rest: str = "bias"  # what follows the sums: bias, residual (and relu), gelu

    @property
    def out(self) -> int:
        return (self.side + 2 * (self.window // 2) - self.window) // self.stride + 1

    @property
    def rows(self) -> int:
        return self.batch * self.out * self.out if self.side else self.batch

    @property
    def inner(self) -> int:
        return self.window * self.window * self.channels

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.inner * self.outputs


def resnet50(batch: int) -> Iterator[Shape]:
    """The convolutions that differ."""
    yield Shape(f"resnet-b{batch}-stem", batch, 224, 3, 64, 7, 2)
    before = 64
    for side, wide in ((56, 64), (28, 128), (14, 256), (7, 512)):
        name = f"resnet-b{batch}-{side}"
        first = side if wide == 64 else 2 * side
        yield Shape(f"{name}-in-first", batch, first, before, wide)
        if wide != 64:
            yield Shape(f"{name}-window-first", batch, first, wide, wide, 3, 2)
        yield Shape(f"{name}-beside", batch, first, before, 4 * wide, 1, first // side)
        yield Shape(f"{name}-in", batch, side, 4 * wide, wide)
        yield Shape(f"{name}-window", batch, side, wide, wide, 3)
        yield Shape(f"{name}-out", batch, side, wide, 4 * wide, rest="residual")
        before = 4 * wide
    yield Shape(f"resnet-b{batch}-last", batch, 0, 2048, 1000)


def mobilenet(batch: int) -> Iterator[Shape]:
    """The products that differ between MobileNetV2's depthwise convolutions."""
    pairs = (
        (112, 32, 16), (112, 16, 96), (56, 96, 24), (56, 24, 144), (56, 144, 24), (28, 144, 32), (28, 32, 192),
        (28, 192, 32), (14, 192, 64), (14, 64, 384), (14, 384, 64), (14, 384, 96), (14, 96, 576), (14, 576, 96),
        (7, 576, 160), (7, 160, 960), (7, 960, 160), (7, 960, 320), (7, 320, 1280),
    )  # fmt: skip
    yield Shape(f"mobilenet-b{batch}-stem", batch, 224, 3, 32, 3, 2)
    for side, inner, outputs in pairs:
        yield Shape(f"mobilenet-b{batch}-{side}-{inner}x{outputs}", batch, side, inner, outputs)


def transformers() -> Iterator[Shape]:
    for name, tokens in (("bert-b1", 128), ("vit-b1", 197), ("bert-b32", 4096), ("vit-b32", 6304)):
        for inner, columns in ((768, 768), (768, 2304), (768, 3072), (3072, 768)):
            rest = "gelu" if columns == 3072 else "bias"
            yield Shape(f"{name}-{inner}x{columns}", tokens, 0, inner, columns, rest=rest)
    yield Shape("square-4096", 4096, 0, 4096, 4096)
    yield Shape("one-row", 1, 0, 4096, 4096)


def all_shapes() -> list[Shape]:
    return [*resnet50(1), *resnet50(32), *mobilenet(1), *mobilenet(32), *transformers()]


# --- kernels --------------------------------------------------------------------------------------------------------


def kernel_of(shape: Shape, dtype: DType) -> Kernel:
    """The kernel that burnx's scheduler makes of such a convolution or product, with a bias."""
    data, weights = Buffer("data", dtype), Buffer("weights", dtype)
    bias, result = Buffer("bias", dtype), Buffer("result", dtype)
    b, y, x, v, u, c, n = (symbol(f"${place}") for place in range(7))
    names = tuple(f"n{place}" for place in range(16))
    s = dict(zip(_SIZES, map(symbol, names), strict=True))
    column = ("$6", s["outputs"])
    if not shape.side:
        rows: list[tuple[str, Dim]] = [("$0", s["batch"])]
        inner: list[tuple[str, Dim]] = [("$5", s["channels"])]
        left, right = b * s["xb"] + c, c * s["wc"] + n
        place = b * s["ob"] + n
    else:
        window: Dim = shape.window
        rows = [("$0", s["batch"]), ("$1", s["out"]), ("$2", s["out2"])]
        inner = [("$3", window), ("$4", window), ("$5", s["channels"])]
        inner = inner[2:] if window == 1 else inner
        left = b * s["xb"] + y * s["xy"] + x * s["xx"] + c
        right = c * s["wc"] + n
        if window != 1:
            left, right = left + v * s["xv"] + u * s["xu"], right + v * s["wv"] + u * s["wu"]
        place = b * s["ob"] + y * s["oy"] + x * s["ox"] + n
    beside = Buffer("beside", dtype)
    total = _REST[shape.rest](Local("p", float32), _wide(Load(bias, n)), _wide(Load(beside, place)))
    store = Store(result, place, total if dtype == float32 else Cast(total, dtype))
    contract = Contract(
        "p",
        tuple(rows),
        column,
        tuple(inner),
        Load(data, left),
        Load(weights, right),
        float32,
        (store,),
        parallel=True,
    )
    return Kernel((data, weights, bias, result, beside), names, (contract,))


def _wide(value: Value) -> Value:
    return value if value.dtype == float32 else Cast(value, float32)


def _apply(function: str, *arguments: Value | float) -> Value:
    given = [Constant(each, float32) if isinstance(each, float) else each for each in arguments]
    return Apply(function, tuple(given), float32)


def _gelu(product: Value, bias: Value, _: Value) -> Value:
    x = _apply("add", product, bias)
    erf = _apply("erf", _apply("mul", x, 0.5**0.5))
    return _apply("mul", _apply("mul", x, 0.5), _apply("add", erf, 1.0))


def _residual(product: Value, bias: Value, beside: Value) -> Value:
    return _apply("max", _apply("add", _apply("add", product, bias), beside), 0.0)


_REST: dict[str, Callable[[Value, Value, Value], Value]] = {
    "bias": lambda product, bias, _: _apply("add", product, bias),
    "gelu": _gelu,
    "residual": _residual,
}


_SIZES = (
    "batch", "out", "out2", "channels", "outputs", "xb", "xy", "xx", "xv", "xu", "wv", "wu", "wc", "ob", "oy", "ox",
)  # fmt: skip


def sizes_of(shape: Shape) -> dict[str, int]:
    whole = shape.side + 2 * (shape.window // 2)
    line = whole * shape.channels
    out, outputs, channels = shape.out, shape.outputs, shape.channels
    if not shape.side:
        values = (
            shape.batch, 1, 1, channels, outputs, channels, 0, 0, 0, 0, 0, 0, outputs, outputs, 0, 0,
        )  # fmt: skip
    else:
        step = shape.stride
        values = (
            shape.batch, out, out, channels, outputs, whole * line, step * line, step * channels, line, channels,
            shape.window * channels * outputs, channels * outputs, outputs,
            out * out * outputs, out * outputs, outputs,
        )  # fmt: skip
    return {f"n{place}": value for place, value in enumerate(values)}


def copies_of(shape: Shape, dtype: DType) -> int:
    """Copies of the weights: in a network of one image or text they come from memory, not from the cache."""
    size = shape.inner * shape.outputs * dtype.itemsize
    return max(1, min(40, CACHED // size)) if shape.rows <= 3200 else 1


def forms_of(kernel: Kernel, sizes: Mapping[str, int], whole_menu: bool) -> list[Form]:
    most = tiles.MOST
    tiles.MOST = 100 if whole_menu else most
    try:
        found = tiles.fit_tiles(kernel, LIMITS, sizes)
    finally:
        tiles.MOST = most
    return [*(form for form in found if form.matrices), *[e for e in found if not e.matrices][:3]][
        :MOST
    ]


# --- on the device --------------------------------------------------------------------------------------------------


class Bench:
    """Compiled functions by their text, and the work of one shape."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.functions: dict[str, Any] = {}

    def compile(self, codes: list[Code]) -> None:
        missing = {code.name: code for code in codes if code.name not in self.functions}
        with ThreadPoolExecutor(12) as pool:
            for name, function in pool.map(self._compile, missing.values()):
                self.functions[name] = function

    def _compile(self, code: Code) -> tuple[str, Any]:
        from burnx.runtime.devices.cuda.modules import allow_shared, load_function, make_stamp

        text = prelude(CUDA, code.needs) + code.text
        with self.cupy.cuda.Device():
            function = load_function(text, code.name, make_stamp(LIMITS.capability), "cuda:0")
        if code.local_bytes > 48 << 10:
            allow_shared(function, code.local_bytes)
        return code.name, function

    def operands(self, shape: Shape, dtype: DType) -> list[Any]:
        cupy = self.cupy
        random = cupy.random.default_rng(0)
        whole = shape.side + 2 * (shape.window // 2)
        count = shape.batch * (whole * whole if shape.side else 1) * shape.channels
        whole_result = shape.rows * shape.outputs
        copies = copies_of(shape, dtype)
        sizes = (count, shape.inner * shape.outputs, shape.outputs, whole_result, whole_result)
        made = [random.standard_normal(size, dtype=np.float32).astype(dtype) for size in sizes]
        made[1] = cupy.tile(made[1], copies).reshape(copies, -1)
        made[3][...] = 0
        return made

    def matrix(self, shape: Shape, data: Any) -> Any:
        """The left operand as a matrix."""
        if not shape.side:
            return data.reshape(shape.rows, shape.inner)
        whole, size = shape.side + 2 * (shape.window // 2), data.itemsize
        line, step = whole * shape.channels, shape.stride
        strides = (whole * line, step * line, step * shape.channels, line, shape.channels, 1)
        dims = (shape.batch, shape.out, shape.out, shape.window, shape.window, shape.channels)
        spread = self.cupy.lib.stride_tricks.as_strided(
            data, dims, tuple(size * each for each in strides)
        )
        return self.cupy.ascontiguousarray(spread).reshape(shape.rows, shape.inner)

    def time_ms(self, calls: Sequence[Any]) -> float:
        """The time of a call, of several that are launched as one graph."""
        cupy = self.cupy
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
            for call in calls:
                call()
            graph = stream.end_capture()
            best = float("inf")
            for _ in range(REPEATS):
                start, stop = cupy.cuda.Event(), cupy.cuda.Event()
                start.record(stream)
                graph.launch(stream)
                stop.record(stream)
                stop.synchronize()
                best = min(best, cupy.cuda.get_elapsed_time(start, stop))
        return best / len(calls)

    def peer_ms(self, left: Any, right: Any) -> float:
        """The time of CuPy's product."""
        cupy = self.cupy
        result = left @ right
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        best = float("inf")
        for _ in range(2):
            start.record()
            for _ in range(10):
                cupy.matmul(left, right, out=result)
            stop.record()
            stop.synchronize()
            best = min(best, cupy.cuda.get_elapsed_time(start, stop) / 10)
        return best

    def run(self, shape: Shape, dtype: DType, whole_menu: bool) -> dict[str, Any]:
        """Check and time every form of a shape."""
        cupy = self.cupy
        kernel, sizes = kernel_of(shape, dtype), sizes_of(shape)
        forms = forms_of(kernel, sizes, whole_menu)
        codes = [write(kernel, CUDA, form) for form in forms]
        self.compile(codes)
        operands = self.operands(shape, dtype)
        left = self.matrix(shape, operands[0])
        right = operands[1][0].reshape(shape.inner, shape.outputs)
        wanted = self.wanted(shape, left, right, operands)
        size = cupy.sqrt(shape.inner) * 4
        rows = []
        for form, code in zip(forms, codes, strict=True):
            rows.append(self._row(shape, form, code, operands, sizes, wanted, float(size)))
        peer = self.peer_ms(left, right)
        return {"shape": shape.name, "dtype": str(dtype), "peer_ms": peer, "forms": rows}

    def wanted(self, shape: Shape, left: Any, right: Any, operands: Sequence[Any]) -> Any:
        """The right result in float64."""
        cupy = self.cupy
        total = left.astype(np.float64) @ right.astype(np.float64) + operands[2].astype(np.float64)
        if shape.rest == "residual":
            return cupy.maximum(total + operands[4].reshape(total.shape).astype(np.float64), 0)
        if shape.rest == "gelu":
            erf = cupy.ElementwiseKernel("float64 x", "float64 y", "y = erf(x)", "erf_of")
            return total * 0.5 * (1 + erf(total * 0.5**0.5))
        return total

    def _row(
        self, shape: Shape, form: Form, code: Code, operands: list[Any], sizes: Any, wanted: Any, size: float
    ) -> dict[str, Any]:  # fmt: skip
        cupy = self.cupy
        function, groups = self.functions[code.name], code.groups(sizes, 1)
        assert code.kernel is not None
        numbers = [np.int32(sizes[name]) for name in code.kernel.sizes]
        error = cupy.zeros(1, np.int32)
        operands[3][...] = 0

        def call(weights: Any) -> None:
            data, _, *others = operands
            arguments = (data, weights, *others, *numbers, error)
            function(groups, (form.group, 1, 1), arguments, shared_mem=code.local_bytes)

        call(operands[1][0])
        found = operands[3].reshape(wanted.shape).astype(np.float64)
        worst = float(cupy.abs(found - wanted).max())
        rounding = ROUNDING.get(dtype_name(operands[3].dtype), 0.0) * float(cupy.abs(wanted).max())
        epsilon = 2.0**-9 if form.matrices.endswith("tfloat32") else 2.0**-21
        turns = [operands[1][place % len(operands[1])] for place in range(max(4, len(operands[1])))]
        ms = self.time_ms([partial(call, each) for each in turns])
        return {
            "units": form.matrices,
            "tile": form.tile,
            "ms": ms,
            "tflops": shape.flops / ms / 1e9,
            "error": worst,
            "right": worst <= rounding + epsilon * size * 8,
        }


def report(result: dict[str, Any], flops: int) -> None:
    forms = result["forms"]
    best = min(forms, key=lambda each: each["ms"])
    first, wrong = forms[0], [each for each in forms if not each["right"]]
    print(
        f"{result['shape']:28} {result['dtype']:8} cupy {result['peer_ms']:.4f} ms {flops / result['peer_ms'] / 1e9:6.1f} T"
        f" | first {first['ms']:.4f} {first['tflops']:6.1f} T"
        f" | best {best['ms']:.4f} {best['tflops']:6.1f} T {best['units'] or 'plain'} {best['tile'][:7]}",
        flush=True,
    )
    if VERBOSE:
        for each in sorted(forms, key=lambda each: each["ms"])[:8]:
            print(
                f"    {each['ms'] * 1e3:8.1f} us {each['tflops']:6.1f} T {each['units'] or 'plain'} {each['tile']}"
            )
    for each in wrong:
        print(f"  WRONG {each['units'] or 'plain'} {each['tile']} off by {each['error']:.3g}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default="", metavar="REGEX", help="those it is found in")
    parser.add_argument("--dtypes", default="float16,float32")
    parser.add_argument("--tf32", action="store_true", help="float32 in TF32")
    parser.add_argument("--all", action="store_true", help="the whole menu of tiles")
    parser.add_argument("--verbose", action="store_true", help="the eight fastest of each shape")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=500, help="begin no shape after that")
    parser.add_argument(
        "--list", action="store_true", help="list shapes and forms; needs no device"
    )
    parser.add_argument("--most", type=int, default=MOST, help="forms of a shape")
    options = parser.parse_args()
    globals()["MOST"] = options.most
    if options.tf32:
        globals()["LIMITS"] = replace(LIMITS, matrices=LIMITS.matrices | {"tfloat32"})
    shapes = [shape for shape in all_shapes() if re.search(options.shapes, shape.name)]
    if options.list:
        for shape in shapes:
            forms = forms_of(kernel_of(shape, float32), sizes_of(shape), options.all)
            print(shape.name, shape.rows, shape.outputs, shape.inner, [each.tile for each in forms])
        return 0
    bench, results, start = Bench(), [], time.monotonic()
    for name in options.dtypes.split(","):
        for shape in shapes:
            if time.monotonic() - start > options.seconds:
                print("out of time")
                break
            results.append(bench.run(shape, DTYPES[name], options.all))
            report(results[-1], shape.flops)
    if options.json:
        options.json.write_text(json.dumps(results))
    wrong = [one for each in results for one in each["forms"] if not one["right"]]
    print(f"{len(results)} shapes, {len(wrong)} wrong forms, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
