"""Cases of com.microsoft.GroupQueryAttention: prompts, steps, chunks, caches and what is added to the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.unit.ops.contrib_models import Array, Case, ints, numbers


@dataclass(frozen=True)
class Size:
    """Sizes of a call: two query heads for one key head, ``room`` rows in the cache (0: none)."""

    totals: tuple[int, ...]
    seq: int = 1
    room: int = 0
    width: int = 8
    is_packed: bool = False
    dtype: Any = np.float32


def query(
    name: str, size: Size, given: Any = None, outputs: int = 3, **inputs: Array | None
) -> Case:
    batch, seq, width, dtype = len(size.totals), size.seq, size.width, size.dtype

    def rows(count: int) -> Array:
        return numbers(batch, seq, count * width, dtype=dtype)

    def cache() -> Array | None:
        return numbers(batch, 1, size.room, width, dtype=dtype) if size.room else None

    base: dict[str, Array | None] = {
        "q": rows(4 if size.is_packed else 2),
        "k": None if size.is_packed else rows(1),
        "v": None if size.is_packed else rows(1),
        "pk": cache(),
        "pv": cache(),
        "seqlens": np.array(size.totals, np.int32) - 1,
        "total": ints(max(size.totals)),
        **dict.fromkeys(("cos", "sin", "ids", "bias", "sink", "ks", "vs", "qn", "kn", "brought")),
    }
    tolerance = {"rtol": 5e-3, "atol": 2e-3} if dtype == np.float16 else {}
    attributes = {"num_heads": 2, "kv_num_heads": 1, **(given or {})}
    inputs = {**base, **inputs}
    return Case("GroupQueryAttention", inputs, attributes, outputs, name=name, **tolerance)


def angles(half: int = 8, dtype: Any = np.float32) -> dict[str, Array]:
    return {"cos": numbers(20, half, dtype=dtype), "sin": numbers(20, half, dtype=dtype)}


def bytes_of(*shape: int) -> Array:
    return np.random.default_rng(3).integers(-100, 100, shape).astype(np.int8)


def coded(kind: str, bits: int) -> Case:
    each = np.linspace(0.2, 0.4, 8, dtype=np.float32).reshape(1, 1, 1, 8)
    scale = (np.array([0.3], np.float32) if kind == "PER_TENSOR" else each) / (
        1 if bits == 4 else 9
    )
    cache = bytes_of(1, 1, 8, 8) if bits == 8 else bytes_of(1, 1, 8, 4).view(np.uint8)
    given = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    inputs = {"pk": cache, "pv": cache[..., ::-1].copy(), "ks": scale, "vs": scale * 2}
    return query(f"{kind}-{bits}", Size((5,), 2, 8), given, **inputs)


STEP, CHUNK = Size((4, 6), 1, 6), Size((5,), 3, 9)
TURNING = Size((4, 6), 1, 6, 16)
ROTATES = {"do_rotary": 1}
CASES = [
    query("step", STEP),
    query("step-uneven", Size((4, 3), 1, 6)),
    query("prompt", Size((4, 4), 4)),
    query("prompt-packed", Size((4, 4), 4, is_packed=True)),
    query("chunk-growing", Size((5,), 3, 2)),
    query("chunk", CHUNK),
    query("chunk-packed", Size((5,), 3, 9, is_packed=True)),
    *(query("window", Size((7,), 3, 9), {"local_window_size": window}) for window in (1, 2, 3, 5)),
    query("rotary", TURNING, ROTATES, **angles()),
    query("rotary-interleaved", TURNING, {**ROTATES, "rotary_interleaved": 1}, **angles()),
    query("rotary-part", Size((4, 6), 1, 6, 32), ROTATES, **angles(8)),
    query("rotary-prompt", Size((4, 4), 4, 0, 16, True), ROTATES, **angles()),
    query("rotary-chunk", Size((5,), 3, 9, 16), ROTATES, **angles()),
    query("rotary-ids", TURNING, ROTATES, ids=np.array([[7], [9]]), **angles()),
    query(
        "rotary-ids-prompt",
        Size((4, 4), 4, 0, 16),
        ROTATES,
        ids=np.array([[2, 5, 7, 8], [4, 1, 2, 3]]),
        **angles(),
    ),
    query("softcap", CHUNK, {"softcap": 1.5}),
    query("scale", CHUNK, {"scale": 0.5}),
    query("smooth", CHUNK, {"smooth_softmax": 1}),
    query("sink", CHUNK, sink=numbers(2)),
    query("sink-window", CHUNK, {"local_window_size": 2, "softcap": 2.0}, sink=numbers(2)),
    query("bias", CHUNK, bias=numbers(1, 2, 3, 5)),
    query("bias-shared", STEP, {"softcap": 2.0}, bias=numbers(2, 1, 1, 6)),
    query("both-ways", CHUNK, {"causal": 0}),
    query("both-ways-prompt", Size((3,), 3), {"causal": 0}),
    *(
        each
        for mode in (1, 2)
        for each in (
            query("scores", CHUNK, {"qk_output": mode}, 4),
            query(
                "scores-window",
                CHUNK,
                {"qk_output": mode, "softcap": 2.0, "local_window_size": 2},
                4,
                bias=numbers(1, 2, 3, 5),
            ),
            query("scores-smooth", CHUNK, {"qk_output": mode, "smooth_softmax": 1}, 4),
        )
    ),
    *(coded(kind, bits) for kind in ("PER_TENSOR", "PER_CHANNEL") for bits in (8, 4)),
    query("brought", Size((5, 3), 3, 9), brought=ints(3, 3)),
    query(
        "half",
        Size((4, 6), 1, 6, 16, dtype=np.float16),
        ROTATES,
        **angles(8, np.float16),
    ),
]
SLIDES = {"sliding_window_cache": 1, "local_window_size": 3}


def sliding(total: int, seq: int = 2, **inputs: Array | None) -> Case:
    return query(f"slides-{total}-{seq}", Size((total,), seq, 5), SLIDES, **inputs)


def resident(total: int, room: int = 5, window: int = 3) -> int:
    """How many rows of a sliding cache are specified."""
    at_once = room - window + 1
    return total if total <= room else total - at_once * -(-(total - room) // at_once)


SLIDING = [
    *(sliding(total) for total in (2, 5, 6, 7, 8, 9, 12)),
    sliding(9, 7),
    sliding(8, 1, bias=numbers(1, 2, 1, 8)),
]
