"""distilbert_base.ts.dynint8: 66.4 M parameters, from distilbert_base.ts.dynint8.onnx (opset 17,
written by onnx.quantize 0.1.0).

Inputs:  input_ids (batch, seq) int64; attention_mask (batch, seq) int64
Outputs: last_hidden_state (batch, seq, 768)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "distilbert_base_ts_dynint8.safetensors"


class Embeddings(nn.Module):
    def __init__(self):
        self.word_embeddings = nn.QuantEmbedding(30522, 768)
        self.position_embeddings = nn.QuantEmbedding(512, 768)
        self.LayerNorm = nn.LayerNorm(768, eps=1e-12)
        self.constant = nn.Parameter(1, 512, dtype="int64")

    def forward(self, input_ids: Tensor) -> Tensor:
        word_embeddings = self.word_embeddings(input_ids)  # (batch, seq, 768)
        position_embeddings = self.position_embeddings(
            ops.slice(self.constant, [0], (input_ids.shape[1],), [1], [1])
        )  # (1, min(512, seq), 768)
        return self.LayerNorm(word_embeddings + position_embeddings)  # (batch, seq, 768)


class Attention(nn.Module):
    def __init__(self):
        self.q_lin = nn.DynamicQuantLinear(768, 768)
        self.k_lin = nn.DynamicQuantLinear(768, 768)
        self.v_lin = nn.DynamicQuantLinear(768, 768)
        self.out_lin = nn.DynamicQuantLinear(768, 768)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q_lin = self.q_lin(x)  # (batch, seq, 768)
        context = ops.attention(
            q_lin, self.k_lin(x), self.v_lin(x), mask, q_num_heads=12, kv_num_heads=12
        )  # (batch, seq, 768)
        return self.out_lin(context)  # (batch, seq, 768)


class Ffn(nn.Module):
    def __init__(self):
        self.lin1 = nn.DynamicQuantLinear(768, 3072)
        self.lin2 = nn.DynamicQuantLinear(3072, 768)

    def forward(self, x: Tensor) -> Tensor:
        return self.lin2(ops.gelu(self.lin1(x)))  # (batch, seq, 768)


class Layer(nn.Module):
    def __init__(self):
        self.attention = Attention()
        self.sa_layer_norm = nn.LayerNorm(768, eps=1e-12)
        self.ffn = Ffn()
        self.output_layer_norm = nn.LayerNorm(768, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.sa_layer_norm(self.attention(x, mask) + x)  # (batch, seq, 768)
        return self.output_layer_norm(self.ffn(x) + x)  # (batch, seq, 768)


class Transformer(nn.Module):
    def __init__(self):
        self.layer = nn.ModuleList(Layer() for _ in range(6))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)  # (batch, seq, 768)
        return x


class M(nn.Module):
    def __init__(self):
        self.embeddings = Embeddings()
        self.transformer = Transformer()

    def forward(self, attention_mask: Tensor, input_ids: Tensor) -> Tensor:
        x = self.embeddings(input_ids)  # (batch, seq, 768)
        mask = ops.where(attention_mask.astype("bool")[:, None, None], 0.0, -3.4028235e38)
        return self.transformer(x, mask)  # (batch, seq, 768)


class Model(nn.Module):
    inputs = (
        Input("input_ids", "int64", ("batch", "seq")),
        Input("attention_mask", "int64", ("batch", "seq")),
    )
    outputs = (Output("last_hidden_state", "float32", ("batch", "seq", 768)),)

    def __init__(self):
        self.m = M()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.m(attention_mask, input_ids)  # (batch, seq, 768)
