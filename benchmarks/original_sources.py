"""How long the hand-written originals of the models are, where they are public.

Lines that are not empty of the classes and functions that the network itself is made of, in torchvision 0.29.1
(``torchvision/models/<file>.py``) and transformers 5.24.0 (``transformers/models/<file>.py``), counted by
``python benchmarks/original_sources.py FOLDER`` where FOLDER is that of the package's models.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Original:
    """A model's own source: the file, the definitions in it that count, and their lines."""

    package: str
    file: str
    names: str
    lines: int


TORCHVISION, TRANSFORMERS = "torchvision 0.29.1", "transformers 5.24.0"
BERT = "BertEmbeddings BertSelfAttention BertSelfOutput BertAttention BertIntermediate BertOutput BertLayer BertEncoder"
SWIN = "PatchMerging ShiftedWindowAttention SwinTransformerBlock SwinTransformer shifted_window_attention"
ORIGINALS = {
    "resnet50.ts": Original(TORCHVISION, "resnet", "conv3x3 conv1x1 Bottleneck ResNet", 171),
    "mobilenet_v2.dynamo": Original(
        TORCHVISION, "mobilenetv2", "InvertedResidual MobileNetV2", 138
    ),
    "efficientnet_b0.ts": Original(
        TORCHVISION, "efficientnet", "MBConvConfig MBConv EfficientNet", 173
    ),
    "densenet121.ts": Original(
        TORCHVISION, "densenet", "_DenseLayer _DenseBlock _Transition DenseNet", 159
    ),
    "convnext_tiny.dynamo": Original(
        TORCHVISION, "convnext", "LayerNorm2d CNBlock CNBlockConfig ConvNeXt", 127
    ),
    "vit_b_16.dynamo": Original(
        TORCHVISION, "vision_transformer", "MLPBlock EncoderBlock Encoder VisionTransformer", 227
    ),
    "swin_t.ts": Original(TORCHVISION, "swin_transformer", SWIN, 349),
    "bert_base.dynamo": Original(
        TRANSFORMERS, "bert/modeling_bert", f"{BERT} BertPooler BertModel", 373
    ),
    "distilbert_base.ts": Original(
        TRANSFORMERS,
        "distilbert/modeling_distilbert",
        "Embeddings DistilBertSelfAttention FFN TransformerBlock Transformer DistilBertModel",
        226,
    ),
    "gpt2_kvcache.dynamo": Original(
        TRANSFORMERS, "gpt2/modeling_gpt2", "GPT2Attention GPT2MLP GPT2Block GPT2Model", 319
    ),
    "llama_tiny.dynamo": Original(
        TRANSFORMERS,
        "llama/modeling_llama",
        "LlamaRMSNorm LlamaRotaryEmbedding LlamaMLP LlamaAttention LlamaDecoderLayer LlamaModel",
        223,
    ),
    "whisper_tiny_encoder.ts.fp16": Original(
        TRANSFORMERS,
        "whisper/modeling_whisper",
        "WhisperAttention WhisperEncoderLayer WhisperEncoder",
        237,
    ),
}


def count_lines(source: str, names: str) -> int:
    """The lines of some definitions of a module that are not empty."""
    lines, wanted = source.splitlines(), set(names.split())
    return sum(
        sum(bool(line.strip()) for line in lines[each.lineno - 1 : each.end_lineno])
        for each in ast.parse(source).body
        if isinstance(each, (ast.ClassDef, ast.FunctionDef)) and each.name in wanted
    )


def main() -> int:
    """Count again what a folder of models has; 1 if a number differs."""
    folder, differs = Path(sys.argv[1]), False
    for model, each in ORIGINALS.items():
        path = folder / f"{each.file}.py"
        if path.exists():
            found = count_lines(path.read_text(encoding="utf-8"), each.names)
            differs |= found != each.lines
            print(f"{model}: {found} lines in {each.file}.py, {each.lines} noted")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
