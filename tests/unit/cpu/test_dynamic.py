"""Sizes are arguments of kernels: another batch or length compiles nothing, and gives what the reference gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

import burnx
from burnx.agreement.tolerance import close
from burnx.runtime.devices.cpu import compiled_kernels

Inputs = dict[str, Any]
HEAD = '<ir_version: 8, opset_import: ["": 17]>'
WIDTH, WORDS, LONGEST = 16, 40, 70

# the block of a transformer as PyTorch exports it: sizes by Shape, heads by Reshape, GELU by Erf
BLOCK = """
    q# = MatMul(x#, wq#)  q2# = Reshape(q#, split)  q3# = Transpose<perm=[0,2,1,3]>(q2#)
    k# = MatMul(x#, wk#)  k2# = Reshape(k#, split)  k3# = Transpose<perm=[0,2,3,1]>(k2#)
    v# = MatMul(x#, wv#)  v2# = Reshape(v#, split)  v3# = Transpose<perm=[0,2,1,3]>(v2#)
    s# = MatMul(q3#, k3#)  s2# = Div(s#, root)  s3# = Where(absent, low, s2#)
    p# = Softmax<axis=-1>(s3#)  c# = MatMul(p#, v3#)
    c2# = Transpose<perm=[0,2,1,3]>(c#)  c3# = Reshape(c2#, join)  c4# = MatMul(c3#, wo#)
    r# = Add(c4#, x#)  n# = LayerNormalization<axis=-1>(r#, scale#, shift#)
    f# = MatMul(n#, w1#)  f1# = Add(f#, b1#)  g# = Div(f1#, sqrt2)  e# = Erf(g#)
    e1# = Add(e#, one)  e2# = Mul(f1#, e1#)  e3# = Mul(e2#, half)
    h# = MatMul(e3#, w2#)  h1# = Add(h#, n#)
    x@ = LayerNormalization<axis=-1>(h1#, scale#, shift#)
"""
TRANSFORMER = f"""{HEAD}
g (int64[batch, length] ids, int64[batch, length] mask) => (float[batch, length, {WIDTH}] x2, float[batch, 3] y)
{{
    shape = Shape(ids)  zero = Constant<value_int=0>()  first = Constant<value_int=1>()
    rows = Gather(shape, zero)  columns = Gather(shape, first)
    axes = Constant<value_ints=[0]>()  n = Unsqueeze(rows, axes)  t = Unsqueeze(columns, axes)
    heads = Constant<value_ints=[4, 4]>()  split = Concat<axis=0>(n, t, heads)
    wide = Constant<value_ints=[{WIDTH}]>()  join = Concat<axis=0>(n, t, wide)
    start = Constant<value_ints=[0]>()  at = Constant<value_ints=[0]>()
    spots = Slice(positions, start, t, at)
    words = Gather(table, ids)  x0 = Add(words, spots)
    unset = Equal(mask, zero)  ends = Constant<value_ints=[1, 2]>()  absent = Unsqueeze(unset, ends)
    root = Constant<value_float=2.0>()  low = Constant<value_float=-1e9>()
    sqrt2 = Constant<value_float=1.41421356>()  one = Constant<value_float=1.0>()
    half = Constant<value_float=0.5>()
    {BLOCK.replace("#", "0").replace("@", "1")}
    {BLOCK.replace("#", "1").replace("@", "2")}
    cls = Gather<axis=1>(x2, zero)  y = Gemm(cls, out)
}}"""
CONVOLUTIONS = f"""{HEAD}
g (float[batch, 3, height, width] x) => (float[batch, 5] y, float[batch, 8, rows, columns] z)
{{
    a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(x, k1, b1)  a1 = Relu(a)
    d = Conv<kernel_shape=[3,3], pads=[1,1,1,1], group=8>(a1, k2)
    d1 = BatchNormalization(d, b1, b1, b1, v1)  s = Sigmoid(d1)  m = Mul(d1, s)
    p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(m)
    q = AveragePool<kernel_shape=[2,2], ceil_mode=1, strides=[2,2]>(m)
    c = Conv<kernel_shape=[1,1]>(p, k3)  u = Add(c, p)
    scales = Constant<value_floats=[1.0, 1.0, 2.0, 2.0]>()
    z = Resize<mode="nearest">(u, , scales)
    l = GlobalAveragePool(u)  r = GlobalMaxPool(q)  sum = Add(l, r)
    flat = Flatten(sum)  y = Gemm<transB=1>(flat, w, b)
}}"""
ATTENTION = f"""{HEAD}
g (float[batch, heads, length, 8] q, float[batch, heads, 8, kept] k, float[batch, heads, kept, 8] v,
   float[length, kept] mask) => (float[batch, heads, length, 8] y)
{{
    s = MatMul(q, k)  c = Constant<value_float=0.35355338>()  m = Mul(s, c)
    a = Add(m, mask)  p = Softmax<axis=-1>(a)  y = MatMul(p, v)
}}"""
LAYER = {"wq": 2, "wk": 2, "wv": 2, "wo": 2, "scale": 1, "shift": 1}
SHAPES: dict[str, tuple[int, ...]] = {
    **{f"{name}{layer}": (WIDTH,) * rank for name, rank in LAYER.items() for layer in (0, 1)},
    **{f"w1{layer}": (WIDTH, 24) for layer in (0, 1)},
    **{f"b1{layer}": (24,) for layer in (0, 1)},
    **{f"w2{layer}": (24, WIDTH) for layer in (0, 1)},
    "table": (WORDS, WIDTH),
    "positions": (LONGEST, WIDTH),
    "out": (WIDTH, 3),
    "k1": (8, 3, 3, 3),
    "k2": (8, 1, 3, 3),
    "k3": (8, 8, 1, 1),
    "b1": (8,),
    "v1": (8,),
    "w": (5, 8),
    "b": (5,),
}


def transformer(draw: np.random.Generator) -> Inputs:
    batch, length = int(draw.integers(1, 6)), int(draw.integers(1, LONGEST))
    mask = (np.arange(length) < draw.integers(1, length + 1, (batch, 1))).astype(np.int64)
    return {"ids": draw.integers(0, WORDS, (batch, length)), "mask": mask}


def convolutions(draw: np.random.Generator) -> Inputs:
    return {"x": floats(draw, int(draw.integers(1, 4)), 3, *map(int, draw.integers(3, 40, 2)))}


def attention(draw: np.random.Generator) -> Inputs:
    batch, heads = map(int, draw.integers(1, 4, 2))
    length, kept = map(int, draw.integers(1, 70, 2))
    mask = np.where(draw.random((length, kept)) < 0.2, np.float32(-1e4), np.float32(0))
    return {
        "q": floats(draw, batch, heads, length, 8),
        "k": floats(draw, batch, heads, 8, kept),
        "v": floats(draw, batch, heads, kept, 8),
        "mask": mask,
    }


def floats(draw: np.random.Generator, *shape: int) -> Any:
    return draw.standard_normal(shape, np.float32)


def build(text: str) -> Any:
    """The model with weights for the names that it reads and nobody makes."""
    model = parser.parse_model(text)
    made = {name for node in model.graph.node for name in node.output}
    made |= {value.name for value in model.graph.input}
    free = {name for node in model.graph.node for name in node.input} - made - {""}
    draw = np.random.default_rng(0)
    for name in sorted(free):
        array = np.abs(floats(draw, *SHAPES[name])) * np.float32(0.3)
        sign = draw.choice(np.array([-1, 1], np.float32), array.shape)
        weight = array + np.float32(0.1) if name == "v1" else array * sign
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


def shapes(make: Callable[[np.random.Generator], Inputs], count: int) -> Iterator[Inputs]:
    draw = np.random.default_rng(1)
    for _ in range(count):
        yield make(draw)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize(
    ("text", "make", "count"),
    [
        (TRANSFORMER, transformer, 40),
        (CONVOLUTIONS, convolutions, 100),
        (ATTENTION, attention, 100),
    ],
    ids=["transformer", "convolutions", "attention"],
)
def test_other_sizes_compile_nothing(
    text: str, make: Callable[[np.random.Generator], Inputs], count: int, fuse: bool
) -> None:
    model = build(text)
    reference = burnx.load(model, device="reference")
    compiled = burnx.load(model, device="cpu", fuse=fuse)
    assert compiled.placement() == {}
    built = 0
    for number, inputs in enumerate(shapes(make, count)):
        found = compiled.run(inputs)
        if number == 0:
            built = compiled_kernels()
        check(reference.run(inputs), found, inputs)
    assert compiled_kernels() == built
    assert len(compiled._executables._by_kind) == 1


def test_memory_is_kept_for_one_set_of_sizes() -> None:
    model = burnx.load(build(ATTENTION), device="cpu")
    for inputs in shapes(attention, 10):
        model.run(inputs)
    (executable,) = model._executables._by_kind.values()
    (prepared,) = executable.runner.prepared.values()
    (native,) = prepared.units
    assert len(native._plans) == 10 and len(native._free) == 1


def check(expected: Mapping[str, Any], found: Mapping[str, Any], inputs: Inputs) -> None:
    sizes = {name: array.shape for name, array in inputs.items()}
    for name, right in expected.items():
        assert (name, sizes, close(right, found[name])) == (name, sizes, None)
