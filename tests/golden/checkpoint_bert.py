"""BERT: 5.0 k parameters, from bert.safetensors.

Inputs:  input_ids: int64 (batch, seq); attention_mask: int64 (batch, seq); token_type_ids: int64
(batch, seq)
Outputs: last_hidden_state: float32 (batch, seq, 16); pooler_output: float32 (batch, 16)

    model = Model.load()  # bert.safetensors
    last_hidden_state, pooler_output = model(input_ids, attention_mask, token_type_ids)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "bert.safetensors"


class BertEmbeddings(nn.Module):
    def __init__(self):
        self.word_embeddings = nn.Embedding(32, 16)
        self.position_embeddings = nn.Embedding(12, 16)
        self.token_type_embeddings = nn.Embedding(2, 16)
        self.LayerNorm = nn.LayerNorm(16, eps=1e-12)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        positions = ops.range(0, input_ids.shape[1], 1)  # (seq) int64
        x = self.word_embeddings(input_ids)  # (batch, seq, 16)
        x = x + self.token_type_embeddings(token_type_ids)  # (batch, seq, 16)
        x = x + self.position_embeddings(positions)  # (batch, seq, 16)
        return self.LayerNorm(x)  # (batch, seq, 16)


class BertSelfAttention(nn.Module):
    def __init__(self, heads: int = 4):
        self.heads = heads
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)  # (batch, seq, 16)
        return ops.attention(
            query, key, value, mask, q_num_heads=self.heads, kv_num_heads=self.heads
        )  # (batch, seq, 16)


class BertAddNorm(nn.Module):
    def __init__(self, in_features: int):
        self.dense = nn.Linear(in_features, 16)
        self.LayerNorm = nn.LayerNorm(16, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)  # (batch, seq, 16)


class BertLayer(nn.Module):
    def __init__(self):
        self.attention = nn.Container(self=BertSelfAttention(), output=BertAddNorm(16))
        self.intermediate = nn.Container(dense=nn.Linear(16, 24))
        self.output = BertAddNorm(24)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention.output(self.attention.self(x, mask), x)  # (batch, seq, 16)
        return self.output(ops.gelu(self.intermediate.dense(x)), x)  # (batch, seq, 16)


class Model(nn.Module):
    inputs = (
        Input("input_ids", "int64", ("batch", "seq")),
        Input("attention_mask", "int64", ("batch", "seq")),
        Input("token_type_ids", "int64", ("batch", "seq")),
    )
    outputs = (
        Output("last_hidden_state", "float32", ("batch", "seq", 16)),
        Output("pooler_output", "float32", ("batch", 16)),
    )

    def __init__(self):
        self.embeddings = BertEmbeddings()
        self.encoder = nn.Container(layer=nn.ModuleList(BertLayer() for _ in range(2)))
        self.pooler = nn.Container(dense=nn.Linear(16, 16))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        mask = attention_mask[:, None, None, :] != 0  # (batch, 1, 1, seq) bool
        x = self.embeddings(input_ids, token_type_ids)  # (batch, seq, 16)
        for layer in self.encoder.layer:
            x = layer(x, mask)  # (batch, seq, 16)
        pooled = ops.tanh(self.pooler.dense(x[:, 0]))  # (batch, 16)
        return x, pooled
