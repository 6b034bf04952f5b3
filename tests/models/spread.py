"""How far an engine is from itself: the same file with weights moved a hair, and at each optimisation level.

Rounding to 8 bits turns a last bit that differs into a whole step, which later layers amplify.
Entries of ``handed.json`` with "spread" are models where that happens; the text says how.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

Values = dict[str, Any]
WITHIN = "within onnxruntime's own spread"
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")
PRECISE = {"session.x64quantprecision": "1"}
SEEDS = range(6)


def own_spread(path: Path, inputs: Mapping[str, Any]) -> dict[str, float]:
    """The largest distance between any two of onnxruntime's own answers, for each output."""
    return _widest(list(answers_of(path, inputs)))


def _widest(answers: Sequence[Values]) -> dict[str, float]:
    return {
        name: max(distance(a[name], b[name]) for a, b in combinations(answers, 2))
        for name in answers[0]
    }


def distance(one: Any, other: Any) -> float:
    a, b = (np.asarray(each).astype(np.float64) for each in (one, other))
    return float(np.abs(a - b).max(initial=0.0))


def answers_of(path: Path, inputs: Mapping[str, Any]) -> Iterator[Values]:
    """What onnxruntime says at each level, with precise int8 products, and of moved weights."""
    data = path.read_bytes()
    for level in LEVELS:
        yield answer(data, inputs, level, {})
    yield answer(data, inputs, LEVELS[-1], PRECISE)
    for seed in SEEDS:
        yield answer(with_moved_vectors(data, seed), inputs, LEVELS[0], {})


def answer(data: bytes, inputs: Mapping[str, Any], level: str, entries: dict[str, str]) -> Values:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def with_moved_vectors(data: bytes, seed: int) -> bytes:
    """The model with about half of the elements of its float32 vectors moved to the next float32."""
    import onnx
    from onnx import numpy_helper

    model, rng = onnx.load_model_from_string(data), np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) != 1:
            continue
        array = numpy_helper.to_array(tensor)
        up = np.nextafter(array, np.float32(np.inf))
        moved = np.where(rng.integers(0, 2, array.shape) == 1, up, array)
        tensor.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), tensor.name))
    return bytes(model.SerializeToString())


def excess(expected: Values, found: Values, spread: Mapping[str, float]) -> str | None:
    """What is farther from onnxruntime than onnxruntime is from itself; None if nothing is."""
    for name, right in expected.items():
        if np.shape(right) != np.shape(found[name]):
            return f"{name}: shape {np.shape(found[name])}, not {np.shape(right)}"
        off = distance(right, found[name])
        if not off <= spread[name]:
            return f"{name} is off by {off:.3g}, onnxruntime from itself by {spread[name]:.3g}"
    return None
