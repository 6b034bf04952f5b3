"""vit_b_16.dynamo: 86.6 M parameters, from vit_b_16.dynamo.onnx (opset 20, written by pytorch
2.14.1+cu130).

Inputs:  input (1, 3, 224, 224)
Outputs: output (1, 1000)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "vit_b_16_dynamo.safetensors"


class MultiheadAttention(nn.Module):
    def __init__(self):
        self.qkv_proj = nn.Linear(768, 2304)
        self.out_proj = nn.Linear(768, 768, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = ops.split(self.qkv_proj(x), axis=-1, outputs=3)  # (1, 197, 768)
        return self.out_proj(ops.attention(query, key, value, q_num_heads=12, kv_num_heads=12))


class MLPBlock(nn.Module):
    def __init__(self):
        self.linear = nn.Linear(768, 3072)
        self.linear_2 = nn.Linear(3072, 768)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(ops.gelu(self.linear(x)))  # (1, 197, 768)


class EncoderBlock(nn.Module):
    def __init__(self):
        self.ln_1 = nn.LayerNorm(768, eps=1e-06)
        self.self_attention = MultiheadAttention()
        self.ln_2 = nn.LayerNorm(768, eps=1e-06)
        self.mlp = MLPBlock()

    def forward(self, x: Tensor) -> Tensor:
        x = self.self_attention(self.ln_1(x)) + x  # (1, 197, 768)
        return x + self.mlp(self.ln_2(x))  # (1, 197, 768)


class Sequential(nn.Module):
    def __init__(self):
        self.encoder_layers = nn.Sequential(*(EncoderBlock() for _ in range(12)))

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder_layers(x)  # (1, 197, 768)


class Encoder(nn.Module):
    def __init__(self):
        self.layers = Sequential()
        self.ln = nn.LayerNorm(768, eps=1e-06)
        self.pos_embedding = nn.Parameter(1, 197, 768)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(self.layers(x + self.pos_embedding))  # (1, 197, 768)


class Model(nn.Module):
    inputs = (Input("input", "float32", (1, 3, 224, 224), parameter="x"),)
    outputs = (Output("output", "float32", (1, 1000)),)

    def __init__(self):
        self.conv_proj = nn.Conv2d(3, 768, 16, stride=16, bias=False)
        self.encoder = Encoder()
        self.heads = nn.Container(head=nn.Linear(768, 1000, bias=False))
        self.expand = nn.Parameter(1, 1, 768)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_proj(x).reshape(1, 768, 196).transpose(0, 2, 1)  # (1, 196, 768)
        picked = self.encoder(ops.concat(self.expand, x, axis=1))[:, 0]  # (1, 768)
        return self.heads.head(picked)  # (1, 1000)
