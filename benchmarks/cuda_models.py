"""The models of ``cuda_torch.py``: made by PyTorch with fixed seeds, and the ONNX files that PyTorch exports of them.

    python benchmarks/cuda_models.py NAME DTYPE FILE.onnx        one file, as the benchmark asks for it

Weights are random, which changes no time; nothing is fetched.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DTYPES = {"fp32": "float32", "fp16": "float16"}
TOLERANCE = {"fp32": 2e-3, "tf32": 3e-2, "fp16": 3e-2}
"""Of the largest difference from float32 without TF32, as a share of the largest magnitude; TF32 has the bits of float16."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model: how to make it, and what it is fed at a batch size."""

    make: Callable[[], Any]
    feed: Callable[[int, Any], tuple[Any, ...]]
    names: tuple[str, ...]


def _vision(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import torchvision

        return getattr(torchvision.models, name)(weights=None)

    return make


def _bert() -> Any:
    import torch
    from transformers import BertConfig, BertModel

    class Bert(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not here where types are checked
        """BERT-base with its last hidden state as the only output."""

        def __init__(self) -> None:
            super().__init__()
            self.model = BertModel(BertConfig())

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    return Bert()


def _image(batch: int, dtype: Any) -> tuple[Any, ...]:
    import torch

    noise = torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    return (noise.to(dtype),)


def _tokens(batch: int, dtype: Any) -> tuple[Any, ...]:
    import torch

    words = torch.randint(0, 30_000, (batch, 128), generator=torch.Generator().manual_seed(1))
    return words, torch.ones(batch, 128, dtype=torch.int64)


SUBJECTS = {
    "resnet50": Subject(_vision("resnet50"), _image, ("image",)),
    "mobilenet_v2": Subject(_vision("mobilenet_v2"), _image, ("image",)),
    "vit_b_16": Subject(_vision("vit_b_16"), _image, ("image",)),
    "bert_base": Subject(_bert, _tokens, ("input_ids", "attention_mask")),
}


def make_model(name: str, dtype: str) -> Any:
    """The model of a name in eval mode, its weights always the same."""
    import torch

    torch.manual_seed(0)
    model = SUBJECTS[name].make().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):  # what is small at the end would hide every error
            torch.nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.0)
            torch.nn.init.uniform_(module.bias, -0.1, 0.1)
            torch.nn.init.uniform_(module.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.8, 1.2)
    if name == "vit_b_16":
        torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model.to(getattr(torch, DTYPES[dtype]))


def make_inputs(name: str, dtype: str, batch: int) -> tuple[Any, ...]:
    import torch

    return SUBJECTS[name].feed(batch, getattr(torch, DTYPES[dtype]))


def export(name: str, dtype: str, path: str) -> None:
    """Write the model with an open batch size, as PyTorch's exporter writes it."""
    import torch

    inputs = make_inputs(name, dtype, 2)
    batch = torch.export.Dim("batch", min=1, max=4096)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            make_model(name, dtype),
            inputs,
            path,
            input_names=list(SUBJECTS[name].names),
            output_names=["output"],
            opset_version=20,
            dynamo=True,
            external_data=False,
            dynamic_shapes=tuple({0: batch} for _ in inputs),
        )


if __name__ == "__main__":
    export(*sys.argv[1:4])
