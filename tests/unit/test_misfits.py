"""Models that ask for what their operators do not have: one error each, that names the node."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

import burnx
from burnx.errors import BurnxError, DTypeError, ModelError

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


def test_a_condition_is_a_bool(device: str) -> None:
    model = parser.parse_model(
        f"""{HEAD} g (double c, float[3] x) => (float[3] y) {{
            y = If(c) <then_branch = t () => (float[3] a) {{ a = Exp(x) }},
                       else_branch = e () => (float[3] b) {{ b = Neg(x) }}>
        }}"""
    )
    feed = {"c": np.float64(1), "x": np.ones(3, np.float32)}
    with pytest.raises(DTypeError, match="If decides by a bool"):
        burnx.load(model, device=device).run(feed)


@pytest.mark.parametrize("batch", [0, 1])
def test_index_tuples_of_nothing_choose_all(device: str, batch: int) -> None:
    model = parser.parse_model(
        f"""{HEAD} g (float[2,4] x, int64[2,3,0] i) => (float[?,?,?,?] y) {{
            y = GatherND<batch_dims = {batch}>(x, i)
        }}""".replace("float[?,?,?,?]", "float[a,b,c,d]" if batch == 0 else "float[a,b,c]")
    )
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = burnx.load(model, device=device).run({"x": x, "i": np.zeros((2, 3, 0), np.int64)})["y"]
    wanted = np.broadcast_to(x[:, None] if batch else x, (2, 3, 4) if batch else (2, 3, 2, 4))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("node", "domain", "says"),
    [
        (("MatMul", ["x", ""]), "", "needs its input 'b'"),
        (("FeatureVectorizer", ["", "x"]), "ai.onnx.ml", "needs its input 0"),
        (("MultiHeadAttention", ["x"]), "com.microsoft", "query has 3 or 5 axes"),
    ],
)
def test_what_is_missing_or_misshapen_is_named(
    node: tuple[str, list[str]], domain: str, says: str
) -> None:
    options = {"num_heads": 2} if node[0] == "MultiHeadAttention" else {}
    made = helper.make_node(node[0], node[1], ["y"], domain=domain, **options)
    graph = helper.make_graph(
        [made],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(BurnxError, match=says) as caught:
        burnx.load(model).run({"x": np.ones((3, 4), np.float32)})
    assert isinstance(caught.value, ModelError)
    assert f"({node[0]})" in str(caught.value) or f".{node[0]})" in str(caught.value)
