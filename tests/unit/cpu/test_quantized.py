"""Products of what was quantized are those of bytes on the cpu, and exact: the reference's results to the last bit."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import burnx
from burnx.dtype import int8, int32, uint8
from burnx.fusion.expressions import dtype_of
from burnx.kernels.packing import pack, pack_all
from burnx.runtime.compiled import segments
from tests.unit.cpu.quantized_models import Layer, make_model, real_data

BYTES = {"int8": np.int8, "uint8": np.uint8}


def _draw_bytes(draw: Any, dtype: Any, shape: tuple[int, ...], extreme: bool) -> np.ndarray:
    info = np.iinfo(dtype)
    if extreme:
        return draw.choice([info.min, info.max], shape).astype(dtype)
    return draw.integers(info.min, info.max + 1, shape).astype(dtype)


@st.composite
def convolutions(draw: Any) -> Layer:
    chosen = np.random.default_rng(draw(st.integers(0, 1000)))
    groups, each, outs = draw(
        st.sampled_from(
            [(1, 5, 7), (1, 8, 16), (1, 3, 33), (2, 4, 3), (9, 1, 1), (16, 1, 1), (3, 1, 2)]
        )
    )
    kernel = draw(st.sampled_from([(1, 1), (3, 3), (2, 3), (1, 5)]))
    strides, gaps = draw(st.sampled_from([(1, 1), (2, 1)])), draw(st.sampled_from([(1, 1), (1, 2)]))
    pads = draw(st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)]))
    dtype, weights = (
        BYTES[draw(st.sampled_from(["int8", "uint8"]))],
        draw(st.sampled_from(["int8", "uint8"])),
    )
    info, extreme = np.iinfo(dtype), draw(st.booleans())
    zero = draw(st.sampled_from([info.min, info.max, 3]))
    size = (draw(st.integers(1, 2)), groups * each, 6, draw(st.integers(9, 11)))
    weight_zero = 128 if weights == "uint8" else 0
    return Layer(
        _draw_bytes(chosen, dtype, size, extreme),
        _draw_bytes(chosen, BYTES[weights], (groups * outs, each, *kernel), extreme),
        (
            zero,
            weight_zero,
            draw(st.sampled_from([info.min, info.max, -5 if dtype == np.int8 else 9])),
        ),
        (0.5, 0.25, draw(st.sampled_from([1.0, 64.0, 512.0]))),
        chosen.integers(-999, 999, groups * outs) if draw(st.booleans()) else None,
        {
            "group": groups,
            "kernel_shape": kernel,
            "strides": strides,
            "dilations": gaps,
            "pads": pads,
        },
        draw(st.booleans()),
        draw(st.booleans()),
    )


def _check(layer: Layer, operator: str) -> None:
    model, x = make_model(layer, operator), real_data(layer)
    expected = burnx.load(model, device="reference").run({"x": x})
    found = burnx.load(model, device="cpu").run({"x": x})
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@settings(deadline=None, max_examples=60)
@given(convolutions())
def test_convolutions_are_exact(layer: Layer) -> None:
    _check(layer, "Conv")


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 99),
    st.sampled_from(["MatMul", "Gemm"]),
    st.sampled_from(["int8", "uint8"]),
    st.booleans(),
)
def test_matrix_products_are_exact(seed: int, operator: str, name: str, extreme: bool) -> None:
    chosen = np.random.default_rng(seed)
    rows, inner, columns = (int(each) for each in chosen.integers(1, 40, 3))
    zero = int(chosen.integers(np.iinfo(BYTES[name]).min, np.iinfo(BYTES[name]).max + 1))
    layer = Layer(
        _draw_bytes(chosen, BYTES[name], (rows, inner), extreme),
        _draw_bytes(chosen, np.int8, (inner, columns), extreme),
        (zero, 0, 1),
        (0.25, 0.5, 32.0),
        chosen.integers(-99, 99, columns),
        per_channel=bool(seed % 2),
    )
    _check(layer, operator)


def _seeds(model: onnx.ModelProto, x: np.ndarray, primitive: str) -> list[Any]:
    """The products that the cpu is given."""
    seen: list[Any] = []

    def note(instructions: Any, kept: Any) -> Any:
        seen.extend(made := segments_as_bytes(instructions, kept))
        return made

    segments_as_bytes = segments.as_bytes
    with mock.patch.object(segments, "as_bytes", note):
        burnx.load(model, device="cpu").run({"x": x})
    return [each for each in seen if each.primitive == primitive]


@pytest.mark.parametrize("groups", [1, 6])
def test_a_convolution_reads_bytes(groups: int) -> None:
    draw = np.random.default_rng(0)
    data, weight = (
        draw.integers(-128, 128, (1, 6, 5, 5)),
        draw.integers(-128, 128, (6, 6 // groups, 3, 3)),
    )
    layer = Layer(data.astype(np.int8), weight.astype(np.int8), (-128, 0, 4), (1.0, 1.0, 64.0))
    layer.attributes = {"group": groups, "pads": (1, 1, 1, 1)}
    (seed,) = _seeds(make_model(layer, "Conv"), real_data(layer), "conv")
    assert dtype_of(seed.inputs[0]) == uint8
    assert seed.attributes["fill"] == 0
    assert (seed.attributes["dtype"] == int32) == (groups == 1)


def test_a_matrix_product_reads_bytes() -> None:
    layer = Layer(np.ones((3, 8), np.uint8), np.ones((8, 5), np.int8), (7, 0, 0))
    (seed,) = _seeds(make_model(layer, "MatMul"), real_data(layer), "contract")
    assert (dtype_of(seed.inputs[0]), dtype_of(seed.inputs[1])) == (uint8, int8)


def test_weights_with_a_zero_point_that_bytes_do_not_hold_stay_floats() -> None:
    layer = Layer(np.ones((1, 2, 4, 4), np.uint8), np.full((2, 2, 1, 1), 200, np.uint8), (0, 3, 0))
    (seed,) = _seeds(make_model(layer, "Conv"), real_data(layer), "conv")
    assert dtype_of(seed.inputs[0]) == np.float32
    _check(layer, "Conv")


def _integer_model(
    data: np.ndarray, weight: np.ndarray, zeros: tuple[int, int], **given: Any
) -> onnx.ModelProto:
    constants = {"w": weight, "xz": data.dtype.type(zeros[0]), "wz": weight.dtype.type(zeros[1])}
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **given)
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    graph = helper.make_graph(
        [node],
        "integers",
        [helper.make_tensor_value_info("x", kind, data.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("zeros", [(0, 0), (3, 0), (3, -7), (127, 127)])
@pytest.mark.parametrize("shape", [(7, 5, 3, 3), (16, 8, 1, 1), (5, 1, 3, 3)])
def test_integer_convolutions_are_exact(shape: tuple[int, ...], zeros: tuple[int, int]) -> None:
    draw = np.random.default_rng(1)
    groups = 5 if shape[1] == 1 else 1
    data = _draw_bytes(draw, np.int8, (2, shape[1] * groups, 9, 8), True)
    weight = _draw_bytes(draw, np.int8, shape, True)
    model = _integer_model(data, weight, zeros, pads=[1, 0, 2, 1], group=groups)
    expected, found = (
        burnx.load(model, device=each).run({"x": data}) for each in ("reference", "cpu")
    )
    np.testing.assert_array_equal(found["y"], expected["y"])


# --- weights that stay bytes ----------------------------------------------------------------------------------------


def _scaled_model(
    first: list[onnx.NodeProto], inputs: list[Any], **constants: Any
) -> onnx.ModelProto:
    """Nodes that read ``w_real``: bytes ``w`` cast and scaled."""
    nodes = [
        helper.make_node("Cast", ["w"], ["w_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["w_float", "scale"], ["w_real"]),
        *first,
    ]
    graph = helper.make_graph(
        nodes,
        "scaled",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize("along", [False, True])
def test_floats_times_scaled_bytes(rows: int, along: bool) -> None:
    draw = np.random.default_rng(rows)
    w = _draw_bytes(draw, np.int8, (23, 37), False)
    scale = draw.uniform(0.01, 0.1, (1, 37) if along else ()).astype(np.float32)
    model = _scaled_model(
        [helper.make_node("MatMul", ["x", "w_real"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, 23))],
        w=w,
        scale=scale,
    )
    x = draw.standard_normal((rows, 23)).astype(np.float32)
    (seed,) = _seeds(model, x, "contract")
    assert seed.inputs[1].array.dtype == int8
    found = burnx.load(model, device="cpu").run({"x": x})["y"]
    np.testing.assert_allclose(found, x @ (w.astype(np.float32) * scale), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("along", [False, True])
def test_rows_of_a_table_of_bytes(along: bool) -> None:
    draw = np.random.default_rng(0)
    w = _draw_bytes(draw, np.int8, (1 << 12, 1 << 7), False)
    scale = draw.uniform(0.01, 0.1, (1 << 12, 1) if along else ()).astype(np.float32)
    model = _scaled_model(
        [helper.make_node("Gather", ["w_real", "x"], ["y"], axis=0)],
        [helper.make_tensor_value_info("x", TensorProto.INT64, (2, 3))],
        w=w,
        scale=scale,
    )
    x = np.array([[0, 4095, -1], [7, 7, -4096]])
    (table, *_) = _seeds(model, x, "take")
    assert table.inputs[0].array.dtype == int8
    found = burnx.load(model, device="cpu").run({"x": x})["y"]
    np.testing.assert_array_equal(found, (w.astype(np.float32) * scale)[x])


# --- packing --------------------------------------------------------------------------------------------------------


def _unpacked(packed: np.ndarray, inner: int, columns: int, width: int) -> np.ndarray:
    """What a matrix packed as 8p4 stands for."""
    groups, panels = -(-inner // 4), -(-columns // width)
    count = int(packed[:4].view(np.int32)[0])
    body = packed[64:].reshape(panels, -1)
    main = body[:, : groups * width * 4].reshape(panels, groups, width, 4).astype(np.int32)
    pairs = main.reshape(panels, groups, width, 2, 2).sum(-1)
    assert np.abs(pairs).max(initial=0) <= 128, "255 times a pair is more than 16 bits hold"
    spilled = body[:, groups * width * 4 :][:, : count * width * 4].reshape(panels, count, width, 4)
    rest = body[:, (groups + count) * width * 4 :].copy()
    offsets = rest[:, width * 4 :].copy().view(np.int32)[:, :count]
    for panel in range(panels):
        np.add.at(main[panel], offsets[panel] // 4, spilled[panel].astype(np.int32))
    sums = rest[:, : width * 4].copy().view(np.int32)
    np.testing.assert_array_equal(sums, 128 * main.sum((1, 3)))
    return main.transpose(1, 3, 0, 2).reshape(groups * 4, panels * width)[:inner, :columns]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 50), st.integers(1, 40), st.integers(0, 9), st.booleans())
def test_pairs_are_small_enough_and_nothing_is_lost(
    inner: int, columns: int, seed: int, extreme: bool
) -> None:
    matrix = _draw_bytes(np.random.default_rng(seed), np.int8, (inner, columns), extreme)
    found = _unpacked(pack(matrix, "8p4:16"), inner, columns, 16)
    np.testing.assert_array_equal(found, matrix)


def test_matrices_packed_together_are_of_one_size() -> None:
    small, large = np.ones((64, 16), np.int8), np.ones((64, 16), np.int8)
    large[:2] = 127
    packed, size, packing = pack_all([small, large], "8p4:16")
    assert packing == "8p4:16" and packed.size == 2 * size
    for place, matrix in enumerate((small, large)):
        part = packed[place * size : (place + 1) * size]
        np.testing.assert_array_equal(_unpacked(part, 64, 16, 16), matrix)


def test_where_much_would_be_spilled_pairs_of_16_bits_are_packed() -> None:
    packed, size, packing = pack_all([np.full((64, 16), 127, np.int8)], "8p4:16")
    assert (packing, size) == ("8x2:16", 64 * 16) and packed.size == size


# --- chains of layers -----------------------------------------------------------------------------------------------


def _chain(bias: bool, wide: bool) -> onnx.ModelProto:
    """Two convolutions and a sum of both, all quantized to signed bytes that several nodes read."""
    draw = np.random.default_rng(7)
    constants: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []

    def quantize(name: str, result: str, scale: float, zero: int) -> str:
        constants[f"{result}_s"] = np.array(scale, np.float32)
        constants[f"{result}_z"] = np.array(zero, np.int8)
        names = [f"{result}_s", f"{result}_z"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *names], [f"{result}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{result}_q", *names], [result]))
        return result

    def convolve(name: str, result: str, shape: tuple[int, ...], groups: int) -> str:
        constants[f"{result}_w"] = _draw_bytes(draw, np.int8, shape, wide)
        constants[f"{result}_ws"] = np.array(0.125, np.float32)
        operands = [f"{result}_w", f"{result}_ws"]
        nodes.append(helper.make_node("DequantizeLinear", operands, [f"{result}_wd"]))
        operands = [name, f"{result}_wd"]
        if bias:
            constants[f"{result}_b"] = draw.integers(-50, 50, shape[0]).astype(np.float32)
            operands.append(f"{result}_b")
        pads = [shape[2] // 2] * 4
        nodes.append(helper.make_node("Conv", operands, [result], group=groups, pads=pads))
        return result

    x = quantize("x", "a", 0.5, -3)
    y = quantize(convolve(x, "c", (12, 6, 1, 1), 1), "d", 16.0, -128)
    z = quantize(convolve(y, "e", (12, 1, 3, 3), 12), "f", 64.0, 5)
    nodes.append(helper.make_node("Add", [y, z], ["s"]))
    t = quantize("s", "g", 32.0, 127)
    nodes.append(helper.make_node("Identity", [convolve(t, "h", (5, 12, 1, 1), 1)], ["out"]))
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)]
    outputs.append(helper.make_tensor_value_info("d_q", TensorProto.INT8, None))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 6, 7, 9))],
        outputs,
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_bytes_that_several_nodes_read(bias: bool, wide: bool) -> None:
    model = _chain(bias, wide)
    x = (np.random.default_rng(2).integers(-140, 140, (2, 6, 7, 9)) * 0.5).astype(np.float32)
    expected, found = (
        burnx.load(model, device=each).run({"x": x}) for each in ("reference", "cpu")
    )
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("zero", [-128, 0, 127])
def test_numbers_that_are_not_finite_are_quantized_as_the_reference_does(zero: int) -> None:
    names = ["scale", "zero"]
    constants = [np.array(0.5, np.float32), np.array(zero, np.int8)]
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", *names], ["y"])],
        "quantize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (41,))],
        [helper.make_tensor_value_info("y", TensorProto.INT8, None)],
        [
            numpy_helper.from_array(value, name)
            for value, name in zip(constants, names, strict=True)
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.resize(
        np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.25, -0.75, 63.75], np.float32), 41
    )
    expected, found = (
        burnx.load(model, device=each).run({"x": x}) for each in ("reference", "cpu")
    )
    np.testing.assert_array_equal(found["y"], expected["y"])


@pytest.mark.parametrize("zero", [0, 255])
@pytest.mark.parametrize("count", [32_800, 70_000])
def test_sums_that_int32_does_not_hold_are_not_taken_in_it(count: int, zero: int) -> None:
    constants = {
        "scale": np.array(2.0**-20, np.float32),
        "zero": np.array(zero, np.uint8),
        "flat": np.array(0, np.int8),
        "w": np.full((count, 4), 127, np.int8),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "scale", "flat"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "long",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (2, count))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.stack([np.full(count, 255), np.zeros(count)]).astype(np.uint8)
    expected = (x.astype(np.int64) - zero).sum(1) * 127 * 2.0**-40
    for device in ("reference", "cpu"):
        found = burnx.load(model, device=device).run({"x": x})["y"]
        np.testing.assert_allclose(found[:, 0], expected, rtol=2e-3)


def scaled_product(scales: tuple[float, float, float]) -> tuple[onnx.ModelProto, np.ndarray]:
    """Bytes of a scale times weights of another one, quantized by a third."""
    chosen = np.random.default_rng(0)
    x, w = (
        _draw_bytes(chosen, kind, shape, False)
        for kind, shape in ((np.uint8, (4, 8)), (np.int8, (8, 16)))
    )
    arrays = {"w": w, "z": np.uint8(3), "b": np.arange(16, dtype=np.float32)}
    arrays |= {f"s{place}": np.float32(scale) for place, scale in enumerate(scales)}
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["x", "s0", "z"], ["left"]),
        node("DequantizeLinear", ["w", "s1"], ["right"]),
        node("MatMul", ["left", "right"], ["product"]),
        node("Add", ["product", "b"], ["moved"]),
        node("QuantizeLinear", ["moved", "s2", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [
            helper.make_tensor_value_info("y", TensorProto.UINT8, (4, 16)),
            helper.make_tensor_value_info("moved", TensorProto.FLOAT, (4, 16)),
        ],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9), x


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("scale", [0.0, np.inf, np.nan, -1.0, 1e-40, 1e30])
def test_scales_that_are_no_numbers_give_what_the_nodes_say(place: int, scale: float) -> None:
    """inf * 1 + inf * -1 is no number, inf * (1 - 1) neither, but inf * (2 - 1) is."""
    scales = [0.5, 0.25, 8.0]
    scales[place] = scale
    model, x = scaled_product((scales[0], scales[1], scales[2]))
    for outputs in (["moved", "y"], ["y"]):
        kept = [each for each in model.graph.output if each.name in outputs]
        del model.graph.output[:]
        model.graph.output.extend(kept)
        expected, found = (
            burnx.load(model, device=device).run({"x": x}) for device in ("reference", "cpu")
        )
        for name in outputs:
            np.testing.assert_allclose(
                found[name].astype(float), expected[name].astype(float), rtol=1e-5, atol=1e-30
            )
