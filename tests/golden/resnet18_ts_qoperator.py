"""resnet18.ts.qoperator: 11.7 M parameters, from resnet18.ts.qoperator.onnx (opset 17, written by
onnx.quantize 0.1.0).

Inputs:  input (batch, 3, 224, 224)
Outputs: output (batch, 1000)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "resnet18_ts_qoperator.safetensors"


class Block(nn.Module):
    def __init__(self, channels: int):
        self.conv1 = nn.QLinearConv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.QLinearConv2d(channels, channels, 3, padding=1)
        self.add = nn.QLinearAdd()

    def forward(self, x: Tensor) -> Tensor:
        return self.add(self.conv2(self.conv1(x)), x)


class Block_2(nn.Module):
    def __init__(self, in_channels: int):
        self.conv1 = nn.QLinearConv2d(in_channels, 2 * in_channels, 3, stride=2, padding=1)
        self.downsample = nn.Sequential(nn.QLinearConv2d(in_channels, 2 * in_channels, 1, stride=2))
        self.conv2 = nn.QLinearConv2d(2 * in_channels, 2 * in_channels, 3, padding=1)
        self.add = nn.QLinearAdd()

    def forward(self, x: Tensor) -> Tensor:
        return self.add(self.conv2(self.conv1(x)), self.downsample(x))


class Model(nn.Module):
    inputs = (Input("input", "float32", ("batch", 3, 224, 224), parameter="x"),)
    outputs = (Output("output", "float32", ("batch", 1000)),)

    def __init__(self):
        self.conv1 = nn.QLinearConv2d(3, 64, 7, stride=2, padding=3)
        self.layer1 = nn.Sequential(Block(64), Block(64))
        self.layer2 = nn.Sequential(Block_2(64), Block(128))
        self.layer3 = nn.Sequential(Block_2(128), Block(256))
        self.layer4 = nn.Sequential(Block_2(256), Block(512))
        self.avgpool = nn.QLinearGlobalAveragePool()
        self.fc = nn.QGemm(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.max_pool(
            self.conv1(ops.quantize_linear(x, self.conv1.input_scale, self.conv1.input_zero_point)),
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            strides=[2, 2],
        )  # (batch, 64, 56, 56) uint8
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (batch, 512, 7, 7) uint8
        return ops.dequantize_linear(
            self.fc(ops.flatten(self.avgpool(x))), self.fc.output_scale, self.fc.output_zero_point
        )  # (batch, 1000)
