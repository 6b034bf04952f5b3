"""Small models of every family: their settings, and weights and inputs that a seed gives again anywhere.

``tools/make_reference_outputs.py`` builds them with PyTorch's classes and keeps what those answer; the tests write
them with burnx and compare.  Nothing here needs PyTorch.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
REFERENCES = Path(__file__).parent / "references"


@dataclass(frozen=True, slots=True)
class Case:
    """A model: its config.json, and its inputs as (kind, shape); without a config it is one of torchvision's.

    ``renames`` are regular expressions for names in files that differ from those of the class.
    """

    config: dict[str, Any]
    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: tuple[str, ...]
    dtype: str = "float32"
    build: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)


IDS = ("ids", (2, 5))
MASK = ("mask", (2, 5))
TEXT = {"input_ids": IDS, "attention_mask": MASK}
ENCODER = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
}
DECODER = {**ENCODER, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 6,
}


def bert(model: str, *outputs: str, **settings: Any) -> Case:
    config = {"model_type": "bert", "architectures": [model], **ENCODER, **settings}
    return Case(config, {**TEXT, "token_type_ids": ("mask", (2, 5))}, outputs)


def text(kind: str, model: str, *outputs: str, dtype: str = "float32", **settings: Any) -> Case:
    return Case({"model_type": kind, "architectures": [model], **settings}, TEXT, outputs, dtype)


def causal(kind: str, model: str, dtype: str = "float32", **settings: Any) -> Case:
    return text(kind, model, "logits", dtype=dtype, **{**DECODER, **settings})


def vision(build: str, size: int = 64, **options: Any) -> Case:
    inputs = {"input": ("image", (2, 3, size, size))}
    return Case({}, inputs, ("output",), build=build, options=options)


ROBERTA = {**ENCODER, "pad_token_id": 1, "type_vocab_size": 1}
DISTIL = {"vocab_size": 32, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24}
DISTIL["max_position_embeddings"] = 12
GPT2 = {"vocab_size": 32, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 12}
# What most files call what newer versions of the class call differently.
OLD_VIT = {
    r"\blayers\.": "encoder.layer.",
    r"attention\.q_proj": "attention.attention.query",
    r"attention\.k_proj": "attention.attention.key",
    r"attention\.v_proj": "attention.attention.value",
    r"attention\.o_proj": "attention.output.dense",
    r"mlp\.fc1": "intermediate.dense",
    r"mlp\.fc2": "output.dense",
}


def vit(model: str, *outputs: str, renames: dict[str, str] | None = None, **settings: Any) -> Case:
    sizes = {key: value for key, value in ENCODER.items() if key[0] in "hi" or "num" in key}
    config = {"model_type": "vit", "architectures": [model], **sizes, **settings}
    config |= {"image_size": 8, "patch_size": 4}
    image = {"pixel_values": ("image", (2, 3, 8, 8))}
    return Case(config, image, outputs, renames=renames or {})


T5 = {"vocab_size": 32, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
T5 |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 14}
WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "vocab_size": 32,
    "num_mel_bins": 6,
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 20,
    "max_source_positions": 8,
    "max_target_positions": 12,
    "pad_token_id": 1,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "decoder_start_token_id": 1,
}
SPEECH = {"input_features": ("image", (2, 6, 16)), "decoder_input_ids": IDS}
CLIP = {
    "model_type": "clip",
    "architectures": ["CLIPModel"],
    "projection_dim": 12,
    "text_config": {**ENCODER, "eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 1},
    "vision_config": {
        "hidden_size": 20,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 8,
        "patch_size": 4,
    },
}
PAIRS = {
    "input_ids": IDS,
    "pixel_values": ("image", (3, 3, 8, 8)),
    "attention_mask": MASK,
}
MAMBA = {
    "model_type": "mamba",
    "architectures": ["MambaForCausalLM"],
    "vocab_size": 32,
    "hidden_size": 16,
    "state_size": 4,
    "num_hidden_layers": 2,
}


def t5(model: str, *outputs: str, **settings: Any) -> Case:
    config = {"model_type": "t5", "architectures": [model], **T5, **settings}
    inputs = {"input_ids": ("ids", (1, 20)), "attention_mask": ("mask", (1, 20))}
    return Case(config, {**inputs, "decoder_input_ids": ("ids", (1, 11))}, outputs)


HIDDEN = "last_hidden_state"
CASES: dict[str, Case] = {
    "bert": bert("BertModel", HIDDEN, "pooler_output"),
    "bert-masked": bert("BertForMaskedLM", "logits", hidden_act="gelu_new"),
    "bert-classes": bert("BertForSequenceClassification", "logits", num_labels=3),
    "bert-tokens": bert("BertForTokenClassification", "logits", num_labels=3),
    "bert-answers": bert("BertForQuestionAnswering", "start_logits", "end_logits"),
    "llama": causal("llama", "LlamaForCausalLM"),
    "llama-tied": causal(
        "llama", "LlamaForCausalLM", tie_word_embeddings=True, rope_scaling=LLAMA3
    ),
    "llama-linear": causal(
        "llama", "LlamaForCausalLM", rope_scaling={"type": "linear", "factor": 2.0}
    ),
    "llama-base": text(
        "llama", "LlamaModel", HIDDEN, **DECODER, attention_bias=True, mlp_bias=True
    ),
    "mistral": causal("mistral", "MistralForCausalLM", sliding_window=3),
    "qwen2": causal("qwen2", "Qwen2ForCausalLM", tie_word_embeddings=True),
    "gemma": causal("gemma", "GemmaForCausalLM", head_dim=8, hidden_act="gelu"),
    "phi": causal("phi", "PhiForCausalLM", partial_rotary_factor=0.5, layer_norm_eps=1e-5),
    "roberta": Case(
        {"model_type": "roberta", "architectures": ["RobertaModel"], **ROBERTA},
        {"input_ids": ("padded", (2, 5)), "attention_mask": MASK},
        (HIDDEN, "pooler_output"),
    ),
    "roberta-masked": text("roberta", "RobertaForMaskedLM", "logits", **ROBERTA),
    "roberta-classes": text("roberta", "RobertaForSequenceClassification", "logits", **ROBERTA),
    "distilbert": text("distilbert", "DistilBertModel", HIDDEN, **DISTIL),
    "distilbert-masked": text("distilbert", "DistilBertForMaskedLM", "logits", **DISTIL),
    "distilbert-classes": text(
        "distilbert", "DistilBertForSequenceClassification", "logits", **DISTIL
    ),
    "gpt2": text("gpt2", "GPT2LMHeadModel", "logits", **GPT2),
    "vit": vit("ViTModel", HIDDEN, "pooler_output"),
    "vit-classes": vit("ViTForImageClassification", "logits", renames=OLD_VIT, num_labels=3),
    "t5": t5("T5ForConditionalGeneration", "logits"),
    "t5-gated": t5(
        "T5ForConditionalGeneration",
        "logits",
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    ),
    "t5-encoder": text("t5", "T5EncoderModel", HIDDEN, **T5),
    "whisper": Case(WHISPER, SPEECH, ("logits",)),
    "clip": Case(
        CLIP, PAIRS, ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds")
    ),
    "mamba": Case(MAMBA, {"input_ids": IDS}, ("logits",)),
    "resnet18": vision("resnet.ResNet", block="BasicBlock", num_classes=5, layers=[1, 2, 1, 1]),
    "resnet50": vision("resnet.ResNet", block="Bottleneck", num_classes=5, layers=[1, 2, 1, 1]),
    "resnext": vision(
        "resnet.ResNet",
        block="Bottleneck",
        num_classes=5,
        layers=[1, 1, 1, 1],
        groups=4,
        width_per_group=8,
    ),
    "mobilenet_v2": vision("mobilenetv2.mobilenet_v2", num_classes=5, width_mult=0.25),
    "mobilenet_v3_small": vision("mobilenetv3.mobilenet_v3_small", num_classes=5, width_mult=0.5),
    "mobilenet_v3_large": vision("mobilenetv3.mobilenet_v3_large", num_classes=5, width_mult=0.25),
    "efficientnet": vision(
        "efficientnet.EfficientNet",
        num_classes=5,
        last_channel=40,
        stages=[
            (0, 1, 3, 1, 8, 8, 1),
            (0, 6, 3, 2, 8, 8, 2),
            (0, 6, 5, 2, 8, 16, 2),
            (0, 6, 3, 2, 16, 24, 2),
            (0, 6, 5, 1, 24, 24, 1),
            (0, 6, 5, 2, 24, 32, 1),
            (0, 6, 3, 1, 32, 40, 1),
        ],
    ),
    "efficientnet_v2": vision(
        "efficientnet.EfficientNet",
        num_classes=5,
        last_channel=40,
        eps=1e-3,
        stages=[
            (1, 1, 3, 1, 8, 8, 2),
            (1, 4, 3, 2, 8, 16, 2),
            (1, 4, 3, 2, 16, 16, 1),
            (0, 4, 3, 2, 16, 24, 2),
            (0, 6, 3, 1, 24, 24, 1),
            (0, 6, 3, 2, 24, 32, 1),
        ],
    ),
    "vgg": vision(
        "vgg.VGG",
        size=224,
        sizes=[2, "M", 2, "M", 4, 4, "M", 4, "M", 4, 4, "M"],
        batch_norm=False,
        classes=[8, 8, 5],
    ),
    "vgg_bn": vision(
        "vgg.VGG",
        size=224,
        sizes=[2, "M", 2, "M", 4, "M", 4, "M", 4, 4, "M"],
        batch_norm=True,
        classes=[8, 8, 5],
    ),
    "densenet": vision(
        "densenet.DenseNet",
        num_classes=5,
        growth_rate=4,
        block_config=(2, 3, 2, 2),
        num_init_features=8,
        bn_size=2,
    ),
    "convnext": vision(
        "convnext.ConvNeXt",
        num_classes=5,
        sizes=[(8, 16, 2), (16, 24, 1), (24, 32, 2), (32, None, 1)],
        layer_scale=0.5,
    ),
    "llama-bfloat16": causal("llama", "LlamaForCausalLM", dtype="bfloat16"),
}


def fill(name: str, shape: tuple[int, ...]) -> Array:
    """The values of a weight, the same for the same name and shape."""
    random = np.random.default_rng(zlib.crc32(f"{name}{shape}".encode()))
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    if name.endswith("running_var"):
        return random.uniform(0.5, 1.5, shape).astype(np.float32)
    values = np.asarray(random.standard_normal(shape))
    if len(shape) > 1:
        return (values / math.sqrt(math.prod(shape[1:]))).astype(np.float32)
    centre = 1.0 if name.endswith("weight") else 0.0
    return np.asarray(centre + 0.1 * values, np.float32)


def make_inputs(case: Case) -> dict[str, Array]:
    """Inputs by name: random tokens, masks whose last row ends early, random images."""
    random = np.random.default_rng(7)
    made: dict[str, Array] = {}
    for name, (kind, shape) in case.inputs.items():
        if kind == "ids":
            made[name] = random.integers(3, 30, shape)
        elif kind == "padded":
            made[name] = random.integers(3, 30, shape)
            made[name][-1, shape[1] - 2 :] = 1
        elif kind == "mask":
            made[name] = np.ones(shape, np.int64)
            made[name][-1, shape[1] - 2 :] = 0
        else:
            made[name] = random.standard_normal(shape).astype(np.float32)
    return made


def read_reference(name: str) -> tuple[dict[str, tuple[int, ...]], dict[str, Array]]:
    """Shapes of the weights, and the outputs, as PyTorch's model has them."""
    content = json.loads((REFERENCES / f"{name}.json").read_text())
    shapes = {key: tuple(shape) for key, shape in content["tensors"].items()}
    outputs = {
        key: np.array(each["values"], np.float32).reshape(each["shape"])
        for key, each in content["outputs"].items()
    }
    return shapes, outputs
