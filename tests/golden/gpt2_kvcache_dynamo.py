"""gpt2_kvcache.dynamo: 124.4 M parameters, from gpt2_kvcache.dynamo.onnx (opset 20, written by
pytorch 2.13.0+cpu).

Inputs:  input_ids (batch, 1) int64; attention_mask (batch, total) int64; past_key_0 to
past_value_11 (batch, 12, past, 64)
Outputs: logits (batch, 1, 50257); present_key_0 to present_value_11 (batch, 12, past + 1, 64)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "gpt2_kvcache_dynamo.safetensors"


class GPT2Attention(nn.Module):
    def __init__(self):
        self.c_attn = nn.Linear(768, 2304)
        self.c_proj = nn.Linear(768, 768)

    def forward(
        self, x: Tensor, past_key: Tensor, past_value: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = ops.split(self.c_attn(x), axis=2, outputs=3)  # (batch, 1, 768)
        context, present_key, present_value = ops.attention(
            query,
            key,
            value,
            mask,
            past_key,
            past_value,
            q_num_heads=12,
            kv_num_heads=12,
            outputs=3,
        )  # (batch, 1, 768), (batch, 12, past + 1, 64)
        return present_key, present_value, self.c_proj(context)


class GPT2MLP(nn.Module):
    def __init__(self):
        self.c_fc = nn.Linear(768, 3072)
        self.c_proj = nn.Linear(3072, 768)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(ops.gelu(self.c_fc(x), approximate="tanh"))  # (batch, 1, 768)


class GPT2Block(nn.Module):
    def __init__(self):
        self.ln_1 = nn.LayerNorm(768)
        self.attn = GPT2Attention()
        self.ln_2 = nn.LayerNorm(768)
        self.mlp = GPT2MLP()

    def forward(
        self, x: Tensor, past_key: Tensor, past_value: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        present_key, present_value, attn = self.attn(self.ln_1(x), past_key, past_value, mask)
        attn = attn + x  # (batch, 1, 768)
        return present_key, present_value, attn + self.mlp(self.ln_2(attn))


class GPT2Model(nn.Module):
    def __init__(self):
        self.wte = nn.Embedding(50257, 768)
        self.wpe = nn.Embedding(1024, 768)
        self.h = nn.ModuleList(GPT2Block() for _ in range(12))
        self.ln_f = nn.LayerNorm(768)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        x = self.wte(input_ids)  # (batch, 1, 768)
        past_size = past[0].shape[2]
        x = x + self.wpe(ops.dims(past_size)[None])  # (batch, 1, 768)
        x_2 = attention_mask.astype("bool")  # (batch, total) bool
        positions = ops.range(0, past_size + 1, 1)  # (past + 1) int64
        is_less = positions[None, None, None] <= ops.dims(past_size)[None, None, None]
        x_2 = x_2[:, positions][:, None, None]  # (batch, 1, 1, past + 1) bool
        mask = ops.where(is_less & x_2, 0.0, -3.4028235e38)  # (batch, 1, 1, past + 1)
        present: list[Tensor] = []
        for place, h in enumerate(self.h):
            present_key, present_value, x = h(x, *past[2 * place : 2 * place + 2], mask)
            present = [*present, present_key, present_value]
        return *present, self.ln_f(x)


class Model(nn.Module):
    inputs = (
        Input("input_ids", "int64", ("batch", 1)),
        Input("attention_mask", "int64", ("batch", "total")),
        *(
            Input(f"past_{part}_{layer}", "float32", ("batch", 12, "past", 64))
            for layer in range(12)
            for part in ("key", "value")
        ),
    )
    outputs = (
        Output("logits", "float32", ("batch", 1, 50257)),
        *(
            Output(f"present_{part}_{layer}", "float32", ("batch", 12, "past + 1", 64))
            for layer in range(12)
            for part in ("key", "value")
        ),
    )

    def __init__(self):
        self.m = nn.Container(transformer=GPT2Model(), lm_head=nn.Linear(768, 50257, bias=False))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        *present, x = self.m.transformer(input_ids, attention_mask, *past)
        return self.m.lm_head(x), *present
