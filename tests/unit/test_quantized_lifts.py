"""Quantized layers: lifted bit for bit, written as one call each, and exported as the operators they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from pass_checks import check, counts, floats, graph_of, only

import burnx
from burnx.nn.sources import load_network
from burnx.passes import run_passes

RNG = np.random.default_rng(3)
FLOAT = TensorProto.FLOAT


def bytes_of(*shape: int, dtype: Any = np.int8) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(max(info.min, -100), min(info.max, 100), shape).astype(dtype)


def scale(*shape: int) -> Any:
    return RNG.uniform(0.01, 0.05, shape).astype(np.float32)


QDQ_CONV = """g (float[n,2,5,5] x) => (float[n,4,5,5] y) {
    xq = QuantizeLinear(x, sx, zx)  xd = DequantizeLinear(xq, sx, zx)
    wd = DequantizeLinear<axis = 0>(w, sw, zw)  bd = DequantizeLinear<axis = 0>(b, sb, zb)
    c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(xd, wd, bd)
    cq = QuantizeLinear(c, sy, zy)  y = DequantizeLinear(cq, sy, zy) }"""


def conv_weights(*size: int) -> dict[str, Any]:
    """Weights of a convolution with one scale, or one for each of its channels."""
    return {
        "sx": scale(),
        "zx": np.uint8(120).reshape(()),
        "w": bytes_of(4, 2, 3, 3),
        "sw": scale(*size),
        "zw": np.zeros(size, np.int8),
        "b": bytes_of(4, dtype=np.int32),
        "sb": scale(*size),
        "zb": np.zeros(size, np.int32),
        "sy": scale(),
        "zy": np.uint8(7).reshape(()),
    }


QDQ_LINEAR = """g (float[n,3,4] x) => (float[n,3,6] y) {
    wd = DequantizeLinear(w, sw, zw)  m = MatMul(x, wd)
    mq = QuantizeLinear(m, sy, zy)  md = DequantizeLinear(mq, sy, zy)  y = Add(b, md) }"""


def linear_weights(*size: int) -> dict[str, Any]:
    return {
        "w": bytes_of(4, 6),
        "sw": scale(*size),
        "zw": bytes_of(*size),
        "b": floats(6),
        "sy": scale(),
        "zy": np.uint8(130).reshape(()),
    }


DYNAMIC = """g (float[n,3,4] x) => (float[n,3,6] y) {
    q, s, z = DynamicQuantizeLinear(x)  m = MatMulInteger(q, w, z, zw)  f = Cast<to = 1>(m)
    t = Mul(s, sw)  p = Mul(f, t)  y = Add(b, p) }"""


def dynamic_weights(*size: int) -> dict[str, Any]:
    return {"w": bytes_of(4, 6), "sw": scale(*size), "zw": bytes_of(*size), "b": floats(6)}


X = {"x": floats(2, 3, 4)}


# ------------------------------------------------------------------------------- what is lifted
@pytest.mark.parametrize("size", [(), (1,), (4,)])
def test_a_convolution_and_what_rounds_its_result_are_one(size: tuple[int, ...]) -> None:
    weights = conv_weights(*size)
    graph = check(QDQ_CONV, {"x": floats(2, 2, 5, 5)}, 17, weights, tolerance=0)
    assert counts(graph) == {"FakeQuantize": 1, "QuantConv": 1}
    assert len(only(graph, "QuantConv").inputs) == 9


@pytest.mark.parametrize("size", [(), (6,)])
def test_a_product_is_rounded_before_its_bias_is_added(size: tuple[int, ...]) -> None:
    graph = check(QDQ_LINEAR, X, 17, linear_weights(*size), tolerance=0)
    assert counts(graph) == {"QuantLinear": 1}


def test_a_sum_that_is_rounded_keeps_that_apart() -> None:
    text = """g (float[n,3,4] x) => (float[n,3,6] y) {
        wd = DequantizeLinear(w, sw, zw)  m = MatMul(x, wd)  a = Add(m, b)
        aq = QuantizeLinear(a, sy, zy)  y = DequantizeLinear(aq, sy, zy) }"""
    graph = check(text, X, 17, linear_weights(), tolerance=0)
    assert counts(graph) == {"QuantLinear": 1, "FakeQuantize": 1}


def test_a_gemm_is_rounded_with_its_bias() -> None:
    text = """g (float[n,4] x) => (float[n,6] y) {
        wd = DequantizeLinear<axis = 0>(w, sw, zw)  bd = DequantizeLinear<axis = 0>(b, sb, zb)
        m = Gemm<transB = 1>(x, wd, bd)
        mq = QuantizeLinear(m, sy, zy)  y = DequantizeLinear(mq, sy, zy) }"""
    weights = linear_weights(6) | {"w": bytes_of(6, 4), "b": bytes_of(6, dtype=np.int32)}
    weights |= {"sb": scale(6), "zb": np.zeros(6, np.int32)}
    graph = check(text, {"x": floats(2, 4)}, 17, weights, tolerance=0)
    assert counts(graph) == {"QuantLinear": 1}
    assert only(graph, "QuantLinear").attributes == {"turned": 1}


def test_weights_in_blocks_are_a_layer() -> None:
    text = """g (float[n,3,4] x) => (float[n,3,6] y) {
        wd = DequantizeLinear<axis = 0, block_size = 2>(w, sw, zw)  y = MatMul(x, wd) }"""
    weights = {"w": bytes_of(4, 6), "sw": scale(2, 6), "zw": bytes_of(2, 6)}
    graph = check(text, X, 21, weights, tolerance=0)
    assert only(graph, "QuantLinear").attributes == {"block_size": 2}


@pytest.mark.parametrize("size", [(), (6,)])
def test_a_product_of_what_is_quantized_while_running_is_a_layer(size: tuple[int, ...]) -> None:
    graph = check(DYNAMIC, X, 17, dynamic_weights(*size), tolerance=0)
    assert counts(graph) == {"DynamicQuantLinear": 1}
    assert len(only(graph, "DynamicQuantLinear").inputs) == 5


def test_rows_of_bytes_are_an_embedding() -> None:
    text = """g (int64[n,2] i) => (float[n,2,6] y) {
        r = Gather(w, i)  y = DequantizeLinear(r, sw, zw) }"""
    weights = {"w": bytes_of(4, 6), "sw": scale(), "zw": bytes_of()}
    graph = check(text, {"i": np.array([[0, 3], [1, 1]])}, 17, weights, tolerance=0)
    assert counts(graph) == {"QuantEmbedding": 1}


def test_rows_that_are_moved_as_bytes_are_moved_as_floats() -> None:
    text = """g (int64[n,2] i) => (float[2,n,6] y) {
        r = Gather(w, i)  t = Transpose<perm = [1, 0, 2]>(r)  y = DequantizeLinear(t, sw, zw) }"""
    weights = {"w": bytes_of(4, 6), "sw": scale(), "zw": bytes_of()}
    graph = check(text, {"i": np.array([[0, 3], [1, 1]])}, 17, weights, tolerance=0)
    assert counts(graph) == {"QuantEmbedding": 1, "Transpose": 1}


def test_weights_that_are_only_scaled_are_layers() -> None:
    text = """g (int64[n] i) => (float[n,512] y) {
        tf = Cast<to = 1>(t)  ts = Mul(tf, st)  e = Gather(ts, i)
        wf = Cast<to = 1>(w)  ws = Mul(wf, sw)  y = MatMul(e, ws) }"""
    weights = {"t": bytes_of(256, 128), "st": scale(256, 1)}
    weights |= {"w": bytes_of(128, 512), "sw": scale(1, 512)}
    graph = check(text, {"i": np.array([0, 3, 1])}, 17, weights, tolerance=0)
    assert counts(graph) == {"QuantEmbedding": 1, "QuantLinear": 1}


# ------------------------------------------------------------------------------- what stays
def test_other_scales_on_the_way_back_are_no_rounding() -> None:
    text = """g (float[n,4] x) => (float[n,4] y) {
        q = QuantizeLinear(x, sx, zx)  y = DequantizeLinear(q, sy, zx) }"""
    weights = {"sx": scale(), "sy": scale(), "zx": np.uint8(3).reshape(())}
    graph = check(text, {"x": floats(2, 4)}, 17, weights, tolerance=0)
    assert counts(graph) == {"QuantizeLinear": 1, "DequantizeLinear": 1}


def test_bytes_that_something_else_reads_stay() -> None:
    text = """g (float[n,4] x) => (float[n,4] y, uint8[n,4] q) {
        q = QuantizeLinear(x, sx, zx)  y = DequantizeLinear(q, sx, zx) }"""
    weights = {"sx": scale(), "zx": np.uint8(3).reshape(())}
    graph = check(text, {"x": floats(2, 4)}, 17, weights, tolerance=0)
    assert counts(graph) == {"QuantizeLinear": 1, "DequantizeLinear": 1}


def test_a_scale_along_the_inputs_is_no_layer() -> None:
    text = """g (float[n,3,4] x) => (float[n,3,6] y) {
        wd = DequantizeLinear<axis = 0>(w, sw, zw)  y = MatMul(x, wd) }"""
    weights = {"w": bytes_of(4, 6), "sw": scale(4), "zw": bytes_of(4)}
    graph = check(text, X, 17, weights, tolerance=0)
    assert counts(graph) == {"DequantizeLinear": 1, "MatMul": 1}


def test_a_zero_point_of_another_tensor_is_no_layer() -> None:
    text = """g (float[n,3,4] x, float[n,3,4] o) => (float[n,3,6] y) {
        q, s, z = DynamicQuantizeLinear(x)  r, t, u = DynamicQuantizeLinear(o)
        m = MatMulInteger(q, w, u, zw)  f = Cast<to = 1>(m)  p = Mul(s, sw)  y = Mul(f, p) }"""
    weights = dynamic_weights()
    del weights["b"]
    graph = check(text, {**X, "o": floats(2, 3, 4)}, 17, weights, tolerance=0)
    assert counts(graph)["MatMulInteger"] == 1


@pytest.mark.parametrize(
    ("name", "text", "weights"),
    [
        ("quantized_layers", QDQ_LINEAR, linear_weights()),
        ("fake_quantize", QDQ_CONV, conv_weights()),
        ("dynamic_quantization", DYNAMIC, dynamic_weights()),
    ],
)
def test_each_lift_can_be_left_out(name: str, text: str, weights: Mapping[str, Any]) -> None:
    graph = graph_of(text, 17, weights)
    assert run_passes(graph, skip=[name]).get(name) is None
    lifted = counts(graph_of_lifted(text, weights))
    assert counts(graph) != lifted


def graph_of_lifted(text: str, weights: Mapping[str, Any]) -> Any:
    graph = graph_of(text, 17, weights)
    run_passes(graph)
    return graph


# ------------------------------------------------------------------------------- source and back
def model_of(text: str, weights: Mapping[str, Any], domains: str = "") -> ModelProto:
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21{domains}]> {text}')
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return model


def round_trip(model: ModelProto, folder: Path, inputs: Mapping[str, Any]) -> str:
    """The source of a model that gives what the file gives and is exported as the same quantized operators."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    burnx.import_onnx(path, folder / "model.py")
    net = load_network(f"{folder / 'model.py'}:Model")
    burnx.export_onnx(net, inputs, folder / "back.onnx")
    wanted = burnx.load(path, device="reference").run(inputs)
    given = burnx.load(folder / "back.onnx", device="reference").run(inputs)
    for name, array in wanted.items():
        np.testing.assert_array_equal(given[name], array)
    assert quantized(onnx.load(folder / "back.onnx")) == quantized(model)
    return (folder / "model.py").read_text(encoding="utf-8")


def quantized(model: ModelProto) -> Counter[str]:
    words = ("Quantize", "Integer", "QLinear", "QGemm", "NBits")
    kinds = (node.op_type for node in model.graph.node)
    return Counter(kind for kind in kinds if any(word in kind for word in words))


@pytest.mark.parametrize("size", [(), (4,)])
def test_a_convolution_reads_as_a_layer(size: tuple[int, ...], tmp_path: Path) -> None:
    source = round_trip(
        model_of(QDQ_CONV, conv_weights(*size)), tmp_path, {"x": floats(2, 2, 5, 5)}
    )
    per_channel = ", per_channel=True" if size else ""
    assert f"nn.QuantConv2d(2, 4, 3, padding=1{per_channel})" in source
    assert "self.quant = nn.FakeQuantize()" in source


@pytest.mark.parametrize(
    ("text", "weights", "expected"),
    [
        (QDQ_LINEAR, linear_weights(), "nn.QuantLinear(4, 6)"),
        (QDQ_LINEAR, linear_weights(6), "nn.QuantLinear(4, 6, per_channel=True)"),
        (DYNAMIC, dynamic_weights(6), "nn.DynamicQuantLinear(4, 6, per_channel=True)"),
    ],
)
def test_a_linear_layer_reads_as_one(
    text: str, weights: Mapping[str, Any], expected: str, tmp_path: Path
) -> None:
    assert expected in round_trip(model_of(text, weights), tmp_path, X)


def test_what_several_layers_quantize_is_quantized_once(tmp_path: Path) -> None:
    text = """g (float[n,3,4] x) => (float[n,3,6] y, float[n,3,6] k) {
        q, s, z = DynamicQuantizeLinear(x)
        m = MatMulInteger(q, w, z, zw)  f = Cast<to = 1>(m)  t = Mul(s, sw)  y = Mul(f, t)
        m2 = MatMulInteger(q, w2, z, zw)  f2 = Cast<to = 1>(m2)  t2 = Mul(s, sw2)  k = Mul(f2, t2) }"""
    weights = dynamic_weights() | {"w2": bytes_of(4, 6), "sw2": scale()}
    del weights["b"]
    source = round_trip(model_of(text, weights), tmp_path, X)
    assert source.count("nn.DynamicQuantLinear(") == 2


def test_a_model_of_bytes_reads_as_layers(tmp_path: Path) -> None:
    text = """g (float[n,2,5,5] x) => (float[n,3] y) {
        q = QuantizeLinear(x, sx, zx)
        c = QLinearConv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(q, sx, zx, w, sw, zw, sy, zy, b)
        a = com.microsoft.QLinearAdd(c, sy, zy, q, sx, zx, sa, zy)
        p = com.microsoft.QLinearGlobalAveragePool(a, sa, zy, sp, zy)  f = Flatten(p)
        g = com.microsoft.QGemm<transB = 1>(f, sp, zy, v, sv, zw, d, so, zx)
        y = DequantizeLinear(g, so, zx) }"""
    point = np.uint8(9).reshape(())
    weights = {"sx": scale(), "zx": point, "w": bytes_of(2, 2, 3, 3), "sw": scale()}
    weights |= {"zw": np.int8(0).reshape(()), "sy": scale(), "zy": np.uint8(3).reshape(())}
    weights |= {"b": bytes_of(2, dtype=np.int32), "sa": scale(), "sp": scale(), "so": scale()}
    weights |= {"v": bytes_of(3, 2), "sv": scale(), "d": bytes_of(3, dtype=np.int32)}
    domains = ', "com.microsoft": 1'
    source = round_trip(model_of(text, weights, domains), tmp_path, {"x": floats(2, 2, 5, 5)})
    for layer in ("QLinearConv2d(2, 2, 3, padding=1)", "QLinearAdd()", "QGemm(2, 3)"):
        assert f"nn.{layer}" in source


def test_weights_of_few_bits_read_as_a_layer(tmp_path: Path) -> None:
    text = """g (float[n,32] x) => (float[n,6] y) {
        y = com.microsoft.MatMulNBits<K = 32, N = 6, bits = 4, block_size = 16>(x, w, s, z) }"""
    weights = {"w": bytes_of(6, 2, 8, dtype=np.uint8), "s": scale(6, 2)}
    weights |= {"z": bytes_of(6, 1, dtype=np.uint8)}
    model = model_of(text, weights, ', "com.microsoft": 1')
    source = round_trip(model, tmp_path, {"x": floats(2, 32)})
    assert "nn.LinearNBits(32, 6, block_size=16)" in source


MICROSOFT = ', "com.microsoft": 1'


def test_operators_of_bytes_without_weights_read_as_layers(tmp_path: Path) -> None:
    text = """g (uint8[n,2,6,6] x) => (uint8[n,4,3,3] y, uint8[n,4,1,1] m) {
        p = com.microsoft.QLinearAveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x, sx, zx, sp, zp)
        l = com.microsoft.QLinearLeakyRelu<alpha = 0.25>(p, sp, zp, sl, zl)
        j = com.microsoft.QLinearConcat<axis = 1>(sj, zj, p, sp, zp, l, sl, zl)
        y = com.microsoft.QLinearSoftmax<axis = 1, opset = 13>(j, sj, zj, sy, zy)
        m = com.microsoft.QLinearReduceMean<axes = [2, 3], keepdims = 1>(j, sj, zj, sm, zm) }"""
    weights: dict[str, Any] = {f"s{side}": scale() for side in "xpljym"}
    weights |= {f"z{side}": np.uint8(place).reshape(()) for place, side in enumerate("xpljym")}
    given = {"x": bytes_of(2, 2, 6, 6, dtype=np.uint8)}
    source = round_trip(model_of(text, weights, MICROSOFT), tmp_path, given)
    for layer in (
        "self.pool = nn.QLinearAveragePool(kernel_shape=[2, 2], strides=[2, 2])",
        "self.leaky_relu = nn.QLinearLeakyRelu(alpha=0.25)",
        "self.concat = nn.QLinearConcat(2, 1)",
        "self.softmax = nn.QLinearSoftmax(axis=1, opset=13)",
        "self.mean = nn.QLinearReduceMean(axes=[2, 3], keepdims=1)",
    ):
        assert layer in source


@pytest.mark.parametrize("size", [(), (1,), (6,)])
def test_products_of_onnxruntime_read_as_layers(size: tuple[int, ...], tmp_path: Path) -> None:
    text = """g (float[n,3,4] x) => (float[n,3,6] y, float[n,3,6] k, float[n,3,6] t) {
        y = com.microsoft.DynamicQuantizeMatMul(x, w, sw, zw, b)
        q, s, z = DynamicQuantizeLinear(x)
        k = com.microsoft.MatMulIntegerToFloat(q, v, s, sv, z, zw, b)
        t = com.microsoft.MatMulIntegerToFloat(q, v, s, sv, z) }"""
    weights = {"w": bytes_of(4, 6), "sw": scale(*size), "zw": bytes_of(*size), "b": floats(6)}
    weights |= {"v": bytes_of(4, 6), "sv": scale(*size)}
    source = round_trip(model_of(text, weights, MICROSOFT), tmp_path, X)
    each = ", per_channel=True" if size == (6,) else ""
    assert f"nn.DynamicQuantLinear(4, 6{each}, fused=True)" in source
    assert f"nn.IntegerLinear(4, 6{each})" in source
    assert f"nn.IntegerLinear(4, 6, bias=False{each}, zero_point=False)" in source


def test_scales_that_no_layer_holds_stay_operands(tmp_path: Path) -> None:
    text = """g (float[n,3,4] x, float[6] s) => (float[n,3,6] y) {
        y = com.microsoft.DynamicQuantizeMatMul(x, w, s) }"""
    model = model_of(text, {"w": bytes_of(4, 6)}, MICROSOFT)
    source = round_trip(model, tmp_path, X | {"s": scale(6)})
    assert "ops.dynamic_quantize_mat_mul(x, self.w, s)" in source


# ------------------------------------------------------------------------------- structure
def block(nodes: list[Any], path: str, x: str, weight: str) -> str:
    """Round what a block is given, multiply it by a weight of bytes, and add it."""
    scope = f"/{path.replace('.', '/')}"
    steps = [
        ("QuantizeLinear", [x, "s", "z"], f"{x}_QuantizeLinear"),
        ("DequantizeLinear", [f"{path}_0", "s", "z"], f"{x}_DequantizeLinear"),
        ("DequantizeLinear", [weight, "s", "zw"], f"{weight}_DequantizeLinear"),
        ("MatMul", [f"{path}_1", f"{path}_2"], f"{scope}/fc/MatMul"),
        ("Relu", [f"{path}_3"], f"{scope}/Relu"),
        ("Add", [f"{path}_4", f"{path}_1"], f"{scope}/Add"),
    ]
    for number, (kind, inputs, name) in enumerate(steps):
        nodes.append(helper.make_node(kind, inputs, [f"{path}_{number}"], name))
    return f"{path}_5"


def test_blocks_that_round_what_they_are_given_are_one_class(tmp_path: Path) -> None:
    nodes: list[Any] = [helper.make_node("Tanh", ["x"], ["t"], "/stem/Tanh")]
    result = "t"
    for number in range(3):
        result = block(nodes, f"layers.{number}", result, f"w{number}")
    nodes.append(helper.make_node("Identity", [result], ["y"], "/Identity"))
    weights = {f"w{number}": bytes_of(4, 4) for number in range(3)}
    arrays = weights | {"s": scale(), "z": np.uint8(100).reshape(()), "zw": bytes_of()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 4])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    source = round_trip(model, tmp_path, {"x": floats(3, 4)})
    assert "for _ in range(3)" in source
    assert source.count("nn.FakeQuantize()") == 1


def test_what_attention_rounds_is_named_by_its_role(tmp_path: Path) -> None:
    def rounded(name: str, value: str) -> str:
        return (
            f"{name}q = QuantizeLinear({value}, s{name}, z) "
            f"{name} = DequantizeLinear({name}q, s{name}, z)"
        )

    text = f"""g (float[n,2,3,4] q, float[n,2,3,4] k, float[n,2,3,4] v) => (float[n,3,8] y) {{
        {rounded("a", "q")}  t = Transpose<perm = [0, 1, 3, 2]>(k)  {rounded("b", "t")}
        {rounded("c", "v")}  p = MatMul(a, b)  {rounded("d", "p")}  h = Mul(d, half)
        w = Softmax(h)  {rounded("e", "w")}  o = MatMul(e, c)  {rounded("f", "o")}
        u = Transpose<perm = [0, 2, 1, 3]>(f)  r = Reshape(u, shape)  {rounded("g", "r")}
        y = Identity(g) }}"""
    weights: dict[str, Any] = {f"s{name}": scale() for name in "abcdefg"}
    weights |= {"z": np.uint8(128).reshape(()), "half": np.float32(0.5)}
    weights["shape"] = np.array([0, 3, 8])
    given = {name: floats(2, 2, 3, 4) for name in "qkv"}
    source = round_trip(model_of(text, weights), tmp_path, given)
    for role in ("query", "key", "value", "scores", "weights", "context", "output"):
        assert f"self.{role}_quant = nn.FakeQuantize()" in source


def test_a_composite_operator_is_recorded_as_what_it_is_made_of() -> None:
    def rounded(x: burnx.Tensor) -> burnx.Tensor:
        return burnx.ops.fake_quantize(x, 0.5, burnx.ops.array(3, dtype="uint8"))

    x = floats(2, 3)
    graph = burnx.trace(rounded, x)
    assert [node.operator for node in graph.nodes] == ["QuantizeLinear", "DequantizeLinear"]
    np.testing.assert_array_equal(rounded(x).numpy(), np.clip(np.rint(x / 0.5), -3, 252) * 0.5)
