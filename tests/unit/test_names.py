"""Names are legal, differ where their texts differ, and stay the same from run to run."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnx.codegen.names import LOCAL_RESERVED, Names, class_name

model_names = st.text() | st.text("ab_.:/0X", max_size=6)


@given(st.lists(model_names, max_size=30))
def test_names_are_legal_and_never_meet(texts: list[str]) -> None:
    names = Names()
    given_names = {text: names.take(text, "value") for text in texts}
    for given_name in given_names.values():
        assert given_name.isidentifier() and given_name.isascii()
        assert not keyword.iskeyword(given_name) and given_name not in LOCAL_RESERVED
    assert len(set(given_names.values())) == len(given_names)
    assert {text: names.take(text) for text in texts} == given_names
    assert names.originals() == {given_name: text for text, given_name in given_names.items()}


@given(st.lists(model_names, max_size=30))
def test_the_same_texts_get_the_same_names(texts: list[str]) -> None:
    first, second = Names(), Names()
    assert [first.take(text) for text in texts] == [second.take(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("input_ids", "input_ids"),
        ("serving_default_input_2:0", "serving_default_input_2"),
        ("onnx::Flatten_0", "flatten"),
        ("gpu_0/data_0", "gpu_0_data_0"),
        ("/layer1/Conv_output_0", "layer1_Conv_output_0"),
        ('{"a": 1}', "value"),
        ("名前", "value"),
        ("123", "value"),
        ("", "value"),
        ("12abc", "n12abc"),
        ("class", "class_"),
        ("self", "self_2"),
        ("range", "range_"),
        ("input", "input_"),
        ("l", "l_2"),
        ("_conv_stem", "_conv_stem"),
        ("__init__", "init"),
        ("a b\nimport os", "a_b_import_os"),
    ],
)
def test_a_name_is_made_as(text: str, wanted: str) -> None:
    assert Names().take(text, "value") == wanted


def test_what_looks_alike_is_told_apart() -> None:
    names = Names()
    texts = ["a.b", "a_b", "a/b", "a_b_2", "A_b"]
    assert [names.take(text) for text in texts] == ["a_b", "a_b_2", "a_b_3", "a_b_2_2", "A_b"]


def test_a_child_scope_keeps_clear_of_its_parent() -> None:
    parent = Names()
    parent.take("x")
    first, second = Names((), parent), Names((), parent)
    assert first.take("x") == "x_2"
    assert second.take("x") == "x_2"
    assert second.take("self") == "self_2"


def test_an_attribute_scope_reserves_only_what_it_is_told() -> None:
    attributes = Names(reserved={"forward"})
    assert [attributes.take(text) for text in ("self", "type", "forward")] == [
        "self",
        "type",
        "forward_2",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("bert_self-attention", "BertSelfAttention"),
        ("ResNet50 v1", "ResNet50V1"),
        ("LayerNorm", "LayerNorm"),
        ("none", "None_"),
        ("2d_conv", "DConv"),
        ("名前", ""),
        ("", ""),
    ],
)
def test_a_class_name_is_made_as(text: str, wanted: str) -> None:
    assert class_name(text) == wanted


@given(st.text())
def test_a_class_name_is_legal_or_empty(text: str) -> None:
    made = class_name(text)
    assert made == "" or made.isidentifier() and made.isascii() and not keyword.iskeyword(made)
