"""Generated cases again with less said about their inputs: each size a name of its own, no ranks, or values in the file.

What a case gives with all sizes written down it gives with none; what then does not fit is found while running.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import burnx
from burnx.agreement.tolerance import close
from burnx.conformance.cases.collect import Case, all_cases
from burnx.conformance.cases.models import case_inputs, case_model
from burnx.errors import BurnxError, ShapeError

HOW = ("sizes", "ranks", "constants")
PARTS = 16
RANDOM = re.compile("Random|Bernoulli|Multinomial")
Inputs = dict[str, Any]


@cache
def chosen_cases() -> tuple[Case, ...]:
    """One case for every recipe and version of an operator, of float32 where there is one."""
    found: dict[tuple[str, int, int], Case] = {}
    for case in all_cases():
        key = (case.schema.operator, case.schema.since, id(case.recipe))
        if key not in found or case.dtype == "float32" != found[key].dtype:
            found[key] = case
    return tuple(case for name, case in found.items() if not RANDOM.search(name[0]))


def opened(case: Case, how: str) -> tuple[ModelProto, Inputs]:
    """The case with the sizes or ranks of its inputs left open, or with its tensors in the file."""
    model, inputs = case_model(case), dict(case_inputs(case))
    for value in list(model.graph.input):
        if not value.type.HasField("tensor_type"):
            continue
        kind, array = value.type.tensor_type, inputs[value.name]
        if how == "constants" and array.dtype != object:
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
            model.graph.input.remove(value)
            del inputs[value.name]
            continue
        kind.ClearField("shape")
        for axis in range(array.ndim if how != "ranks" else 0):
            kind.shape.dim.add().dim_param = f"{value.name}_{axis}"
        if how != "ranks":
            kind.shape.SetInParent()
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    model.ir_version = max(model.ir_version, 4)
    return model, inputs


def run(model: ModelProto, inputs: Inputs) -> list[Any]:
    return list(burnx.load(model.SerializeToString(), device="reference").run(inputs).values())


def faults(case: Case) -> Iterator[str]:
    """What the case gives otherwise when less is said; nothing if it is refused as it stands."""
    try:
        expected = run(case_model(case), case_inputs(case))
    except BurnxError:
        return
    for how in HOW:
        try:
            found = run(*opened(case, how))
        except BurnxError as error:
            yield f"{case.name}, {how}: {error}"
            continue
        for left, right in zip(expected, found, strict=True):
            if difference := close(left, right):
                yield f"{case.name}, {how}: {difference}"


@pytest.mark.parametrize(
    "part",
    [pytest.param(n, marks=[pytest.mark.long] if n % 8 else []) for n in range(PARTS)],
)
def test_what_is_said_of_inputs_changes_no_result(part: int) -> None:
    cases = chosen_cases()[part::PARTS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [fault for case in cases for fault in faults(case)] == []
    assert len(cases) > 50


MISFITS: dict[str, tuple[str, Inputs]] = {
    "Det": ("(float[a, b, c] x) => (float[d] y) { y = Det(x) }", {"x": (2, 2, 3)}),
    "Inverse": ("(float[a, b] x) => (float[c, d] y) { y = ms.Inverse(x) }", {"x": (2, 3)}),
    "ComplexMul": (
        "(float[a, b] x, float[c, d] z) => (float[e, f] y) { y = ms.ComplexMul(x, z) }",
        {"x": (2, 3), "z": (2, 3)},
    ),
    "Einsum": (
        '(float[a, b] x) => (float[c] y) { y = Einsum<equation = "ii->i">(x) }',
        {"x": (2, 3)},
    ),
    "GridSample": (
        "(float[a, b, c, d] x, float[e, f, g, h] z) => (float[i, j, k, l] y) { y = GridSample(x, z) }",
        {"x": (1, 1, 3, 3), "z": (1, 2, 2, 3)},
    ),
    "AffineGrid": (
        (
            "(float[a, b, c] x) => (float[d, e, f, g] y) { s = Constant<value_ints = [1, 1, 2, 2]>() "
            "y = AffineGrid(x, s) }"
        ),
        {"x": (1, 3, 3)},
    ),
    "MaxpoolWithMask": (
        (
            "(float[a, b, c, d] x, int32[e, f, g, h] z) => (float[i, j, k, l] y) "
            "{ y = ms.MaxpoolWithMask<kernel_shape = [2, 2]>(x, z) }"
        ),
        {"x": (1, 2, 3, 3), "z": (1, 2, 3, 3)},
    ),
    "MultiHeadAttention": (
        (
            "(float[a, b, c] x, float[d, e, f] z) => (float[g, h, i] y) "
            "{ y = ms.MultiHeadAttention<num_heads = 2, unidirectional = 1>(x, z, z) }"
        ),
        {"x": (1, 3, 4), "z": (1, 2, 4)},
    ),
    "LinearAttention": (
        (
            "(float[a, b, c] x, float[d, e, f] z) => (float[g, h, i] y, float[j, k, l, m] s) "
            '{ y, s = ms.LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = "gated">(x, x, x, "", z) }'
        ),
        {"x": (1, 3, 4), "z": (1, 3, 3)},
    ),
}
"""A rule of an operator about sizes that are open, and inputs that break it."""


@pytest.mark.parametrize("operator", MISFITS)
def test_sizes_that_do_not_fit_are_found_while_running(operator: str, device: str) -> None:
    text, shapes = MISFITS[operator]
    header = '<ir_version: 10, opset_import: ["": 21, "ms": 1]> g '
    model = parser.parse_model(header + text)
    for each in (*model.opset_import, *model.graph.node):
        each.domain = {"ms": "com.microsoft"}.get(each.domain, each.domain)
    loaded = burnx.load(model, device=device)
    inputs = {
        name: np.ones(shape, np.int32 if "int32" in text and name == "z" else np.float32)
        for name, shape in shapes.items()
    }
    with pytest.raises(BurnxError, match=operator):
        loaded.run(inputs)


def test_what_surely_does_not_fit_is_found_on_loading() -> None:
    text = "g (float[2, 3] x) => (float y) { y = Det(x) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    with pytest.raises(ShapeError, match=r"square matrices, not \(2, 3\), node .*Det"):
        burnx.load(model, device="reference").run({"x": np.ones((2, 3), np.float32)})
