"""Sequences, optionals and strings, through branches and loops too."""

from __future__ import annotations

import numpy as np
import pytest

from burnx.errors import BurnxError, DTypeError, ShapeError
from tests.unit.ops.text_model import load, run


def test_an_element_of_a_split_knows_its_rank() -> None:
    model = load(
        "g (float[a, b] x) => (float[c, d] y) { s = SplitToSequence<axis=1, keepdims=0>(x)\n"
        " i = Constant<value_int=-1>()\n t = SequenceAt(s, i)\n y = Unsqueeze(t, i) }"
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert next(iter(model.run({"x": x}).values())).tolist() == [[2], [5]]


def test_a_branch_joins_sequences_of_different_sizes() -> None:
    text = """g (bool c, float[2] x, float[3] z) => (float[n] y) {
      s = If(c) <then_branch = g1 () => (seq(float[2]) a) { a = SequenceConstruct(x) },
                 else_branch = g2 () => (seq(float[3]) b) { b = SequenceConstruct(z, z) }>
      y = ConcatFromSequence<axis=0>(s)
    }"""
    feed = {"x": np.ones(2, np.float32), "z": np.zeros(3, np.float32)}
    assert run(text, c=np.array(True), **feed).shape == (2,)
    assert run(text, c=np.array(False), **feed).shape == (6,)


def test_erase_and_insert_count_from_both_ends() -> None:
    text = """g (float[n] x, float[n] y, int64 p) => (int64 k, float[m] z) {
      s = SequenceConstruct(x, y)
      t = SequenceInsert(s, y, p)
      k = SequenceLength(t)
      e = SequenceErase(t)
      z = ConcatFromSequence<axis=0>(e)
    }"""
    x, y = np.array([1], np.float32), np.array([2], np.float32)
    count, joined = run(text, x=x, y=y, p=np.array(-2))
    assert count == 3 and joined.tolist() == [2, 1]


def test_a_place_outside_and_another_dtype_are_refused() -> None:
    at = "g (float[n] x, int64 p) => (float[m] y) { s = SequenceConstruct(x)\n y = SequenceAt(s, p) }"
    with pytest.raises(ShapeError, match="no place 1"):
        run(at, x=np.ones(1, np.float32), p=np.array(1))
    mixed = (
        "g (float[n] x, int64 p) => (seq(float[n]) t) "
        "{ s = SequenceConstruct(x)\n t = SequenceInsert(s, p) }"
    )
    with pytest.raises(DTypeError):
        run(mixed, x=np.ones(1, np.float32), p=np.array(1))


def test_nothing_has_no_element() -> None:
    text = """g (optional(float[n]) x) => (bool has, float[n] y) {
      has = OptionalHasElement(x)
      y = OptionalGetElement(x)
    }"""
    has, y = run(text, x=np.ones(2, np.float32))
    assert has and y.tolist() == [1, 1]
    with pytest.raises(BurnxError, match="holds something"):
        run(text, x=None)


def test_every_stop_word_gone_leaves_one_empty_string() -> None:
    text = (
        "g (string[n] x) => (string[m] y) { y = StringNormalizer"
        '<case_change_action="UPPER", stopwords=["a"]>(x) }'
    )
    assert run(text, x=np.array(["A", "a"], object)).tolist() == [""]
    assert run(text, x=np.array(["A", "straße"], object)).tolist() == ["STRASSE"]


def test_weights_of_n_grams_multiply_their_counts() -> None:
    text = (
        'g (string[n] x) => (float[m] y) { y = TfIdfVectorizer<mode="TFIDF", min_gram_length=1, '
        "max_gram_length=2, max_skip_count=1, ngram_counts=[0, 1], ngram_indexes=[1, 0], "
        'pool_strings=["a", "a", "b"], weights=[2.0, 10.0]>(x) }'
    )
    assert run(text, x=np.array(["a", "b", "b", "a"], object)).tolist() == [20, 4]
