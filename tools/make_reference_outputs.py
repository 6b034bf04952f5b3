"""Ask PyTorch's own models for the outputs that the checkpoint tests compare with, and keep them.

    python tools/make_reference_outputs.py [NAME ...]      all cases of tests/checkpoints/tiny_models.py by default

Needs: torch 2.13 and transformers 5.24, and torchvision 0.28 for its models, in an environment of their own:
nothing in burnx needs them.  Writes tests/checkpoints/references/<case>.json, a few KB each: names and shapes of the
weights (a tied one under its first name) and the outputs.  Weights and inputs come from seeds.
"""

import functools
import importlib
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "checkpoints"))

from tiny_models import CASES, REFERENCES, Case, fill, make_inputs  # noqa: E402


def build(case: Case) -> torch.nn.Module:
    """The original class of a case."""
    declare_operators()
    if case.build:
        return build_vision(case)
    import transformers

    settings = {key: value for key, value in case.config.items() if key != "model_type"}
    config = transformers.AutoConfig.for_model(case.config["model_type"], **settings)
    config._attn_implementation = "eager"
    return getattr(transformers, case.config["architectures"][0])(config)


def build_resnet(module: Any, block: str, **options: Any) -> torch.nn.Module:
    return module.ResNet(getattr(module, block), **options)


def build_vgg(
    module: Any, sizes: list[Any], batch_norm: bool, classes: list[int]
) -> torch.nn.Module:
    """Its own classifier takes 512 channels and is too large to be kept."""
    model = torch.nn.Module()
    model.features = module.make_layers(sizes, batch_norm)
    width = [each for each in sizes if each != "M"][-1]
    ends = [width * 49, *classes]
    linear = [torch.nn.Linear(*pair) for pair in itertools.pairwise(ends)]
    parts = [part for each in linear for part in (each, torch.nn.ReLU(), torch.nn.Dropout())][:-2]
    model.classifier = torch.nn.Sequential(*parts)
    model.avgpool = torch.nn.AdaptiveAvgPool2d((7, 7))
    model.forward = lambda x: module.VGG.forward(model, x)
    return model


def build_efficientnet(module: Any, stages: list[Any], **options: Any) -> torch.nn.Module:
    """Stages as (fused, expansion, kernel, stride, in, out, layers)."""
    kinds = (module.MBConvConfig, module.FusedMBConvConfig)
    norm = functools.partial(torch.nn.BatchNorm2d, eps=options.pop("eps", 1e-5))
    setting = [kinds[fused](*rest) for fused, *rest in stages]
    return module.EfficientNet(setting, 0.1, norm_layer=norm, **options)


def build_convnext(module: Any, sizes: list[Any], **options: Any) -> torch.nn.Module:
    return module.ConvNeXt([module.CNBlockConfig(*each) for each in sizes], **options)


@functools.cache
def declare_operators() -> torch.library.Library:
    """Let torchvision be imported where its own operators, none of which is used here, do not fit this torch."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float threshold) -> Tensor")
    return library


VISION = {
    "ResNet": build_resnet,
    "VGG": build_vgg,
    "EfficientNet": build_efficientnet,
    "ConvNeXt": build_convnext,
}


def build_vision(case: Case) -> torch.nn.Module:
    """A model of torchvision."""
    place, _, name = case.build.rpartition(".")
    module = importlib.import_module(f"torchvision.models.{place}")
    if name in VISION:
        return VISION[name](module, **case.options)
    return getattr(module, name)(**case.options)


def give_weights(model: torch.nn.Module, case: Case) -> dict[str, list[int]]:
    """Fill a model; its tensors by their first name, with their shapes."""
    shapes: dict[str, list[int]] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        if tensor.numel() and tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        for pattern, new in case.renames.items():
            name = re.sub(pattern, new, name)
        shapes[name] = list(tensor.shape)
        tensor.copy_(torch.from_numpy(fill(name, tuple(tensor.shape))))
    return shapes


def answer(model: torch.nn.Module, case: Case) -> dict[str, Any]:
    """The outputs of a case by name."""
    inputs = {name: torch.from_numpy(array) for name, array in make_inputs(case).items()}
    dtype = getattr(torch, case.dtype)
    inputs = {
        name: each.to(dtype) if each.dtype == torch.float32 else each
        for name, each in inputs.items()
    }
    with torch.no_grad():
        if case.build:
            return {case.outputs[0]: model(*inputs.values())}
        found = model(**inputs)
    return {name: found[name] for name in case.outputs}


def make(name: str) -> None:
    case = CASES[name]
    torch.manual_seed(0)
    model = build(case).eval()
    shapes = give_weights(model, case)
    outputs = answer(model.to(getattr(torch, case.dtype)), case)
    content = {
        "tensors": shapes,
        "outputs": {
            key: {
                "shape": list(value.shape),
                "values": [float(f"{each:.8g}") for each in np.ravel(value.float().numpy())],
            }
            for key, value in outputs.items()
        },
    }
    REFERENCES.mkdir(exist_ok=True)
    file = REFERENCES / f"{name}.json"
    file.write_text(
        json.dumps(content, separators=(",", ":")).replace('"outputs"', '\n"outputs"') + "\n"
    )
    print(f"{name}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in sys.argv[1:] or CASES:
        make(each)
