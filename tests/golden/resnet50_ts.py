"""resnet50.ts: 25.5 M parameters, from resnet50.ts.onnx (opset 17, written by pytorch 2.14.1).

Inputs:  input (1, 3, 224, 224)
Outputs: output (1, 1000)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "resnet50_ts.safetensors"


class Block(nn.Module):
    def __init__(self, in_channels: int, channels: int, stride: int = 1):
        self.conv1 = nn.Conv2d(in_channels, channels, 1)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1)
        self.conv3 = nn.Conv2d(channels, 4 * channels, 1)
        self.downsample = nn.Sequential(nn.Conv2d(in_channels, 4 * channels, 1, stride=stride))

    def forward(self, x: Tensor) -> Tensor:
        conv = ops.relu(self.conv2(ops.relu(self.conv1(x))))
        conv = self.conv3(conv) + self.downsample(x)
        return ops.relu(conv)


class Block_2(nn.Module):
    def __init__(self, channels: int):
        self.conv1 = nn.Conv2d(4 * channels, channels, 1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv3 = nn.Conv2d(channels, 4 * channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        conv = ops.relu(self.conv2(ops.relu(self.conv1(x))))
        return ops.relu(self.conv3(conv) + x)


class Model(nn.Module):
    inputs = (Input("input", "float32", (1, 3, 224, 224), parameter="x"),)
    outputs = (Output("output", "float32", (1, 1000)),)

    def __init__(self):
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.layer1 = nn.Sequential(Block(64, 64), Block_2(64), Block_2(64))
        self.layer2 = nn.Sequential(Block(256, 128, stride=2), *(Block_2(128) for _ in range(3)))
        self.layer3 = nn.Sequential(Block(512, 256, stride=2), *(Block_2(256) for _ in range(5)))
        self.layer4 = nn.Sequential(Block(1024, 512, stride=2), Block_2(512), Block_2(512))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.max_pool(
            ops.relu(self.conv1(x)), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]
        )  # (1, 64, 56, 56)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (1, 2048, 7, 7)
        return self.fc(ops.flatten(ops.global_average_pool(x)))  # (1, 1000)
