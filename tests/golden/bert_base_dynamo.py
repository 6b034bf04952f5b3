"""bert_base.dynamo: 109.2 M parameters, from bert_base.dynamo.onnx (opset 20, written by pytorch
2.13.0+cpu).

Inputs:  input_ids (1, 128) int64; attention_mask (1, 128) int64; token_type_ids (1, 128) int64
Outputs: last_hidden_state (1, 128, 768); pooler_output (1, 768)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "bert_base_dynamo.safetensors"


class BertEmbeddings(nn.Module):
    def __init__(self):
        self.word_embeddings = nn.Embedding(30522, 768)
        self.token_type_embeddings = nn.Embedding(2, 768)
        self.LayerNorm = nn.LayerNorm(768, eps=1e-12)
        self.position_embeddings = nn.Container(weight=nn.Parameter(1, 128, 768))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        return self.LayerNorm(x + self.position_embeddings.weight)  # (1, 128, 768)


class BertSelfAttention(nn.Module):
    def __init__(self):
        self.query = nn.Linear(768, 768)
        self.key = nn.Linear(768, 768)
        self.value = nn.Linear(768, 768)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query = self.query(x)  # (1, 128, 768)
        return ops.attention(
            query, self.key(x), self.value(x), mask, q_num_heads=12, kv_num_heads=12
        )  # (1, 128, 768)


class BertSelfOutput(nn.Module):
    def __init__(self, in_features: int):
        self.dense = nn.Linear(in_features, 768)
        self.LayerNorm = nn.LayerNorm(768, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)  # (1, 128, 768)


class BertIntermediate(nn.Module):
    def __init__(self):
        self.dense = nn.Linear(768, 3072)

    def forward(self, x: Tensor) -> Tensor:
        return ops.gelu(self.dense(x))  # (1, 128, 3072)


class BertPooler(nn.Module):
    def __init__(self):
        self.dense = nn.Linear(768, 768)

    def forward(self, x: Tensor) -> Tensor:
        return ops.tanh(self.dense(x[:, 0]))  # (1, 768)


class BertLayer(nn.Module):
    def __init__(self):
        self.attention = nn.Container(self=BertSelfAttention(), output=BertSelfOutput(768))
        self.intermediate = BertIntermediate()
        self.output = BertSelfOutput(3072)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention.output(self.attention.self(x, mask), x)  # (1, 128, 768)
        return self.output(self.intermediate(x), x)  # (1, 128, 768)


class BertEncoder(nn.Module):
    def __init__(self):
        self.layer = nn.ModuleList(BertLayer() for _ in range(12))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mask = ops.where(mask, 0.0, -3.4028235e38)  # (1, 1, 1, 128)
        last_hidden_state = x
        for layer in self.layer:
            last_hidden_state = layer(last_hidden_state, mask)  # (1, 128, 768)
        return last_hidden_state


class BertModel(nn.Module):
    def __init__(self):
        self.embeddings = BertEmbeddings()
        self.encoder = BertEncoder()
        self.pooler = BertPooler()

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = self.embeddings(input_ids, token_type_ids)  # (1, 128, 768)
        last_hidden_state = self.encoder(x, attention_mask.astype("bool").reshape(1, 1, 1, 128))
        return last_hidden_state, self.pooler(last_hidden_state)


class Model(nn.Module):
    inputs = (
        Input("input_ids", "int64", (1, 128)),
        Input("attention_mask", "int64", (1, 128)),
        Input("token_type_ids", "int64", (1, 128)),
    )
    outputs = (
        Output("last_hidden_state", "float32", (1, 128, 768)),
        Output("pooler_output", "float32", (1, 768)),
    )

    def __init__(self):
        self.m = BertModel()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.m(input_ids, token_type_ids, attention_mask)  # (1, 128, 768), (1, 768)
