"""mobilenet_v2.ts.qdq_s8s8: 3.5 M parameters, from mobilenet_v2.ts.qdq_s8s8.onnx (opset 17, written
by onnx.quantize 0.1.0).

Inputs:  input (1, 3, 224, 224)
Outputs: output (1, 1000)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "mobilenet_v2_ts_qdq_s8s8.safetensors"


class FeatureBlock(nn.Module):
    def __init__(self):
        self.conv = nn.Sequential(
            nn.Sequential(nn.QuantConv2d(32, 32, 3, padding=1, groups=32, output="int8")),
            nn.QuantConv2d(32, 16, 1, output="int8"),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)  # (1, 16, 112, 112)


class FeatureBlock_2(nn.Module):
    def __init__(self, in_channels: int, channels: int, out_channels: int, stride: int = 1):
        self.conv = nn.Sequential(
            nn.Sequential(nn.QuantConv2d(in_channels, channels, 1, output="int8")),
            nn.Sequential(
                nn.QuantConv2d(
                    channels, channels, 3, stride=stride, padding=1, groups=channels, output="int8"
                )
            ),
            nn.QuantConv2d(channels, out_channels, 1, output="int8"),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


class FeatureBlock_3(nn.Module):
    def __init__(self, channels: int, hidden_channels: int):
        self.conv = nn.Sequential(
            nn.Sequential(nn.QuantConv2d(channels, hidden_channels, 1, output="int8")),
            nn.Sequential(
                nn.QuantConv2d(
                    hidden_channels,
                    hidden_channels,
                    3,
                    padding=1,
                    groups=hidden_channels,
                    output="int8",
                )
            ),
            nn.QuantConv2d(hidden_channels, channels, 1, output="int8"),
        )
        self.add_quant = nn.FakeQuantize(quantized="int8")

    def forward(self, x: Tensor) -> Tensor:
        return self.add_quant(x + self.conv(x))


class Model(nn.Module):
    inputs = (Input("input", "float32", (1, 3, 224, 224), parameter="x"),)
    outputs = (Output("output", "float32", (1, 1000)),)

    def __init__(self):
        self.quant = nn.FakeQuantize(quantized="int8")
        self.features = nn.Sequential(
            nn.Sequential(nn.QuantConv2d(3, 32, 3, stride=2, padding=1, output="int8")),
            FeatureBlock(),
            FeatureBlock_2(16, 96, 24, stride=2),
            FeatureBlock_3(24, 144),
            FeatureBlock_2(24, 144, 32, stride=2),
            FeatureBlock_3(32, 192),
            FeatureBlock_3(32, 192),
            FeatureBlock_2(32, 192, 64, stride=2),
            *(FeatureBlock_3(64, 384) for _ in range(3)),
            FeatureBlock_2(64, 384, 96),
            FeatureBlock_3(96, 576),
            FeatureBlock_3(96, 576),
            FeatureBlock_2(96, 576, 160, stride=2),
            FeatureBlock_3(160, 960),
            FeatureBlock_3(160, 960),
            FeatureBlock_2(160, 960, 320),
            nn.Sequential(nn.QuantConv2d(320, 1280, 1, output="int8")),
        )
        self.global_average_pool_quant = nn.FakeQuantize(quantized="int8")
        self.flatten_quant = nn.FakeQuantize(quantized="int8")
        self.classifier = nn.ModuleList(
            {1: nn.QuantLinear(1280, 1000, turned=True, output="int8", bias_dtype="int32")}
        )

    def forward(self, x: Tensor) -> Tensor:
        x = ops.global_average_pool(self.features(self.quant(x)))  # (1, 1280, 1, 1)
        x = ops.flatten(self.global_average_pool_quant(x))  # (1, 1280)
        return self.classifier[1](self.flatten_quant(x))  # (1, 1000)
