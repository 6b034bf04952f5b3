"""Small models written as text, run on the reference device."""

from __future__ import annotations

from typing import Any

import onnx.parser

import burnx


def load(text: str, opset: int = 21, device: str = "reference") -> burnx.LoadedModel:
    """A model whose graph is ``text``."""
    header = f'<ir_version: 10, opset_import: ["": {opset}, "ai.onnx.ml": 5]>\n'
    return burnx.load(onnx.parser.parse_model(header + text), device=device)


def run(text: str, opset: int = 21, **inputs: Any) -> Any:
    """Its one output, or a list of several."""
    found = list(load(text, opset).run(inputs).values())
    return found[0] if len(found) == 1 else found
