"""swin_t.ts: 28.6 M parameters, from swin_t.ts.onnx (opset 17, written by pytorch 2.14.1).

Inputs:  input (1, 3, 224, 224)
Outputs: output (1, 1000)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "swin_t_ts.safetensors"


class FeatureBlock(nn.Module):
    def __init__(self):
        self.conv = nn.Conv2d(3, 96, 4, stride=4)
        self.norm = nn.LayerNorm(96)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).transpose(0, 2, 3, 1))  # (1, 56, 56, 96)


class Attn(nn.Module):
    def __init__(self, features: int, hidden_features: int, size: int, size_2: int, size_3: int):
        self.features = features
        self.hidden_features = hidden_features
        self.size = size
        self.size_2 = size_2
        self.size_3 = size_3
        self.qkv_proj = nn.Linear(features, 3 * features)
        self.o_proj = nn.Linear(features, features)
        self.constant = nn.Parameter(1, hidden_features, 49, 49)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(1, self.size, 7, self.size, 7, self.features).transpose(0, 1, 3, 2, 4, 5)
        query, key, value = ops.split(
            self.qkv_proj(x.reshape(self.size_2, 49, self.features)), axis=-1, outputs=3
        )
        x = self.o_proj(
            ops.attention(
                query,
                key,
                value,
                self.constant,
                q_num_heads=self.hidden_features,
                kv_num_heads=self.hidden_features,
            )
        )
        x = x.reshape(1, self.size, self.size, 7, 7, self.features).transpose(0, 1, 3, 2, 4, 5)
        return x.reshape(1, self.size_3, self.size_3, self.features)


class Mlp(nn.Module):
    def __init__(self, features: int):
        self.linear = nn.Linear(features, 4 * features)
        self.linear_2 = nn.Linear(4 * features, features)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(ops.gelu(self.linear(x)))


class Attn_2(nn.Module):
    def __init__(
        self, features: int, hidden_features: int, hidden_features_2: int, size: int, size_2: int
    ):
        self.features = features
        self.hidden_features = hidden_features
        self.hidden_features_2 = hidden_features_2
        self.size = size
        self.size_2 = size_2
        self.qkv_proj = nn.Linear(features, 3 * features)
        self.o_proj = nn.Linear(features, features)
        self.constant = nn.Parameter(hidden_features, 1, 49)
        self.constant_2 = nn.Parameter(hidden_features, 49, 1)
        self.constant_3 = nn.Parameter(1, hidden_features_2, 49, 49)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.concat(x[:, 3:], x[:, :3], axis=1)
        x = ops.concat(x[:, :, 3:], x[:, :, :3], axis=2)
        x = x.reshape(1, self.size, 7, self.size, 7, self.features).transpose(0, 1, 3, 2, 4, 5)
        query, key, value = ops.split(
            self.qkv_proj(x.reshape(self.hidden_features, 49, self.features)), axis=-1, outputs=3
        )
        x = self.constant - self.constant_2
        is_equal = x == 0.0
        chosen = ops.where(is_equal, 0.0, ops.where(~is_equal, -100.0, x))
        context = ops.attention(
            query,
            key,
            value,
            self.constant_3 + chosen.reshape(self.hidden_features, 1, 49, 49),
            q_num_heads=self.hidden_features_2,
            kv_num_heads=self.hidden_features_2,
        )
        o_proj = (
            self.o_proj(context)
            .reshape(1, self.size, self.size, 7, 7, self.features)
            .transpose(0, 1, 3, 2, 4, 5)
        )
        o_proj = o_proj.reshape(1, self.size_2, self.size_2, self.features)
        joined = ops.concat(o_proj[:, -3:], o_proj[:, :-3], axis=1)
        return ops.concat(joined[:, :, -3:], joined[:, :, :-3], axis=2)


class FeatureBlock_2(nn.Module):
    def __init__(self, out_features: int):
        self.norm = nn.LayerNorm(2 * out_features)
        self.reduction = nn.Linear(2 * out_features, out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x_2 = x[:, ::2]
        x_3 = x_2[:, :, ::2]
        x = x[:, 1::2]
        x_4 = x[:, :, ::2]
        x_3 = ops.concat(x_3, x_4, x_2[:, :, 1::2], x[:, :, 1::2], axis=-1)
        return self.reduction(self.norm(x_3))


class Attn_3(nn.Module):
    def __init__(self):
        self.qkv_proj = nn.Linear(384, 1152)
        self.o_proj = nn.Linear(384, 384)
        self.constant = nn.Parameter(1, 12, 49, 49)
        self.constant_2 = nn.Parameter(4, 1, 49, 49)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.concat(x[:, 3:], x[:, :3], axis=1)  # (1, 14, 14, 384)
        x = ops.concat(x[:, :, 3:], x[:, :, :3], axis=2)  # (1, 14, 14, 384)
        x = x.reshape(1, 2, 7, 2, 7, 384).transpose(0, 1, 3, 2, 4, 5)  # (1, 2, 2, 7, 7, 384)
        query, key, value = ops.split(self.qkv_proj(x.reshape(4, 49, 384)), axis=-1, outputs=3)
        context = ops.attention(
            query, key, value, self.constant + self.constant_2, q_num_heads=12, kv_num_heads=12
        )  # (4, 49, 384)
        o_proj = self.o_proj(context).reshape(1, 2, 2, 7, 7, 384).transpose(0, 1, 3, 2, 4, 5)
        o_proj = o_proj.reshape(1, 14, 14, 384)  # (1, 14, 14, 384)
        joined = ops.concat(o_proj[:, -3:], o_proj[:, :-3], axis=1)  # (1, 14, 14, 384)
        return ops.concat(joined[:, :, -3:], joined[:, :, :-3], axis=2)  # (1, 14, 14, 384)


class FeatureBlock_3(nn.Module):
    def __init__(self, features: int, hidden_features: int, size: int, size_2: int, size_3: int):
        self.norm1 = nn.LayerNorm(features)
        self.attn = Attn(features, hidden_features, size, size_2, size_3)
        self.norm2 = nn.LayerNorm(features)
        self.mlp = Mlp(features)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class FeatureBlock_4(nn.Module):
    def __init__(
        self, features: int, hidden_features: int, hidden_features_2: int, size: int, size_2: int
    ):
        self.norm1 = nn.LayerNorm(features)
        self.attn = Attn_2(features, hidden_features, hidden_features_2, size, size_2)
        self.norm2 = nn.LayerNorm(features)
        self.mlp = Mlp(features)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class FeatureBlock_5(nn.Module):
    def __init__(self):
        self.norm1 = nn.LayerNorm(384)
        self.attn = Attn_3()
        self.norm2 = nn.LayerNorm(384)
        self.mlp = Mlp(384)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))  # (1, 14, 14, 384)
        return x + self.mlp(self.norm2(x))  # (1, 14, 14, 384)


class Model(nn.Module):
    inputs = (Input("input", "float32", (1, 3, 224, 224), parameter="x"),)
    outputs = (Output("output", "float32", (1, 1000)),)

    def __init__(self):
        self.features = nn.Sequential(
            FeatureBlock(),
            nn.Sequential(FeatureBlock_3(96, 3, 8, 64, 56), FeatureBlock_4(96, 64, 3, 8, 56)),
            FeatureBlock_2(192),
            nn.Sequential(FeatureBlock_3(192, 6, 4, 16, 28), FeatureBlock_4(192, 16, 6, 4, 28)),
            FeatureBlock_2(384),
            nn.Sequential(
                FeatureBlock_3(384, 12, 2, 4, 14),
                FeatureBlock_5(),
                FeatureBlock_3(384, 12, 2, 4, 14),
                FeatureBlock_5(),
                FeatureBlock_3(384, 12, 2, 4, 14),
                FeatureBlock_5(),
            ),
            FeatureBlock_2(768),
            nn.Sequential(FeatureBlock_3(768, 24, 1, 1, 7), FeatureBlock_3(768, 24, 1, 1, 7)),
        )
        self.norm = nn.LayerNorm(768)
        self.head = nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.features(x)).transpose(0, 3, 1, 2)  # (1, 768, 7, 7)
        return self.head(ops.flatten(ops.global_average_pool(x)))  # (1, 1000)
