"""RegexFullMatch takes the syntax of RE2: what it and Python's differ in, against onnxruntime, which has RE2 itself."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import burnx
from burnx.conformance.engines import open_onnxruntime
from burnx.errors import BurnxError, UnsupportedError

TEXTS = np.array(
    [
        "",
        "a",
        "aa",
        "ab",
        "ABC",
        "Zed",
        "a\nb",
        "a\n",
        "12-34",
        "٣",
        "é",
        "ünï",
        "K",
        "\u212a",
        "a+b",
        "  ",
    ],
    object,
)
LEGAL = [
    *("[[:alpha:]]+", "[[:^digit:]]*", "[^[:space:]]+", r"\d+", r"\D+", r"\w+", r"\W*", r"[^\w]+"),
    *(r"\s*", r"\S+", r"\pL+", r"\p{Lu}\w*", r"\PL+", r"\p{^L}*", r"[\pL+]+", r"ab\z", r"\Aab"),
    *(
        r"\Qa+b\E",
        r"\Qa+b",
        r"\x{61}",
        r"\x41BC",
        r"\141",
        "(?i)k",
        "(?i:ab)c?",
        "a(?i)b|c",
        "(?-s)a.b",
    ),
    *("(?P<n>a)b", "(?<n>a)b", "a{,2}", "a{1,2}?", "a*?", "(?U)a+", "(?s)a.b", "(?m)^a$\n^b$"),
    *("a$\n", "a$", r"\bab\b", "[]a]+", "[a&&b]", "[^a-c]", "", "(a|b)*", "(?i)(a(?-i)b)"),
]
WRONG = [
    *("(?=a)a", "(?!b)a", "(?<=a)b", r"(a)\1", "a++", "a**", "(?#x)a", "(?x)a b", "(?a)a", r"a\Z"),
    *("(", "[a", "[[:nothing:]]", r"\y", "*a"),
]


def matcher(pattern: str) -> bytes:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    given = helper.make_tensor_value_info("x", TensorProto.STRING, TEXTS.shape)
    result = helper.make_tensor_value_info("y", TensorProto.BOOL, TEXTS.shape)
    graph = helper.make_graph([node], "g", [given], [result])
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


@pytest.mark.parametrize("pattern", LEGAL)
def test_matches_are_those_of_re2(pattern: str) -> None:
    wanted = open_onnxruntime(matcher(pattern))({"x": TEXTS})["y"]
    found = burnx.load(matcher(pattern)).run({"x": TEXTS})["y"]
    assert TEXTS[found].tolist() == TEXTS[wanted].tolist()


@pytest.mark.parametrize("pattern", WRONG)
def test_what_re2_has_not_is_refused(pattern: str) -> None:
    with pytest.raises(BurnxError, match="regular expression.*RegexFullMatch"):
        burnx.load(matcher(pattern)).run({"x": TEXTS})


@pytest.mark.parametrize("pattern", [r"\C", r"\p{Greek}"])
def test_bytes_and_scripts_are_not_done(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="RegexFullMatch"):
        burnx.load(matcher(pattern)).run({"x": TEXTS})
