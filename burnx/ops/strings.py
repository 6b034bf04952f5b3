"""Operators on strings, and TfIdfVectorizer, which counts words.  Strings live in Python: the host computes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import bool_, float32, int64, string
from burnx.errors import ModelError, ShapeError
from burnx.ops.kinds import T1, T2, T3, Flag, String, T
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.re2_syntax import as_python
from burnx.types import TensorType

Array = np.ndarray[Any, Any]


def _text_array(items: Sequence[str], shape: Sequence[int]) -> Array:
    result = np.empty(len(items), object)
    result[:] = items
    return result.reshape(shape)


@operator("StringConcat", since=(20,))
def string_concat(x: T, y: T) -> T:
    """x followed by y, broadcast.  Source: ONNX StringConcat-20"""
    return waist.map("add", x, y)


@operator("StringSplit", since=(20,))
def string_split(
    x: String, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[T2, T3]:
    """The parts of each string, filled up with empty ones along a new last axis, and how many parts there are.

    Without a delimiter runs of white space separate.  Source: ONNX StringSplit-20
    """
    most = -1 if maxsplit is None else maxsplit

    def run(texts: Array) -> list[Array]:
        parts = [text.split(delimiter or None, most) for text in texts.reshape(-1)]
        counts = np.array([len(each) for each in parts], np.int64).reshape(texts.shape)
        width = int(counts.max(initial=0))
        filled = [item for each in parts for item in [*each, *[""] * (width - len(each))]]
        return [_text_array(filled, (*texts.shape, width)), counts]

    wide = TensorType(string, (*x.shape, None))  # type: ignore[arg-type]
    parts, counts = waist.host("StringSplit", run, [x], [wide, TensorType(int64, x.shape)])
    return parts, counts


_CASES: dict[str, Callable[[str], str]] = {
    "NONE": lambda text: text,
    "LOWER": str.lower,
    "UPPER": str.upper,
}


@operator("StringNormalizer", since=(10,))
def string_normalizer(
    x: String,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: Flag = 0,
    locale: str | None = None,
    stopwords: Sequence[str] | None = None,
) -> String:
    """The strings that are not stop words, in another case; one empty string if none is left.

    ``locale`` does not matter: case changes as Unicode says.
    Shapes: (n) -> (m) or (1, n) -> (1, m).
    Source: ONNX StringNormalizer-10
    """
    if case_change_action not in _CASES:
        raise ModelError(
            f'StringNormalizer changes case by {", ".join(_CASES)}, not "{case_change_action}"'
        )
    if x.ndim not in (1, 2) or (x.ndim == 2 and isinstance(x.shape[0], int) and x.shape[0] != 1):
        raise ShapeError(f"StringNormalizer takes (n) or (1, n), not {x.shape}")
    fold = str if is_case_sensitive else str.lower
    dropped = {fold(word) for word in stopwords or ()}
    change = _CASES[case_change_action]

    def run(texts: Array) -> list[Array]:
        kept = [change(text) for text in texts.reshape(-1) if fold(text) not in dropped] or [""]
        return [_text_array(kept, (1, len(kept)) if texts.ndim == 2 else (len(kept),))]

    shape = (None,) if x.ndim == 1 else (1, None)
    return waist.host("StringNormalizer", run, [x], [TensorType(string, shape)])[0]  # type: ignore[arg-type]


@operator("RegexFullMatch", since=(20,))
def regex_full_match(x: String, *, pattern: str | None = None) -> T2:
    """Whether the whole of each string matches a regular expression of RE2.  Source: ONNX RegexFullMatch-20"""
    if pattern is None:
        raise ModelError("RegexFullMatch needs a pattern")
    try:
        compiled = re.compile(as_python(pattern))
    except re.error as error:
        raise ModelError(f"{pattern!r} is not a regular expression: {error}") from None

    def run(texts: Array) -> list[Array]:
        found = [compiled.fullmatch(text) is not None for text in texts.reshape(-1)]
        return [np.array(found, np.bool_).reshape(texts.shape)]

    return waist.host("RegexFullMatch", run, [x], [TensorType(bool_, x.shape)])[0]


regex_full_match.limit(
    "\\C and sets of letters of a script: strings here are letters, not bytes, and Python knows no scripts",
    tests="regex_full_match.*(bytes|script)",
)


@regex_full_match.infer
def _regex_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(bool_, None)]


@string_split.infer
def _split_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(string, None), TensorType(int64, None)]


@operator("TfIdfVectorizer", since=(9,))
def tf_idf_vectorizer(
    x: T,
    *,
    mode: str = REQUIRED,  # type: ignore[assignment]
    min_gram_length: int = REQUIRED,  # type: ignore[assignment]
    max_gram_length: int = REQUIRED,  # type: ignore[assignment]
    max_skip_count: int = REQUIRED,  # type: ignore[assignment]
    ngram_counts: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    ngram_indexes: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
) -> T1:
    """How often each n-gram of a pool is found in a row (TF), its weight if it is (IDF), or both multiplied.

    The items of an n-gram may stand up to ``max_skip_count`` items apart.
    Shapes: (n) -> (grams) or (batch, n) -> (batch, grams).
    Source: ONNX TfIdfVectorizer-9
    """
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ModelError(f"TfIdfVectorizer counts by TF, IDF or TFIDF, not {mode!r}")
    if x.ndim not in (1, 2):
        raise ShapeError(f"TfIdfVectorizer takes (n) or (batch, n), not rank {x.ndim}")
    pool = pool_strings if pool_strings is not None else pool_int64s
    if pool is None:
        raise ModelError("TfIdfVectorizer needs pool_strings or pool_int64s")
    size = max(ngram_indexes, default=-1) + 1
    grams = _grams(pool, ngram_counts, ngram_indexes)
    scale = np.ones(size)
    if weights is not None:
        scale[np.asarray(ngram_indexes, np.int64)] = weights

    def row_counts(row: list[Any]) -> Array:
        found = np.zeros(size)
        for gram in _found(row, min_gram_length, max_gram_length, max_skip_count):
            if gram in grams:
                found[grams[gram]] += 1
        return found

    def run(items: Array) -> list[Array]:
        rows = items.reshape((math.prod(items.shape[:-1]), items.shape[-1])).tolist()
        counts = np.array([row_counts(row) for row in rows]).reshape((*items.shape[:-1], size))
        counts = np.minimum(counts, 1.0) if mode == "IDF" else counts
        return [(counts if mode == "TF" else counts * scale).astype(np.float32)]

    kind = TensorType(float32, (*x.shape[:-1], size))
    return waist.host("TfIdfVectorizer", run, [x], [kind])[0]


@tf_idf_vectorizer.infer
def _tf_idf_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(float32, None)]


def _grams(
    pool: Sequence[Any], starts: Sequence[int], places: Sequence[int]
) -> dict[tuple[Any, ...], int]:
    """The n-grams of a pool and their place in the output; ``starts`` says where those of each length begin."""
    found: list[tuple[Any, ...]] = []
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        found += [tuple(pool[at : at + length]) for at in range(start, stop, length)]
    if len(found) != len(places):
        raise ModelError(f"{len(found)} n-grams need as many ngram_indexes, not {len(places)}")
    return dict(zip(found, places, strict=True))


def _found(row: list[Any], shortest: int, longest: int, skips: int) -> list[tuple[Any, ...]]:
    """Every n-gram of a row; single items do not depend on what is skipped, so they count once."""
    return [
        tuple(row[start : start + (length - 1) * step + 1 : step])
        for length in range(shortest, longest + 1)
        for step in range(1, 2 if length == 1 else skips + 2)
        for start in range(len(row) - (length - 1) * step)
    ]
