"""Operators of com.microsoft against onnxruntime, on every device; and their signatures against its schemas."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from burnx.ops import table
from burnx.ops.operator import REQUIRED
from tests.unit.ops import contrib_attention_cases, contrib_layer_cases, contrib_query_cases
from tests.unit.ops.contrib_models import (
    MICROSOFT,
    Case,
    assert_same,
    ints,
    numbers,
    run_burnx,
    run_onnxruntime,
)
from tests.unit.ops.contrib_query_cases import SLIDING, resident

CASES = [*contrib_attention_cases.CASES, *contrib_query_cases.CASES, *contrib_layer_cases.CASES]
# what another family of operators is tested with
ELSEWHERE = ("Quant", "QLinear", "QGemm", "QAttention", "NBits", "QEmbed", "Bnb4", "QMoE", "MoE")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_onnxruntimes(case: Case, device: str) -> None:
    assert_same(run_burnx(case, device), run_onnxruntime(case), case)


@pytest.mark.parametrize("case", SLIDING, ids=str)
def test_the_rows_of_a_sliding_cache_that_hold_positions(case: Case) -> None:
    rows = resident(int(case.feeds["total"][0]))
    found, wanted = run_burnx(case), run_onnxruntime(case)
    shown = [[each[0], *(cache[:, :, :rows] for cache in each[1:])] for each in (found, wanted)]
    assert_same(shown[0], shown[1], case)


def test_rows_without_a_token_are_not_brought() -> None:
    case = contrib_query_cases.query(
        "brought-fewer", contrib_query_cases.Size((5, 3), 3, 9), brought=ints(3, 2)
    )
    found, wanted = run_burnx(case), run_onnxruntime(case)
    np.testing.assert_allclose(found[0][1, :2], wanted[0][1, :2], rtol=1e-4, atol=1e-5)
    assert_same(found[1:], wanted[1:], case)


@pytest.mark.parametrize(
    "case",
    [
        *contrib_attention_cases.ATTENTION[:1],
        *contrib_attention_cases.MULTI_HEAD[5:7],
        *contrib_query_cases.CASES[:6],
        contrib_layer_cases.NORMS[0],
    ],
    ids=str,
)
def test_sizes_may_be_known_while_running_only(case: Case) -> None:
    wanted = run_onnxruntime(case)
    object.__setattr__(case, "sized", False)
    try:
        assert_same(run_burnx(case), wanted, case)
    finally:
        object.__setattr__(case, "sized", True)


# ---------------------------------------------------------------------------------------- schemas
@lru_cache(maxsize=1)
def schemas() -> dict[str, Any]:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    found = [each for each in get_all_operator_schema() if each.domain == MICROSOFT]
    return {each.name: each for each in found}


ENTRIES = [
    entry
    for (domain, name), entry in sorted(table().items())
    if domain == MICROSOFT and not any(part in name for part in ELSEWHERE)
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.op_type)
def test_signatures_are_the_schemas(entry: Any) -> None:
    if entry.op_type == "SimplifiedLayerNormalization":
        assert entry.op_type not in schemas()  # it is only met in files
        return
    schema = schemas()[entry.op_type]
    optional = [str(each.option).endswith("Optional") for each in schema.inputs]
    assert [each.name for each in entry.inputs] == [each.name.lower() for each in schema.inputs]
    assert [each.optional for each in entry.inputs] == optional
    assert set(entry.attributes) == set(schema.attributes)
    required = {name for name, each in schema.attributes.items() if each.required}
    needed = {name for name, default in entry.attributes.items() if default is REQUIRED}
    assert needed == required
    assert len(entry.outputs) == len(schema.outputs)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            contrib_attention_cases.multi_head("cross-causal", given={"unidirectional": 1}),
            "queries",
        ),
        (contrib_attention_cases.attention("mask", mask=ints(1, 2, 3)), "mask of 3 numbers"),
        (
            contrib_attention_cases.multi_head("mask", mask=numbers(2, 9).astype(np.int32)),
            "not for 9",
        ),
        (contrib_layer_cases.causal({"ndim": 2}), "ndim 2"),
        (contrib_layer_cases.case("CDist", *[numbers(2, 2)] * 2, given={"metric": "yule"}), "yule"),
        (
            contrib_query_cases.query(
                "slide", contrib_query_cases.STEP, {"sliding_window_cache": 1}
            ),
            "window",
        ),
    ],
    ids=str,
)
def test_what_is_not_done_is_refused(case: Case, message: str) -> None:
    from burnx.errors import BurnxError

    with pytest.raises(BurnxError, match=message):
        run_burnx(case)
