"""Names of layers: by weights that other frameworks call in their own way, else by what a layer is for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import GraphProto, numpy_helper
from test_generated_source import agrees
from test_scope_names import parsed

from burnx.structure.paths import split_weight

X = np.random.default_rng(5).standard_normal((1, 6, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("conv2_expand_weights", ("conv2_expand",)),
        ("conv2_expand_bn_scale", ("conv2_expand_bn",)),
        ("gpu_0/res2_0_branch2a_w_0", ("res2_0_branch2a",)),
        ("gpu_0/res2_0_branch2a_bn_s_0", ("res2_0_branch2a_bn",)),
        ("inception_3a/3x3_reduce_w_0", ("inception_3a", "3x3_reduce")),
        ("top/kernel:0", ("top",)),
        ("norm/gamma:0", ("norm",)),
        ("stem.w_0", ("stem",)),
        ("conv1_w_0", ("conv1",)),
        ("conv2d_157.w_0", ()),
        ("batch_norm2d_2.w_0", ()),
        ("dense_3/kernel:0", ()),
        ("onnx::MatMul_361", ()),
        ("const_fold_opt__664", ()),
        ("w", ()),
        ("/w", ()),
    ],
)
def test_the_layer_that_a_weight_is_of(name: str, path: tuple[str, ...]) -> None:
    assert split_weight(name) == path


BLOCK = """
agraph (float[1, 6, 8] x) => (float y) {
    n = RMSNormalization <axis = -1> (x, g)
    q = MatMul (n, w1)
    k = MatMul (n, w2)
    v = MatMul (n, w3)
    a = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)
    o = MatMul (a, w4)
    r = Add (x, o)
    m = RMSNormalization <axis = -1> (r, h)
    gate = MatMul (m, w5)
    s = Sigmoid (gate)
    t = Mul (gate, s)
    up = MatMul (m, w6)
    p = Mul (t, up)
    d = MatMul (p, w7)
    e = Add (r, d)
    y = MatMul (e, w8)
}
"""
SIZES = {
    "g": (8,),
    "h": (8,),
    **{f"w{number}": (8, 8) for number in (1, 2, 3, 4)},
    "w5": (8, 12),
    "w6": (8, 12),
    "w7": (12, 8),
    "w8": (8, 5),
}


def test_projections_and_norms_are_named_by_what_they_are_for(tmp_path: Path) -> None:
    model = parsed(BLOCK, **SIZES)
    model.opset_import[0].version, model.ir_version = 23, 10
    text = agrees(model, tmp_path, {"x": X})
    names = "attention_norm q_proj k_proj v_proj o_proj mlp_norm gate_proj up_proj down_proj head"
    for name in names.split():
        assert f"self.{name} = nn." in text, name
    assert "self.linear" not in text and "self.norm" not in text


def test_one_layer_for_all_three_and_a_net_without_a_gate(tmp_path: Path) -> None:
    said = """
    agraph (float[1, 6, 8] x) => (float y) {
        qkv = MatMul (x, w1)
        q, k, v = Split <axis = -1, num_outputs = 3> (qkv)
        a = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)
        o = MatMul (a, w2)
        u = MatMul (o, w3)
        s = Relu (u)
        y = MatMul (s, w4)
    }
    """
    model = parsed(said, w1=(8, 24), w2=(8, 8), w3=(8, 16), w4=(16, 8))
    model.opset_import[0].version, model.ir_version = 23, 10
    text = agrees(model, tmp_path, {"x": X})
    for name in ("qkv_proj", "o_proj", "up_proj", "down_proj"):
        assert f"self.{name} = nn.Linear" in text


def test_what_only_widens_is_no_net_behind_attention(tmp_path: Path) -> None:
    said = """
    agraph (float[1, 6, 8] x) => (float y) {
        u = MatMul (x, w1)
        s = Relu (u)
        y = MatMul (s, w2)
    }
    """
    text = agrees(parsed(said, w1=(8, 16), w2=(16, 3)), tmp_path, {"x": X})
    assert "up_proj" not in text and "self.head" in text


def test_a_name_that_begins_with_a_digit_keeps_it(tmp_path: Path) -> None:
    said = """
    agraph (float[1, 2, 5, 5] x) => (float y) {
        a = Conv (x, first)
        b = Relu (a)
        c = Conv (b, second)
        y = Add (c, x)
    }
    """
    model = parsed(said, first=(3, 2, 1, 1), second=(2, 3, 1, 1))
    names = {"first": "block/1x1_reduce_w_0", "second": "block/1x1_w_0"}
    for each in model.graph.initializer:
        each.name = names[each.name]
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    text = agrees(model, tmp_path, {"x": np.ones((1, 2, 5, 5), np.float32)})
    assert "self.conv_1x1_reduce = nn.Conv2d(2, 3, 1, bias=False)" in text


# what NumPy writes with brackets or as a method, and what stands in the file
SPELLINGS = {
    "x[:, None]": ("Unsqueeze (x, a)", {"a": [1]}),
    "x[:, None, :, None]": ("Unsqueeze (x, a)", {"a": [1, 3]}),
    "x[..., None]": ("Unsqueeze (x, a)", {"a": [-1]}),
    "x[..., None, None]": ("Unsqueeze (x, a)", {"a": [-2, 4]}),
    "x[None]": ("Unsqueeze (x, a)", {"a": [0]}),
    "x[0]": ("Gather (x, a)", {"a": 0}),
    "x[:, -1]": ("Gather <axis = 1> (x, a)", {"a": -1}),
    "x[..., 2]": ("Gather <axis = 2> (x, a)", {"a": 2}),
    "x[:, places]": ("Gather <axis = 1> (x, places)", {}),
    "x.squeeze(0)": ("Squeeze (x, a)", {"a": [0]}),
    "x.mean(1)": ("ReduceMean <keepdims = 0> (x, a)", {"a": [1]}),
    "x.sum((0, 2), keepdims=True)": ("ReduceSum (x, a)", {"a": [0, 2]}),
    "x.max(-1)": ("ReduceMax <keepdims = 0, noop_with_empty_axes = 1> (x, a)", {"a": [-1]}),
}


@pytest.mark.parametrize("wanted", SPELLINGS)
def test_indices_and_reductions_read_as_in_numpy(wanted: str, tmp_path: Path) -> None:
    node, given = SPELLINGS[wanted]
    kept = "".join(f"<int64{_shape(value)} a = {_said(value)}>" for value in given.values())
    said = f"agraph (float[1, 6, 8] x, int64[2, 2] places) => (float y) {kept} {{ y = {node} }}"
    model = parsed(said)
    model.opset_import[0].version = 18
    text = agrees(model, tmp_path, {"x": X, "places": np.array([[0, 1], [2, 5]])})
    assert f"return {wanted}" in text


def _shape(value: int | list[int]) -> str:
    return f"[{len(value)}]" if isinstance(value, list) else ""


def _said(value: int | list[int]) -> str:
    return "{" + str(value).strip("[]") + "}"


def test_what_is_stacked_is_split_in_equal_parts_and_starts_as_zeros(tmp_path: Path) -> None:
    said = """
    agraph (float[1, 6, 8] x) => (float[1, 6, 4, 2] y, float[6] z, float[6] w)
    <int64[2] sizes = {4, 4}, int64[1] last = {-1}, int64[1] shape = {6}, float eight = {8}>
    {
        a, b = Split <axis = 2> (x, sizes)
        c = Unsqueeze (a, last)
        d = Unsqueeze (b, last)
        y = Concat <axis = 3> (c, d)
        e = ConstantOfShape (shape)
        z = Add (e, eight)
        f = ConstantOfShape (shape)
        g = ReduceMax <keepdims = 0> (x)
        w = Add (f, g)
    }
    """
    text = agrees(parsed(said), tmp_path, {"x": X})
    assert "ops.split(x, axis=2, outputs=2)" in text
    assert "stack([" in text and "axis=3)" in text
    assert "value=ops.array([0.0])" not in text


BRANCHES = """
agraph (float[1, 2, 5] x, bool c) => (float y)
<int64 turns = {3}, bool go = {1}>
{
    y = If (c) <
        then_branch = one () => (t) {
            a = Conv <kernel_shape = [3], pads = [1, 1]> (x, small__stft__basis, small__stft__bias)
            b = Relu (a)
            n = Shape (b)
            last, t = Loop (turns, go, b) <body = step (int64 i, bool d, s) => (d2, s2, o) {
                s2 = Conv <kernel_shape = [1]> (s, small__mix__weight, small__mix__bias)
                o = Tanh (s2)
                d2 = Identity (d)
            }>
        },
        else_branch = two () => (e) {
            f = Conv <kernel_shape = [3], pads = [1, 1]> (x, large__stft__basis)
            g = Unsqueeze (f, first)
            e = Concat <axis = 0> (g, g, g)
        }
    >
}
"""


def test_layers_in_branches_and_loops_are_layers(tmp_path: Path) -> None:
    model = parsed(BRANCHES.replace("int64 turns", "int64[1] first = {0}, int64 turns"))
    sizes = {
        "small.stft.basis": (2, 2, 3),
        "small.stft.bias": (2,),
        "small.mix.weight": (2, 2, 1),
        "small.mix.bias": (2,),
        "large.stft.basis": (2, 2, 3),
    }
    for name, shape in sizes.items():
        array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    rename(model.graph)
    x = np.random.default_rng(2).standard_normal((1, 2, 5)).astype(np.float32)
    feeds = [{"x": x, "c": np.array(flag)} for flag in (True, False)]
    text = agrees(model, tmp_path, *feeds)
    assert "stft=nn.Conv1d(2, 2, 3, padding=1), mix=nn.Conv1d(2, 2, 1)" in text
    assert "self.large = nn.Container(stft=nn.Conv1d(2, 2, 3, padding=1, bias=False))" in text
    assert "self.small.mix(" in text and "ops.conv(" not in text


def rename(graph: GraphProto) -> None:
    """Dots, which the text of a model does not have, in what nodes read."""
    for node in graph.node:
        node.input[:] = [name.replace("__", ".") for name in node.input]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g)


def test_a_layer_holds_no_other_and_a_call_of_tensorflow_is_no_module(tmp_path: Path) -> None:
    said = """
    agraph (float[1, 2, 5, 5] x) => (float y) {
        a = Conv (x, first)
        b = BatchNormalization (a, s, b1, m, v)
        c = BatchNormalization (b, s2, b2, m, v)
        d = Conv (c, second)
        y = Conv (d, third)
    }
    """
    names = {
        "first": "stem_w_0",
        "s": "stem/bn_scale_0",
        "s2": "unit/x1/bn_scale_0",
        "second": "unit/x1_w_0",
    }
    model = parsed(
        said,
        **dict.fromkeys(("first", "second", "third"), (2, 2, 1, 1)),
        **dict.fromkeys(("s", "b1", "m", "s2", "b2"), (2,)),
    )
    ones = numpy_helper.from_array(np.ones(2, np.float32), "v")
    model.graph.initializer.append(ones)
    for each in model.graph.initializer:
        each.name = names.get(each.name, each.name)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    model.graph.node[-1].name = "StatefulPartitionedCall/net/top/PartitionedCall_2/Conv2D"
    text = agrees(model, tmp_path, {"x": np.ones((1, 2, 5, 5), np.float32)})
    assert "self.stem_bn = nn.BatchNorm(2)" in text and "PartitionedCall" not in text
    assert "x1=nn.Container(bn=nn.BatchNorm(2), conv=nn.Conv2d(2, 2, 1, bias=False))" in text
    assert "top=nn.Conv2d(2, 2, 1, bias=False)" in text


def test_states_of_recurrent_layers_have_names(tmp_path: Path) -> None:
    said = """
    agraph (float[6, 1, 8] x, float[1, 1, 4] s) => (float y, float z) {
        h = Neg (s)
        c = Abs (s)
        y, yh, yc = LSTM <hidden_size = 4> (x, w, r, , , h, c)
        z, zh, zc = LSTM <hidden_size = 4> (x, w2, r, , , h, c)
    }
    """
    model = parsed(said, w=(1, 16, 8), r=(1, 16, 4), w2=(1, 16, 8))
    text = agrees(model, tmp_path, {"x": X.transpose(1, 0, 2), "s": X[:, :1, :4]})
    assert "hidden = -s" in text and "cell = ops.abs(s)" in text
