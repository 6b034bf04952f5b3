"""An engine with burnx's api on top of onnx's ReferenceEvaluator, to try the suite with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

SOURCE = """
from pathlib import Path
import onnx
from onnx.reference import ReferenceEvaluator


class Model:
    def __init__(self, path):
        self.path = path
        self.evaluator = ReferenceEvaluator(str(path))

    @classmethod
    def load(cls):
        return cls(Path(__file__).with_name("kept.onnx"))

    def __call__(self, *inputs):
        names = [n for n in self.evaluator.input_names if n not in self.evaluator.rt_inits_]
        outputs = self.evaluator.run(None, dict(zip(names, inputs, strict=True)))
        return tuple(outputs) if len(outputs) > 1 else outputs[0]
"""


class LoadedModel:
    """What ``load`` returns."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.evaluator = ReferenceEvaluator(model)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        outputs = self.evaluator.run(None, dict(inputs))
        return dict(zip(self.evaluator.output_names, outputs, strict=True))


class ReferenceEngine:
    """Import keeps the file, the generated source evaluates it, export copies it."""

    def load(self, model: onnx.ModelProto, *, device: str) -> Any:
        return LoadedModel(model)

    def import_onnx(self, source: str, target: str) -> None:
        Path(target).with_name("kept.onnx").write_bytes(Path(source).read_bytes())
        Path(target).write_text(SOURCE)

    def export_onnx(self, model: Any, inputs: Mapping[str, Any], target: str) -> None:
        Path(target).write_bytes(model.path.read_bytes())
