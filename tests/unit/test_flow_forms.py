"""Forms of control flow in each other under ``@burnx.script``: plain, on tensors and compiled they give what Python gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import burnx
from burnx import ops
from burnx.graph import Graph

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 1
N = np.array(3, np.int64)


@burnx.script
def nested_fn(x, n):
    def inner(y):
        if y.sum() > 0:
            y = y * 2
        return y

    for _i in range(n):
        x = inner(x)
    return x


@burnx.script
def list_state(x, n):
    st = [x, x * 2]
    for _i in range(n):
        st = [st[1], st[0] + st[1]]
    return st[0]


@burnx.script
def breaks2(x, n):
    for _i in range(n * 4):
        x = x + 1
        if x.sum() > 20:
            if x.max() > 5:
                break
            x = x * 2
        else:
            x = x * 1.5
            if x.min() > 100:
                continue
            x = x + 0.5
    return x


@burnx.script
def forelse(x, n):
    for k in (1, 2, 3):
        if k == 7:
            break
        x = x * k
    else:
        x = x + 100
    if x.sum() > 0:
        x = -x
    return x


@burnx.script
def trybreak(x, n):
    for k in range(5):
        try:
            if k == 3:
                break
            x = x + k
        except ValueError:
            pass
        if x.sum() > 3:
            x = x * 0.5
    return x


@burnx.script
def annotated(x, n):
    y: Any = x
    z: Any
    if y.sum() > 0:
        z = y + 1
    else:
        z = y
    return z


@burnx.script
def plain_outer(x, n):
    out = []
    for _k in range(2):
        for _i in range(n):
            x = x + 1
            out.append(x)
    return burnx.stack(out)


@burnx.script
def items_iter(x, n):
    out = []
    for _i in range(n):
        x = x + 1
        out.append(x)
    tot = x * 0
    for o in out:
        tot = tot + o
    return tot


@burnx.script
def lam(x, n):
    def f(v):
        return v * 2 if v.sum() > 0 else v

    k = 1
    if x.sum() > -100:
        k = 2
    return f(x) * ops.cast(k, to="float32")


@burnx.script
def boolstate(x, n):
    done = False
    while not done:
        x = x * 2
        done = x.max() > 50
    return x


@burnx.script
def boolflag(x, n):
    found = False
    for row in x:
        if row.sum() > 5:
            found = True
    if found:
        x = x * 2
    return x


@burnx.script
def orand(x, n):
    a = x.sum() > 0 or x.max() > 3 and n > 2
    return x if a else -x


@burnx.script
def walrus(x, n):
    if (m := x.max()) > 3:
        x = x / m
    return x + m


@burnx.script
def tup(x, n):
    for _i, (a, b) in enumerate([(1, 2), (3, 4)]):
        if x.sum() > 0:
            x, b = x * a, b
        x = x + b
    return x


@burnx.script
def dictstate(x, n):
    d = {"a": x, "b": 2.0}
    for _i in range(n):
        d = {"a": d["a"] * d["b"], "b": d["b"] + 1.0}
    return d["a"], d["b"]


@burnx.script
def twoloops(x, n):
    i = 0
    while i < n:
        j = 0
        while j < i:
            x = x + 1
            j += 1
        i += 1
    return x, i


@burnx.script
def negstep(x, n):
    t = 0
    for i in range(n, 0, -1):
        t = t * 10 + i
    return t


@burnx.script
def afterloop(x, n):
    i = 0
    for i in range(n):  # noqa: B007
        x = x + 1
    return x, i


@burnx.script
def nm(x, n):
    total = x
    match 2:
        case 2:
            if x.sum() > 0:
                total = x * 3
        case _:
            pass
    return total


FORMS = [
    nested_fn,
    list_state,
    breaks2,
    forelse,
    trybreak,
    annotated,
    plain_outer,
    items_iter,
    lam,
    boolstate,
    boolflag,
    orand,
    walrus,
    tup,
    dictstate,
    twoloops,
    negstep,
    afterloop,
    nm,
]


def arrays(results: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for each in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("function", FORMS, ids=lambda each: each.__name__)
def test_every_way_gives_what_python_does(function: Callable[..., Any]) -> None:
    expected = arrays(function.__wrapped__(X, N))  # type: ignore[attr-defined]
    ways = (
        function(X, N),
        function(ops.identity(X), ops.identity(N)),
        burnx.compile(function)(X, N),
    )
    for results in ways:
        for result, value in zip(arrays(results), expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-6)


@burnx.script
def dyn(x):
    t = x[0]
    for i in range(x.shape[0]):
        t = t + x[i]
    k = 0
    for _row in x:
        k += 1
    return t, k


def test_a_size_that_is_open_counts_the_turns(tmp_path: Path) -> None:
    path = tmp_path / "sizes.onnx"
    burnx.export_onnx(dyn, {"x": X}, path, dynamic={"x": {0: "batch"}})
    total, count = onnxruntime.InferenceSession(path).run(None, {"x": np.ones((5, 3), np.float32)})
    np.testing.assert_array_equal(total, [6, 6, 6])
    assert count == 5


def test_nodes_are_placed_where_their_expressions_begin(tmp_path: Path) -> None:
    path = tmp_path / "placed.py"
    path.write_text(
        """import burnx
from burnx import Input, Tensor, nn, ops


class Model(nn.Module):
    inputs = (Input("x", "float32", ("n",)),)

    @burnx.script
    def forward(self, x: Tensor) -> Tensor:
        y = ops.neg(x)
        if (
            y.max() > 1
            and y.min() < 0
        ):
            y = ops.abs(
                y,
            )
        else:
            y = ops.exp(y)
        return ops.sqrt(y)
"""
    )
    lines = dict[str, str]()
    graphs = [burnx.load(f"{path}:Model").graph]
    for graph in graphs:
        for node in graph.nodes:
            lines.setdefault(node.operator, node.line)
            graphs += [each for each in node.attributes.values() if isinstance(each, Graph)]
    expected = {"Neg": 10, "If": 12, "Abs": 15, "Exp": 19, "Sqrt": 20}
    assert {name: lines[name] for name in expected} == {
        name: f"placed.py:{line}" for name, line in expected.items()
    }
