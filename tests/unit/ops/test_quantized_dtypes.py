"""Casts and quantization over every dtype of their type constraints, against the reference evaluator of onnx.

burnx follows the text of the standard where that evaluator does not:

- Cast to float8e8m0: an infinity saturates to the greatest number, 0 without saturation is NaN (table of Cast), and
  2^-127 stays what it is.
- QuantizeLinear: "the type of y_scale determines the precision of the division", where NumPy takes the wider type.
- QLinearMatMul of float8: the evaluator makes integers of them first; rounding comes before the zero point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import burnx

Array = np.ndarray[Any, Any]
DEVICES = ("reference", "cpu")
FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz")
FLOATS += ("float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
INTEGERS += ("int4", "uint4", "int2", "uint2")
NAMES = (*FLOATS, *INTEGERS, "bool")
QUANTIZED = ("uint8", "int8", "uint16", "int16", "uint4", "int4", "uint2", "int2", *FLOATS[4:])
EDGES = [0, -0.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, 2.0**-127, 2.0**-149, 3.4e38]
EDGES += [5, 6, 7, 7.5, 28, 30, 240, 248, 448, 464, 465, 480, 57344, 61440, 65504, 65520]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def code_of(name: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype_of(name)))


def bounds(name: str) -> tuple[int, int]:
    info = ml_dtypes.iinfo(dtype_of(name))
    return int(info.min), int(info.max)


def whole(name: str, shape: Any, rng: np.random.Generator) -> Array:
    low, high = bounds(name)
    numbers = np.asarray(rng.integers(low, high, shape, np.int64 if low else np.uint64, True))
    return numbers.astype(np.int8 if dtype_of(name).kind == "V" else numbers.dtype).astype(
        dtype_of(name)
    )


def every(name: str) -> Array:
    """Every number of a small dtype, many and the edges of others."""
    rng, dtype = np.random.default_rng(5), dtype_of(name)
    if name == "bool":
        return np.array([True, False])
    if name in INTEGERS:
        return np.append(whole(name, 100, rng), np.arange(2).astype(np.int8).astype(dtype))
    if dtype.itemsize == 1:
        count = {"float4": 16, "float6": 64}.get(name[:6], 256)
        return np.arange(count, dtype=np.uint8).view(dtype)
    scales = (1e-8, 1e-3, 1, 20, 1000, 1e6)
    with np.errstate(over="ignore"):
        return np.concatenate([*(rng.normal(size=40) * s for s in scales), EDGES]).astype(dtype)


def defined(x: Array, source: str, target: str) -> Array:
    """Without the floats that an integer dtype has not, for which the standard says nothing."""
    if source not in FLOATS or target not in INTEGERS:
        return x
    (low, high), wide = bounds(target), x.astype(np.float64)
    return x[np.isfinite(wide) & (wide >= low) & (wide <= min(high, 2**62))]


Call = tuple[Mapping[str, Array | None], Mapping[str, Any]]


def calls_model(op: str, calls: Sequence[Call]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """One node for each call, with inputs and an output of its own, and what to feed."""
    infos, nodes, feeds = [], [], {}
    for number, (inputs, attributes) in enumerate(calls):
        given = {f"{name}{number}": x for name, x in inputs.items()}
        feeds |= {name: x for name, x in given.items() if x is not None}
        names = [name if x is not None else "" for name, x in given.items()]
        nodes.append(helper.make_node(op, names, [f"out{number}"], **attributes))
    for name, x in feeds.items():
        code = helper.np_dtype_to_tensor_dtype(x.dtype)
        infos.append(helper.make_tensor_value_info(name, code, list(x.shape)))
    results = [onnx.ValueInfoProto(name=f"out{number}") for number in range(len(calls))]
    graph = helper.make_graph(nodes, "calls", infos, results)
    opsets = [helper.make_opsetid("", 28)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=13), feeds


def run(device: str, op: str, inputs: Mapping[str, Array | None], **attributes: Any) -> Array:
    model, feeds = calls_model(op, [(inputs, attributes)])
    (found,) = burnx.load(model, device=device).run(feeds).values()
    return found


@dataclass(frozen=True)
class Cast:
    """One of the casts of a model, so that one model has many."""

    x: Array
    target: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def middle(self) -> str | None:
        """Where NumPy has no way between two dtypes of few bits, one that it has to both."""
        try:
            self.x[:0].astype(dtype_of(self.target))
        except TypeError:
            is_float = "float" in self.x.dtype.name or "float" in self.target
            return "float32" if is_float else "int32"
        return None


def cast_model(casts: Sequence[Cast], by_way: bool) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """One with an input and an output of each cast, and its feeds; ``by_way`` of the middles."""
    infos, nodes, feeds = [], [], {}
    for number, cast in enumerate(casts):
        name, middle = f"x{number}", cast.middle if by_way else None
        feeds[name] = cast.x
        code = helper.np_dtype_to_tensor_dtype(cast.x.dtype)
        infos.append(helper.make_tensor_value_info(name, code, [len(cast.x)]))
        if middle is not None:
            nodes.append(helper.make_node("Cast", [name], [f"m{number}"], to=code_of(middle)))
            name = f"m{number}"
        options = {"to": code_of(cast.target), **cast.attributes}
        nodes.append(helper.make_node("Cast", [name], [f"y{number}"], **options))
    results = [onnx.ValueInfoProto(name=f"y{number}") for number in range(len(casts))]
    graph = helper.make_graph(nodes, "casts", infos, results)
    opsets = [helper.make_opsetid("", 28)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=13), feeds


def assert_cast_as_evaluated(casts: Sequence[Cast]) -> None:
    oracle, feeds = cast_model(casts, by_way=True)
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(oracle).run(None, feeds)
    for device in DEVICES:
        model = burnx.load(cast_model(casts, by_way=False)[0], device=device)
        for found, right in zip(model.run(feeds).values(), wanted, strict=True):
            assert_same(found, np.asarray(right))


def assert_as_evaluated(op: str, calls: Sequence[Call]) -> None:
    """Raises: AssertionError where a device gives other bits than the evaluator; NaN is NaN."""
    model, feeds = calls_model(op, calls)
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(model).run(None, feeds)
    for device in DEVICES:
        found = burnx.load(model, device=device).run(feeds).values()
        for one, right in zip(found, wanted, strict=True):
            assert_same(one, np.asarray(right))


def assert_same(found: Array, wanted: Array) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
        return
    left, right = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(left, right)
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(left)[numbers], np.signbit(right)[numbers])


@pytest.mark.parametrize("source", NAMES)
def test_cast(source: str) -> None:
    x = every(source)
    casts = [Cast(defined(x, source, target), target) for target in NAMES]
    casts += [Cast(x, target, {"saturate": 0}) for target in NAMES if "float8" in target]
    assert_cast_as_evaluated(casts)


@pytest.mark.parametrize("source", NAMES)
def test_cast_to_a_power_of_two(source: str) -> None:
    x = every(source)
    wide = x.astype(np.float64)
    x = x[np.isfinite(wide) & (wide >= 2.0**-126) & (wide < 2.0**127)]
    target = "float8_e8m0fnu"
    assert_cast_as_evaluated(
        [
            Cast(x, target, {"round_mode": mode, "saturate": saturate})
            for mode in ("up", "down", "nearest")
            for saturate in (0, 1)
        ]
    )


def test_edges_of_powers_of_two_are_those_of_the_table(device: str) -> None:
    x = np.array([0, np.nan, np.inf, 3.4e38, 2.0**-140, 2.0**-127], np.float32)
    to = code_of("float8_e8m0fnu")
    kept = run(device, "Cast", {"x": x}, to=to)
    least, most = 2.0**-127, 2.0**127
    wanted = np.array([least, np.nan, most, most, least, least])
    np.testing.assert_array_equal(kept.astype(np.float64), wanted)
    lost = run(device, "Cast", {"x": x}, to=to, saturate=0, round_mode="nearest")
    assert np.isnan(lost[:5].astype(np.float64)).all()


def test_cast_from_a_power_of_two() -> None:
    x = np.arange(256, dtype=np.uint8).view(dtype_of("float8_e8m0fnu"))
    wide = x.astype(np.float64)
    casts = [
        Cast(x[wide <= min(bounds(target)[1], 2**62)] if target in INTEGERS else x, target)
        for target in NAMES
    ]
    assert_cast_as_evaluated(casts)


def test_source_keeps_a_cast_that_saturates_an_infinity(tmp_path: Any) -> None:
    from burnx.conformance.generated import import_generated

    x = every("float8_e5m2")
    path = tmp_path / "model.onnx"
    model, _ = calls_model("Cast", [({"x": x}, {"to": code_of("float8_e5m2")})])
    path.write_bytes(model.SerializeToString())
    burnx.import_onnx(str(path), str(tmp_path / "generated.py"))
    found = import_generated(tmp_path / "generated.py").Model.load()(x).numpy()
    assert float(np.nanmax(found.astype(np.float32))) == 57344


# ---------------------------------------------------------------- quantization
# shape of the scale for data of (2, 3, 4), attributes
GRAINS: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((), {}),
    ((3,), {"axis": 1}),
    ((4,), {"axis": -1}),
    ((2, 3, 2), {"axis": 2, "block_size": 2}),
    ((2, 3, 2), {"axis": -1, "block_size": 3}),
    ((1, 3, 4), {"axis": 0, "block_size": 2}),
]


def scale_of(name: str, shape: Any, rng: np.random.Generator) -> Array:
    if name == "int32":
        return np.asarray(rng.integers(1, 5, shape)).astype(np.int32)
    if name == "float8_e8m0fnu":
        return (
            np.asarray(2.0 ** rng.integers(-3, 3, shape)).astype(np.float32).astype(dtype_of(name))
        )
    return np.asarray(np.abs(rng.normal(size=shape)) * 0.3 + 0.05).astype(dtype_of(name))


def zero_of(name: str, shape: Any, rng: np.random.Generator) -> Array:
    if name in FLOATS:
        return np.zeros(shape, np.float32).astype(dtype_of(name))
    return whole(name, shape, rng)


# one of each two always, all with the suite
HALF = [
    pytest.param(name, marks=[pytest.mark.suite] if number % 2 else [])
    for number, name in enumerate(QUANTIZED)
]
# dtypes of data and scale of which NumPy divides in the one of the scale, and the odd ones
DIVIDED = [("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16")]
DIVIDED += [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float8_e8m0fnu")]
DIVIDED += [("int32", "float32"), ("int32", "int32"), ("float32", "int32")]


@pytest.mark.parametrize("name", HALF)
def test_quantize(name: str) -> None:
    rng, calls = np.random.default_rng(7), []
    for (data, scale), (shape, chosen) in product(DIVIDED, GRAINS):
        x = rng.normal(size=(2, 3, 4)) * (300 if "16" in name else 30 if "8" in name else 3)
        x = np.rint(x).astype(np.int32) if data == "int32" else x.astype(dtype_of(data))
        inputs = {"x": x, "s": scale_of(scale, shape, rng), "z": zero_of(name, shape, rng)}
        calls.append((inputs, chosen))
        if data != scale and "int32" not in (data, scale):
            calls.append((inputs, {**chosen, "precision": code_of("float16")}))
        inputs = {**inputs, "z": None}
        calls.append((inputs, {**chosen, "output_dtype": code_of(name)}))
        if "float8" in name:
            inputs = {**inputs, "x": (x * 10).astype(x.dtype)}
            calls.append((inputs, {**chosen, "output_dtype": code_of(name), "saturate": 0}))
    assert_as_evaluated("QuantizeLinear", calls)


@pytest.mark.parametrize("name", [*HALF, "int32"])
def test_dequantize(name: str) -> None:
    rng, calls = np.random.default_rng(7), []
    scales = ("float32", "float16", "bfloat16", "float8_e8m0fnu")
    for number, (scale, (shape, chosen)) in enumerate(product(scales, GRAINS)):
        x = every(name) if name in FLOATS else whole(name, 24, rng)
        if name == "int32":
            x = rng.integers(-99999, 99999, 24).astype(np.int32)
        x = np.resize(x, (2, 3, 4))
        zero = zero_of(name, shape, rng) if number % 2 and name != "int32" else None
        inputs = {"x": x, "s": scale_of(scale, shape, rng), "z": zero}
        wanted = ("float32", "float16", "bfloat16")
        calls += [(inputs, {**chosen, "output_dtype": code_of(output)}) for output in wanted]
        if scale != "float8_e8m0fnu":
            calls.append((inputs, chosen))
    assert_as_evaluated("DequantizeLinear", calls)


@pytest.mark.parametrize("names", [("int8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
@pytest.mark.parametrize("rows", [False, True])
def test_product_of_bytes(names: tuple[str, str], rows: bool) -> None:
    rng = np.random.default_rng(7)
    shapes = [(2, 3, 1), (2, 1, 5), ()] if rows else [(), (), ()]
    scales = [scale_of("float32", shape, rng) for shape in shapes]
    zeros = [
        zero_of(name, shape, rng) for name, shape in zip((*names, "int8"), shapes, strict=True)
    ]
    a, b = whole(names[0], (2, 3, 4), rng), whole(names[1], (2, 4, 5), rng)
    inputs = dict(zip("abcdefgh", (a, scales[0], zeros[0], b, scales[1], zeros[1]), strict=False))
    inputs |= {"y": np.asarray(np.float32(131.7) * scales[2]), "z": zeros[2]}
    assert_as_evaluated("QLinearMatMul", [(inputs, {})])


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FLOATS[4:8])
def test_product_of_float8(name: str, kind: str, device: str) -> None:
    """In float32, rounded once: numbers of so few bits have an exact product."""
    dtype, rng = dtype_of(name), np.random.default_rng(7)
    a, b = (rng.normal(size=s).astype(dtype) for s in ((3, 4), (4, 5)))
    scale, zero = np.array(0.5, dtype_of(kind)), np.zeros((), dtype)
    inputs = dict(zip("abcdefgh", (a, scale, zero, b, scale, zero, scale, zero), strict=True))
    found = run(device, "QLinearMatMul", inputs)
    exact = a.astype(np.float32) @ b.astype(np.float32) * np.float32(0.5)
    assert_same(found, exact.astype(dtype))
