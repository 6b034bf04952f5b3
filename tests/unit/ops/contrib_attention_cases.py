"""Cases of com.microsoft's attention operators, one for each form of their inputs and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.ops.contrib_models import Array, Case, ints, numbers

B, S, L, D, N, P = 2, 3, 5, 8, 2, 4


def flags(*shape: int) -> Array:
    return np.random.default_rng(1).integers(0, 2, shape).astype(np.int32)


def attention(name: str, outputs: int = 1, given: Any = None, **inputs: Array | None) -> Case:
    base: dict[str, Array | None] = {
        "x": numbers(B, S, D),
        "w": numbers(D, 3 * D),
        "b": numbers(3 * D),
        **dict.fromkeys(("mask", "past", "bias", "length")),
    }
    attributes = {"num_heads": N, **(given or {})}
    return Case("Attention", {**base, **inputs}, attributes, outputs, name=name)


def past() -> Array:
    return numbers(2, B, N, P, D // N)


CAUSAL = {"unidirectional": 1}
ATTENTION = [
    attention("plain"),
    attention("without-bias", b=None),
    attention("present", 2),
    attention("causal", given=CAUSAL),
    attention("scale", given={"scale": 0.3}),
    attention("past", 2, past=past()),
    attention("past-causal", 2, CAUSAL, past=past()),
    attention("mask-keys", mask=flags(B, S)),
    attention("mask-small", given={"mask_filter_value": -1.5, **CAUSAL}, mask=flags(B, S)),
    attention("mask-each", mask=flags(B, S, S)),
    attention("mask-each-causal", given={"mask_filter_value": -1.5, **CAUSAL}, mask=flags(B, S, S)),
    attention("mask-ends", given={"mask_filter_value": -2.0}, mask=ints(2, 3)),
    attention("mask-nothing", mask=ints(0, 3)),
    attention("mask-spans", given={"mask_filter_value": -2.0}, mask=ints(2, 3, 1, 0)),
    attention("mask-packed", mask=ints(2, 3, 0, 2, 5, 0, 2, 5)),
    attention("mask-past", 2, mask=flags(B, S + P), past=past()),
    attention("bias", bias=numbers(B, N, S, S)),
    attention("bias-shared", bias=numbers(1, 1, S, S), mask=flags(B, S)),
    attention("sizes", given={"qkv_hidden_sizes": [8, 8, 12]}, w=numbers(D, 28), b=numbers(28)),
]


def multi_head(name: str, outputs: int = 1, given: Any = None, **inputs: Array | None) -> Case:
    base: dict[str, Array | None] = {
        "q": numbers(B, S, D),
        "k": numbers(B, L, D),
        "v": numbers(B, L, D),
        **dict.fromkeys(("b", "mask", "bias", "pk", "pv", "length", "beams")),
    }
    typed = np.float32 if outputs == 4 else None
    attributes = {"num_heads": N, **(given or {})}
    return Case(
        "MultiHeadAttention", {**base, **inputs}, attributes, outputs, name=name, typed=typed
    )


def own() -> dict[str, Array]:
    return {"k": numbers(B, S, D), "v": numbers(B, S, D)}


def earlier() -> dict[str, Array]:
    return {"pk": numbers(B, N, P, 4), "pv": numbers(B, N, P, 4)}


def buffer() -> dict[str, Array]:
    return {"pk": numbers(B, N, 10, 4), "pv": numbers(B, N, 10, 4), "length": ints(4)}


def single() -> dict[str, Array]:
    return {name: numbers(B, 1, D) for name in "qkv"}


BEAMS = np.zeros((1, 2, 10), np.int32)
BEAMS[0, :, :4] = [[0, 1, 1, 0], [1, 0, 0, 1]]
MULTI_HEAD = [
    multi_head("plain"),
    multi_head("biased", b=numbers(3 * D)),
    multi_head("causal", given=CAUSAL, **own()),
    multi_head("scale", given={"scale": 0.3}),
    multi_head("present", 3),
    multi_head("past", 3, **own(), **earlier()),
    multi_head("past-causal", 3, CAUSAL, **own(), **earlier()),
    multi_head("past-biased", 3, b=numbers(3 * D), **own(), **earlier()),
    multi_head("values", v=numbers(B, L, 12), b=numbers(28)),
    multi_head("heads", k=numbers(B, N, L, 4), v=numbers(B, N, L, 4)),
    multi_head("heads-biased", k=numbers(B, N, L, 4), v=numbers(B, N, L, 4), b=numbers(3 * D)),
    multi_head("mask-keys", given={"mask_filter_value": -2.0}, mask=flags(B, L)),
    multi_head("mask-ends", mask=ints(2, 3)),
    multi_head("mask-packed", mask=ints(2, 3, 0, 3, 6, 0, 5, 10)),
    multi_head("mask-each", mask=flags(B, S, L)),
    multi_head("mask-past", 3, mask=flags(B, S + P), **own(), **earlier()),
    multi_head("bias", bias=numbers(B, N, S, L)),
    multi_head("bias-past", 3, bias=numbers(1, N, S, S + P), **own(), **earlier()),
    multi_head("scores", 4, mask=flags(B, L), bias=numbers(1, 1, S, L)),
    multi_head("buffer", 3, **single(), **buffer()),
    multi_head("buffer-chunk", 4, **own(), **buffer()),
    multi_head("beams", 3, beams=BEAMS, **single(), **buffer()),
]


def decoder(name: str, outputs: int = 1, given: Any = None, **inputs: Array | None) -> Case:
    rest = dict.fromkeys(("mask", "bias", "pk", "pv", "length", "width", "beams", "b"))
    base: dict[str, Array | None] = {**single(), **rest}
    typed = np.float32 if outputs == 4 else None
    compared = (0, 3) if name.startswith("cross") and outputs == 4 else None
    return Case(
        "DecoderMaskedMultiHeadAttention",
        {**base, **inputs},
        {"num_heads": N, **(given or {})},
        outputs,
        compared,
        name=name,
        typed=typed,
    )


SHARED = {"past_present_share_buffer": 1}
CROSS = {"k": numbers(B, N, L, 4), "v": numbers(B, N, L, 4)}
DECODER = [
    decoder("plain"),
    decoder("buffer", 3, SHARED, **buffer()),
    decoder(
        "scores",
        4,
        {**SHARED, "output_qk": 1},
        mask=flags(B, P + 1),
        bias=numbers(1, N, 1, P + 1),
        **buffer(),
    ),
    decoder("beams", 3, SHARED, width=ints(2), beams=BEAMS, **buffer()),
    decoder("cross", **CROSS),
    decoder("cross-biased", b=numbers(3 * D), **CROSS),
    decoder("cross-scores", 4, {"output_qk": 1}, mask=flags(B, L), **CROSS),
]


def rotary(name: str, x: Array, ids: Any, given: Any = None, **more: Any) -> Case:
    caches = {"cos": numbers(10, 4).astype(x.dtype), "sin": numbers(10, 4).astype(x.dtype)}
    inputs = {"x": x, "ids": np.array(ids, np.int64), **caches}
    return Case("RotaryEmbedding", inputs, given or {}, name=name, **more)


IDS = [[1, 2, 5], [0, 1, 2]]
PART = {"num_heads": 2, "rotary_embedding_dim": 8}
ROTARY = [
    each
    for interleaved in (0, 1)
    for each in (
        rotary("first", numbers(2, 3, 16), [2], {"interleaved": interleaved}),
        rotary("each", numbers(2, 3, 16), IDS, {"interleaved": interleaved}),
        rotary("heads", numbers(2, 2, 3, 8), IDS, {"interleaved": interleaved}),
        rotary("part", numbers(2, 3, 32), IDS, {"interleaved": interleaved, **PART}),
        rotary("part-heads", numbers(2, 2, 3, 16), IDS, {"interleaved": interleaved, **PART}),
        rotary("scale", numbers(2, 3, 16), [2], {"interleaved": interleaved, "scale": 2.0}),
        rotary(
            "packed",
            numbers(1, 5, 16),
            [[0, 1, 2, 0, 1]],
            {"interleaved": interleaved, "is_packed_batching": 1},
        ),
        rotary(
            "half",
            numbers(2, 3, 16, dtype=np.float16),
            [2],
            {"interleaved": interleaved},
            rtol=2e-3,
            atol=1e-3,
        ),
    )
]
CASES = [*ATTENTION, *MULTI_HEAD, *DECODER, *ROTARY]
