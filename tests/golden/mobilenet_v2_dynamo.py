"""mobilenet_v2.dynamo: 3.5 M parameters, from mobilenet_v2.dynamo.onnx (opset 20, written by
pytorch 2.14.1+cu130).

Inputs:  input (1, 3, 224, 224)
Outputs: output (1, 1000)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "mobilenet_v2_dynamo.safetensors"


class Conv2dNormActivation(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
    ):
        self.conv = nn.Conv2d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, groups=groups
        )

    def forward(self, x: Tensor) -> Tensor:
        return ops.clip(self.conv(x), 0.0, 6.0)


class InvertedResidual(nn.Module):
    def __init__(self):
        self.conv = nn.Sequential(
            Conv2dNormActivation(32, 32, kernel_size=3, padding=1, groups=32), nn.Conv2d(32, 16, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)  # (1, 16, 112, 112)


class InvertedResidual_2(nn.Module):
    def __init__(self, in_channels: int, channels: int, out_channels: int, stride: int = 1):
        self.conv = nn.Sequential(
            Conv2dNormActivation(in_channels, channels, kernel_size=1),
            Conv2dNormActivation(
                channels, channels, kernel_size=3, stride=stride, padding=1, groups=channels
            ),
            nn.Conv2d(channels, out_channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


class InvertedResidual_3(nn.Module):
    def __init__(self, channels: int, hidden_channels: int):
        self.conv = nn.Sequential(
            Conv2dNormActivation(channels, hidden_channels, kernel_size=1),
            Conv2dNormActivation(
                hidden_channels, hidden_channels, kernel_size=3, padding=1, groups=hidden_channels
            ),
            nn.Conv2d(hidden_channels, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x)


class Model(nn.Module):
    inputs = (Input("input", "float32", (1, 3, 224, 224), parameter="x"),)
    outputs = (Output("output", "float32", (1, 1000)),)

    def __init__(self):
        self.features = nn.Sequential(
            Conv2dNormActivation(3, 32, kernel_size=3, stride=2, padding=1),
            InvertedResidual(),
            InvertedResidual_2(16, 96, 24, stride=2),
            InvertedResidual_3(24, 144),
            InvertedResidual_2(24, 144, 32, stride=2),
            InvertedResidual_3(32, 192),
            InvertedResidual_3(32, 192),
            InvertedResidual_2(32, 192, 64, stride=2),
            *(InvertedResidual_3(64, 384) for _ in range(3)),
            InvertedResidual_2(64, 384, 96),
            InvertedResidual_3(96, 576),
            InvertedResidual_3(96, 576),
            InvertedResidual_2(96, 576, 160, stride=2),
            InvertedResidual_3(160, 960),
            InvertedResidual_3(160, 960),
            InvertedResidual_2(160, 960, 320),
            Conv2dNormActivation(320, 1280, kernel_size=1),
        )
        self.classifier = nn.ModuleList({1: nn.Linear(1280, 1000, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x).mean((-1, -2), keepdims=True)  # (1, 1280, 1, 1)
        return self.classifier[1](ops.flatten(x))  # (1, 1000)
