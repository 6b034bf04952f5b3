"""Nodes of com.microsoft whose weights are of few bits: blocks, codes, experts, attention, LSTM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.unit.ops.contrib_quantized_linear_cases import real, small, whole
from tests.unit.ops.contrib_quantized_node import Array, Case, one

RNG = np.random.default_rng(23)
INT4, UINT4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)


def positive(*shape: int) -> Array:
    return np.abs(real(*shape)) * np.float32(0.05)


def nbits() -> Iterator[Case]:
    """onnxruntime quantizes activations at accuracy_level 4, so 0 and 1 are compared."""
    number = 0
    for bits in (2, 4, 8):
        for block in (16, 32, 64, 256):
            for columns in (block, 2 * block, block + 8, 3 * block - 5):
                blocks = -(-columns // block)
                zeros = [None, whole(np.uint8, 5, -(-blocks * bits // 8))]
                if bits == 4:  # onnxruntime's kernels of 2 and 8 bits take no float zero points
                    zeros.append(real(5, blocks) * 3)
                for zero in zeros:
                    number += 1
                    inputs = {
                        "a": real(2, 3, columns) if number % 3 else real(2, columns),
                        "b": whole(np.uint8, 5, blocks, block * bits // 8),
                        "s": real(5, blocks),
                        "z": zero,
                        "g": None,
                        "bias": real(5) if number % 2 else None,
                    }
                    chosen = {"K": columns, "N": 5, "bits": bits, "block_size": block}
                    chosen["accuracy_level"] = number % 2
                    kind = "-" if zero is None else zero.dtype.name
                    yield Case(
                        "MatMulNBits",
                        inputs,
                        chosen,
                        constants=("b", "s", "z"),
                        fixed=("bias",),
                        atol=2e-3,
                        label=f"{bits} bits {block} {columns} {kind}",
                    )


def codes() -> Iterator[Case]:
    """With transB only: without it onnxruntime's kernel reads the weight as if it were there."""
    for quant_type in (0, 1):
        for rows, columns, block in ((5, 7, 16), (8, 16, 16), (32, 64, 64), (3, 100, 128)):
            inputs = {
                "a": real(2, 3, columns),
                "b": whole(np.uint8, (rows * columns + 1) // 2),
                "s": positive(-(-rows * columns // block)),
            }
            chosen = {"K": columns, "N": rows, "block_size": block, "quant_type": quant_type}
            yield Case(
                "MatMulBnb4", inputs, chosen, fixed=("b", "s"), label=f"{quant_type} {rows} {block}"
            )


INDICES = (np.array([[0, 3, -1], [4, 2, -5]]), np.array(2, np.int32), np.array([7, -9, 1]))


def gathered() -> Iterator[Case]:
    """The last index array has some out of range."""
    for number, indices in enumerate(INDICES):
        for bits in (2, 4, 8):
            each = 8 // bits
            inputs = {
                "data": whole(np.uint8, 5, 3, 40 // each),
                "i": indices,
                "s": real(5, 3, 3).astype(np.float16 if number else np.float32),
                "z": whole(np.uint8, 5, 3, -(-3 // each)) if number != 1 else None,
            }
            chosen = {"bits": bits, "block_size": 16, "quantize_axis": 2}
            yield _gather(inputs, chosen, f"{bits} bits {number}")
        for dtype in (INT4, UINT4):
            low = -8 if dtype == INT4 else 0
            for axis, blocked in ((0, 1), (1, 0), (0, 2), (2, 0), (2, 2), (-1, -1), (-2, 2)):
                shape = [5, 3, 40]
                shape[blocked % 3] = -(-shape[blocked % 3] // 32)
                numbers = (RNG.integers(low, low + 16, size) for size in ((5, 3, 40), shape))
                data, zeros = (each.astype(np.int8).astype(dtype) for each in numbers)
                inputs = {"data": data, "i": indices, "s": real(*shape), "z": zeros}
                if number == 1:
                    inputs["z"] = None
                chosen = {"block_size": 32, "gather_axis": axis, "quantize_axis": blocked}
                yield _gather(inputs, chosen, f"{dtype.name} {axis} {blocked} {number}")
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        yield from _gather_floats(np.dtype(getattr(ml_dtypes, name)))
    yield from _gather_floats(np.dtype(ml_dtypes.float4_e2m1fn))


def _gather_floats(dtype: Any) -> Iterator[Case]:
    for block in (0, 16):
        for shared in (False, True):
            for axis, blocked in ((0, 1), (1, 0), (1, 1), (0, 2)):
                shape = [1, 1, 1] if shared else [5, 3, 40]
                shape[blocked] = -(-(5, 3, 40)[blocked] // block) if block else 1
                inputs = {"data": (real(5, 3, 40) * 2).astype(dtype), "i": INDICES[2]}
                inputs["s"] = real(*shape)
                chosen = {"block_size": block, "gather_axis": axis, "quantize_axis": blocked}
                yield _gather(inputs, chosen, f"{dtype.name} {block} {shared} {axis} {blocked}")


def _gather(inputs: dict[str, Any], chosen: dict[str, Any], label: str) -> Case:
    constants = ("data", "s", "z")
    return Case("GatherBlockQuantized", inputs, chosen, constants=constants, rtol=1e-3, label=label)


# ---------------------------------------------------------------- attention, embeddings, LSTM
def attentions() -> Iterator[Case]:
    for number in range(4):
        per_column, past, causal = number % 2, 2 * (number // 2), number in (1, 2)
        keys = 4 + past
        dtype = (np.uint8, np.int8)[per_column]
        masks: dict[str, Any] = {
            "no mask": None,
            "ends": np.array([3, keys], np.int32),
            "nothing": np.array([0, keys], np.int32),
            "ends and starts": np.array([3, keys, 0, 2], np.int32),
            "keys": RNG.integers(0, 2, (2, keys)).astype(np.int32),
            "pairs": RNG.integers(0, 2, (2, 4, keys)).astype(np.int32),
            "all": np.zeros((2, 1), np.int32),
            "none": np.zeros((2, keys), np.int32),
        }
        for name, mask in masks.items():
            inputs = {
                "x": small(np.uint8, 2, 4, 12),
                "w": small(dtype, 12, 36),
                "b": real(36),
                "xs": one(0.02),
                "ws": positive(36) / 5 if per_column else one(0.012),
                "m": mask,
                "xz": one(60, np.uint8) if number else None,
                "wz": np.full(36, 5, dtype) if per_column else one(3, dtype),
                "past": real(2, 2, 3, past, 4) if past else None,
            }
            chosen: dict[str, Any] = {"num_heads": 3, "unidirectional": int(causal)}
            if number == 3:
                chosen |= {"scale": 0.3, "mask_filter_value": -50.0}
            label = f"{number} {name}"
            yield Case("QAttention", inputs, chosen, outputs=2, rtol=1e-3, atol=1e-4, label=label)


def embeddings() -> Iterator[Case]:
    ids = RNG.integers(0, 7, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 0, 0, 1], [2, 1, 1, 0, 0]], np.int32)
    for dtype in (np.uint8, np.int8):
        for segmented in (True, False):
            inputs = {
                "ids": ids,
                "segments": ids % 2,
                "words": whole(dtype, 7, 8),
                "places": whole(dtype, 9, 8),
                "parts": whole(dtype, 2, 8),
                "g": whole(dtype, 8),
                "b": whole(dtype, 8),
                "mask": mask if segmented else None,
                **{f"s{n}": one(0.1 + n / 30) for n in range(5)},
                **{f"z{n}": one(3 + 20 * n, dtype) for n in range(5)},
            }
            if not segmented:
                inputs |= dict.fromkeys(("segments", "parts", "s2", "z2"))
            fixed = ("words", "places", "parts", "g", "b")
            label = f"{dtype.__name__} {segmented}"
            chosen = {"epsilon": 1e-5} if segmented else {}
            op = "QEmbedLayerNormalization"
            yield Case(op, inputs, chosen, outputs=2, fixed=fixed, label=label)


def lstms() -> Iterator[Case]:
    """Some options at a time.

    With lengths the range that onnxruntime quantizes by leaves out ended sequences, burnx's does
    not, and no document says; that is up to a step of 1/255 of the range.
    """
    names = ["HardSigmoid", "Relu", "Tanh"]
    for dtype in (np.uint8, np.int8):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            for number in range(5):
                full, columns = number in (1, 4), number % 2
                chosen: Any = (
                    {},
                    {},
                    {"clip": 0.5},
                    {
                        "activations": names * count,
                        "activation_alpha": [0.2] * count,
                        "activation_beta": [0.4] * count,
                    },
                    {"input_forget": 1},
                )[number]
                middle = 0 if dtype is np.int8 else 60
                scales = [
                    positive(count, 24) / 5 + np.float32(0.005)
                    if columns
                    else np.full(count, 0.01, np.float32)
                    for _ in range(2)
                ]
                zeros = np.full((count, 24) if columns else count, middle, dtype)
                inputs = {
                    "x": real(7, 3, 5),
                    "w": small(dtype, count, 5, 24),
                    "r": small(dtype, count, 6, 24),
                    "b": real(count, 48) if full else None,
                    "lengths": np.array([7, 3, 5], np.int32) if number == 1 else None,
                    "h": real(count, 3, 6) if full else None,
                    "c": real(count, 3, 6) if full else None,
                    "p": real(count, 18) if number else None,
                    "ws": scales[0],
                    "wz": zeros,
                    "rs": scales[1],
                    "rz": zeros,
                }
                yield Case(
                    "DynamicQuantizeLSTM",
                    inputs,
                    {"hidden_size": 6, "direction": direction, **chosen},
                    outputs=3,
                    constants=("w", "r", "ws", "wz", "rs", "rz"),
                    rtol=1e-3,
                    atol=2e-2 if number == 1 else 1e-3,
                    label=f"{dtype.__name__} {direction} {number}",
                )


# ---------------------------------------------------------------- experts
GATED = {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.0}
GATES: Sequence[tuple[str, dict[str, Any]]] = (
    ("relu", {}),
    ("gelu", {}),
    ("silu", {}),
    ("identity", {}),
    ("swiglu", {"swiglu_fusion": 1}),
    ("swiglu", GATED),
)


def experts() -> Iterator[Case]:
    for number, (name, options) in enumerate(GATES):
        for k in (1, 2, 4):
            normalized = (number + k) % 2
            width = 32 if options else 16
            biased = (number + k) % 3 > 0
            inputs = {
                "x": real(6, 8) if k % 2 else real(2, 3, 8),
                "r": real(6, 4),
                "w1": real(4, width, 8),
                "b1": real(4, width) if biased else None,
                "w2": real(4, 8, 16),
                "b2": real(4, 8) if biased else None,
            }
            chosen = {"k": k, "activation_type": name, "normalize_routing_weights": normalized}
            fixed = ("w1", "w2", "b1", "b2")
            label = f"{number} {name} {k}"
            yield Case("MoE", inputs, {**chosen, **options}, fixed=fixed, atol=1e-4, label=label)
    tie = np.broadcast_to(np.array([0, 0.5, 0.5, 0], np.float32), (6, 4)).copy()
    inputs = {"x": real(6, 8), "r": tie, "w1": real(4, 16, 8), "b1": None, "w2": real(4, 8, 16)}
    yield Case("MoE", inputs, {"k": 1}, fixed=("w1", "w2"), label="equals")


def quantized_experts() -> Iterator[Case]:
    """Where onnxruntime quantizes no activations: not blocks of 8 bits, nor of 2 from 32 on.

    Nor without normalize_routing_weights, where its QMoE shares out as with it, and its MoE does not.
    """
    for bits, block in ((2, 0), (2, 16), (4, 0), (4, 16), (4, 32), (8, 0)):
        each = 8 // bits
        for number in range(4):
            gated, zero, weighted = number == 3, number in (1, 3), number in (2, 3)
            rows = 128 if gated else 64

            def scales(n: int, k: int, block: int = block) -> Array:
                return positive(4, n, k // block) if block else positive(4, n)

            def zeros(n: int, k: int, block: int = block, each: int = each) -> Array:
                shape = (4, n, -(-(k // block) // each)) if block else (4, -(-n // each))
                return whole(np.uint8, *shape)

            inputs = {
                "x": real(6, 32),
                "r": real(6, 4),
                "w1": whole(np.uint8, 4, rows, 32 // each),
                "s1": scales(rows, 32),
                "b1": real(4, rows) if number else None,
                "w2": whole(np.uint8, 4, 32, 64 // each),
                "s2": scales(32, 64),
                "b2": real(4, 32) if number else None,
                "w3": None,
                "s3": None,
                "b3": None,
                "z1": zeros(rows, 32) if zero else None,
                "z2": zeros(32, 64) if zero else None,
                "z3": None,
                "rw": np.abs(real(6, 4)) if weighted else None,
            }
            chosen = {
                "k": 1 + number % 3,
                "activation_type": "swiglu" if gated else ("relu", "silu", "gelu")[number],
                "normalize_routing_weights": int(number != 2),
                "expert_weight_bits": bits,
                "weights_prepacked": 0,
                **(GATED if gated else {}),
                **({"block_size": block} if block else {}),
            }
            constants = ("w1", "s1", "b1", "w2", "s2", "b2", "z1", "z2")
            yield Case(
                "QMoE",
                inputs,
                chosen,
                constants=constants,
                rtol=1e-3,
                atol=2e-3,
                label=f"{bits} bits {block} {number}",
            )


FAMILIES = (nbits, codes, gathered, attentions, embeddings, lstms, experts, quantized_experts)
CASES = [case for family in FAMILIES for case in family()]
