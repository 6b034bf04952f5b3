"""Random models against onnxruntime: run, from their source, and exported again; at several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import burnx
from burnx.agreement.tolerance import close
from burnx.nn.sources import load_network
from tests.unit import random_layers, random_nodes
from tests.unit.random_graphs import Array, random_model, run_ort

Feeds = dict[str, Array]
KINDS = (random_nodes, random_layers)
"""Whose nodes random models are made of: they register themselves."""
SEEDS = range(40)


def expected_outputs(model: ModelProto, feeds: Feeds) -> list[Array] | None:
    """What onnxruntime gives; None if the inputs do not fit, or it is of two minds or not finite."""
    try:
        plain, optimised = run_ort(model, feeds, optimised=False), run_ort(model, feeds)
    except Exception:
        return None
    finite = all(array.dtype.kind != "f" or np.isfinite(array).all() for array in plain)
    same = all(close(left, right) is None for left, right in zip(plain, optimised, strict=True))
    return plain if finite and same else None


def fits(loaded: Any, feeds: Feeds) -> bool:
    """Whether a model takes these sizes; onnxruntime ends the process for some that it does not take."""
    try:
        loaded.run(feeds)
    except burnx.BurnxError:
        return False
    return True


def check(expected: list[Array], found: list[Any], route: str) -> None:
    assert len(found) == len(expected), route
    for place, (right, value) in enumerate(zip(expected, found, strict=True)):
        difference = close(right, value)
        assert difference is None, f"{route}, output {place}: {difference}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_model_is_onnxruntimes(seed: int, tmp_path: Path) -> None:
    maker = random_model(seed, 12)
    model = maker.model()
    loaded = burnx.load(model)
    fitting = [
        maker.feeds(0),
        *(feeds for feeds in map(maker.feeds, (1, 2, 3)) if fits(loaded, feeds)),
    ]
    tried = [(feeds, expected_outputs(model, feeds)) for feeds in fitting]
    pairs = [(feeds, expected) for feeds, expected in tried if expected is not None]
    if not pairs:
        pytest.skip("onnxruntime does not agree with itself")
    burnx.import_onnx(model, tmp_path / "model.py")
    network: Any = load_network(f"{tmp_path / 'model.py'}:Model")
    burnx.export_onnx(network, pairs[0][0], tmp_path / "again.onnx")
    for feeds, expected in pairs:
        check(expected, list(loaded.run(feeds).values()), "run")
        result = network(*feeds.values())
        results = result if isinstance(result, tuple) else (result,)
        check(expected, [value.numpy() for value in results], "source")
        check(expected, run_ort(tmp_path / "again.onnx", feeds), "roundtrip")
