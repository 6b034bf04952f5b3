"""What is wrong with sizes and indices is said as on the reference, and nothing is said of what never runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import parser

import burnx
from burnx.errors import BurnxError

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def whole(*values: int) -> Any:
    return np.array(values, np.int64)


WRONG: dict[str, tuple[str, str, dict[str, Any]]] = {
    "broadcast": ("float[n] x, float[m] y", "z = Add(x, y)", {"x": floats(3), "y": floats(2)}),
    "product": (
        "float[n,a] x, float[b,m] y",
        "z = MatMul(x, y)",
        {"x": floats(3, 4), "y": floats(5, 2)},
    ),
    "concat": (
        "float[n,a] x, float[m,b] y",
        "z = Concat<axis=0>(x, y)",
        {"x": floats(3, 4), "y": floats(5, 2)},
    ),
    "reshape": (
        "float[n] x",
        "s = Constant<value_ints=[-1,2]>()  z = Reshape(x, s)",
        {"x": floats(3)},
    ),
    "gather": (
        "float[n,a] x, int64[k] i",
        "z = Gather(x, i)",
        {"x": floats(3, 4), "i": whole(2, 3)},
    ),
    "gather below": (
        "float[n,a] x, int64[k] i",
        "z = Gather(x, i)",
        {"x": floats(3, 4), "i": whole(2, -4)},
    ),
    "gather of nothing": (
        "float[n,a] x, int64[k] i",
        "z = Gather(x, i)",
        {"x": floats(0, 400), "i": whole(0)},
    ),
    "gather a constant": (
        "float[n,3] x",
        "i = Constant<value_ints=[5]>()  z = Gather(x, i)",
        {"x": floats(3, 3)},
    ),
    "gather of constants": (
        "float[n] x",
        "t = Constant<value_floats=[1.0]>()  i = Constant<value_ints=[5]>()  g = Gather(t, i)  z = Add(x, g)",
        {"x": floats(3)},
    ),
    "gather elements": (
        "float[n,a] x, int64[n,k] i",
        "z = GatherElements<axis=1>(x, i)",
        {"x": floats(3, 4), "i": whole(2, 3, 4).reshape(3, 1)},
    ),
    "gather more elements": (
        "float[n,a] x, int64[m,k] i",
        "z = GatherElements<axis=1>(x, i)",
        {"x": floats(3, 4), "i": np.zeros((5000, 1), np.int64)},
    ),
    "gather tuples": (
        "float[n,a] x, int64[k,2] i",
        "z = GatherND(x, i)",
        {"x": floats(3, 4), "i": whole(2, 4).reshape(1, 2)},
    ),
    "gather tuples of more batches": (
        "float[n,a] x, int64[k,1] i",
        "z = GatherND<batch_dims=1>(x, i)",
        {"x": floats(3, 4), "i": np.zeros((5000, 1), np.int64)},
    ),
    "scatter": (
        "float[n,a] x, int64[k,1] i, float[k,a] u",
        "z = ScatterND(x, i, u)",
        {"x": floats(3, 4), "i": whole(3).reshape(1, 1), "u": floats(1, 4)},
    ),
    "scatter other updates": (
        "float[n,a] x, int64[k,1] i, float[m,b] u",
        "z = ScatterND(x, i, u)",
        {"x": floats(3, 4), "i": whole(2).reshape(1, 1), "u": floats(1, 3)},
    ),
    "scatter more updates": (
        "float[n,a] x, int64[k,1] i, float[m,b] u",
        "z = ScatterND(x, i, u)",
        {"x": floats(3, 4), "i": whole(2).reshape(1, 1), "u": floats(5000, 4)},
    ),
    "scatter elements": (
        "float[n,a] x, int64[k,a] i, float[k,a] u",
        "z = ScatterElements(x, i, u)",
        {"x": floats(3, 4), "i": whole(2, 1, 0, 7).reshape(1, 4), "u": floats(1, 4)},
    ),
    "scatter wider elements": (
        "float[n,a] x, int64[k,b] i, float[k,b] u",
        "z = ScatterElements(x, i, u)",
        {"x": floats(3, 4), "i": np.zeros((1, 5000), np.int64), "u": floats(1, 5000)},
    ),
    "scatter fewer elements": (
        "float[n,a] x, int64[k,b] i, float[l,m] u",
        "z = ScatterElements(x, i, u)",
        {"x": floats(3, 4), "i": np.zeros((3, 4), np.int64), "u": floats(1, 4)},
    ),
    "channels": (
        "float[n,c,h] x, float[o,i,k] w",
        "z = Conv(x, w)",
        {"x": floats(1, 2, 5), "w": floats(1, 3, 2)},
    ),
    "attention": (
        "float[n,t,d] q, float[n,d,s] k, float[n,r,e] v",
        "s = MatMul(q, k)  p = Softmax(s)  z = MatMul(p, v)",
        {"q": floats(1, 3, 4), "k": floats(1, 4, 5), "v": floats(1, 6, 4)},
    ),
    "mask": (
        "float[n,t,d] q, float[n,d,s] k, float[n,s,e] v, float[t,u] m",
        "s = MatMul(q, k)  a = Add(s, m)  p = Softmax(a)  z = MatMul(p, v)",
        {"q": floats(1, 3, 4), "k": floats(1, 4, 5), "v": floats(1, 5, 4), "m": floats(3, 4)},
    ),
    "most of few": (
        "float[n] x",
        "k = Constant<value_ints=[5]>()  z, y = TopK(x, k)",
        {"x": floats(3)},
    ),
    "parts": (
        "float[n] x, int64[k] s",
        "y, z = Split(x, s)",
        {"x": floats(3), "s": whole(5, 2)},
    ),
}


def kind(model: Any, inputs: dict[str, Any], **options: Any) -> type[BurnxError]:
    with pytest.raises(BurnxError) as caught:
        burnx.load(model, **options).run(inputs)
    assert "node" in str(caught.value)
    return type(caught.value)


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_the_same_error(name: str) -> None:
    given, body, inputs = WRONG[name]
    rank = ",".join("pqr"[: 3 if body.count("MatMul") > 1 else 1])
    model = parser.parse_model(f"{HEAD} g ({given}) => (float[{rank}] z) {{ {body} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    expected = kind(model, inputs, device="reference")
    for options in ({"threads": 2}, {"threads": 1}, {"fuse": False}):
        assert kind(model, inputs, device="cpu", **options) is expected


BRANCH = f"""{HEAD} g (bool b, float[n] x, float[m] y) => (float[k] z)
{{
    z = If(b) <
        then_branch = g1 () => (float[k1] z1) {{ z1 = Add(x, x) }},
        else_branch = g2 () => (float[k2] z2) {{ BODY }}
    >
}}"""
BODIES = (
    "z2 = Add(x, y)",
    "t = Constant<value_floats=[1.0]>()  i = Constant<value_ints=[5]>()  g = Gather(t, i)  z2 = Add(x, g)",
)


@pytest.mark.parametrize("body", BODIES)
def test_a_branch_that_is_not_taken_may_be_wrong(body: str) -> None:
    model = burnx.load(parser.parse_model(BRANCH.replace("BODY", body)), device="cpu")
    inputs = {"x": floats(3), "y": floats(2)}
    assert model.run({"b": np.array(True), **inputs})["z"].tolist() == [0, 2, 4]
    with pytest.raises(BurnxError, match="node"):
        model.run({"b": np.array(False), **inputs})


@pytest.mark.parametrize(
    "step", ["Relu({})", "Add({0}, {0})", "Transpose<perm=[1,0]>({})", "MatMul({}, w)"]
)
@pytest.mark.parametrize("fuse", [True, False])
def test_long_chains_run(step: str, fuse: bool) -> None:
    names = [f"v{place}" for place in range(1501)]
    chain = "  ".join(f"{b} = {step.format(a)}" for a, b in pairwise(names))
    text = f"{HEAD} g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {{1, 0, 0, 1}}>"
    ends = "{ v0 = MatMul(x, w)  " + chain + f"  s = Sign({names[-1]})  y = Sub(s, w) }}"
    model = parser.parse_model(text + ends)
    inputs = {"x": floats(2, 2) / 2 - 1}
    expected = burnx.load(model, device="reference").run(inputs)["y"]
    assert np.array_equal(burnx.load(model, device="cpu", fuse=fuse).run(inputs)["y"], expected)
