"""The module paths in names of nodes and parameters are read as their author wrote them."""

from __future__ import annotations

import pytest

from burnx.structure.paths import snake_case, split_parameter, split_scope


def test_snake_case_splits_at_capitals() -> None:
    assert snake_case("LayerNormalization") == "layer_normalization"
    assert snake_case("GRU") == "gru"
    assert snake_case("GRUCell") == "gru_cell"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/layer1/layer1.0/conv1/Conv", ("layer1", "0", "conv1")),
        ("/encoder/layer.0/attention/self/MatMul", ("encoder", "layer", "0", "attention", "self")),
        ("/features/features.0/features.0.1/Relu", ("features", "0", "1")),
        ("/model/layers/layers.3/mlp/Mul_1", ("model", "layers", "3", "mlp")),
        ("/Flatten", ()),
        ("Conv_3", ()),
        ("", ()),
    ],
)
def test_a_scope_is_read_as(text: str, wanted: tuple[str, ...]) -> None:
    assert split_scope(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("layer1.0.conv1.weight", (("layer1", "0", "conv1"), "weight")),
        ("weight", ((), "weight")),
        ("", ((), "")),
    ],
)
def test_a_parameter_is_split_as(text: str, wanted: tuple[tuple[str, ...], str]) -> None:
    assert split_parameter(text) == wanted
