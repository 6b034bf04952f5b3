"""Llama: 4.9 k parameters, from llama.safetensors.

Inputs:  input_ids: int64 (batch, seq); attention_mask: int64 (batch, seq)
Outputs: logits: float32 (batch, seq, 32)

    model = Model.load()  # llama.safetensors
    logits = model(input_ids, attention_mask)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "llama.safetensors"
REMAP = {"^model\\.": ""}


def rotary_angles(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angle by which each position turns each pair of features."""
    frequencies = 1.0 / 10000.0 ** (ops.range(0, 4, 2).astype("float32") / 4)  # (2)
    angles = positions[:, :, None].astype("float32") * frequencies  # (batch, seq, 2)
    return ops.cos(angles), ops.sin(angles)


class LlamaAttention(nn.Module):
    def __init__(self, heads: int = 4, kv_heads: int = 2):
        self.heads, self.kv_heads = heads, kv_heads
        self.q_proj = nn.Linear(16, 16, bias=False)
        self.k_proj = nn.Linear(16, 8, bias=False)
        self.v_proj = nn.Linear(16, 8, bias=False)
        self.o_proj = nn.Linear(16, 16, bias=False)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        query = ops.rotary_embedding(self.q_proj(x), cos, sin, num_heads=self.heads)
        key = ops.rotary_embedding(self.k_proj(x), cos, sin, num_heads=self.kv_heads)
        x = ops.attention(
            query,
            key,
            self.v_proj(x),
            mask,
            q_num_heads=self.heads,
            kv_num_heads=self.kv_heads,
            is_causal=1,
        )  # (batch, seq, 16)
        return self.o_proj(x)  # (batch, seq, 16)


class LlamaMLP(nn.Module):
    def __init__(self):
        self.gate_proj = nn.Linear(16, 24, bias=False)
        self.up_proj = nn.Linear(16, 24, bias=False)
        self.down_proj = nn.Linear(24, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.swish(self.gate_proj(x)) * self.up_proj(x)  # (batch, seq, 24)
        return self.down_proj(x)  # (batch, seq, 16)


class LlamaLayer(nn.Module):
    def __init__(self):
        self.self_attn = LlamaAttention()
        self.mlp = LlamaMLP()
        self.input_layernorm = nn.RMSNorm(16, eps=1e-05)
        self.post_attention_layernorm = nn.RMSNorm(16, eps=1e-05)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), mask, cos, sin)  # (batch, seq, 16)
        return x + self.mlp(self.post_attention_layernorm(x))  # (batch, seq, 16)


class Model(nn.Module):
    inputs = (
        Input("input_ids", "int64", ("batch", "seq")),
        Input("attention_mask", "int64", ("batch", "seq")),
    )
    outputs = (Output("logits", "float32", ("batch", "seq", 32)),)

    def __init__(self):
        self.embed_tokens = nn.Embedding(32, 16)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(2))
        self.norm = nn.RMSNorm(16, eps=1e-05)
        self.lm_head = nn.Linear(16, 32, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask[:, None, None, :] != 0  # (batch, 1, 1, seq) bool
        positions = ops.expand(ops.range(0, input_ids.shape[1], 1), input_ids.shape)
        cos, sin = rotary_angles(positions)
        x = self.embed_tokens(input_ids)  # (batch, seq, 16)
        for layer in self.layers:
            x = layer(x, mask, cos, sin)  # (batch, seq, 16)
        x = self.norm(x)  # (batch, seq, 16)
        return self.lm_head(x)  # (batch, seq, 32)
