"""ResNet: 8.3 M parameters, from resnet50.safetensors.

Inputs:  input: float32 (batch, 3, height, width)
Outputs: output: float32 (batch, 5)

    model = Model.load()  # resnet50.safetensors
    output = model(input)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "resnet50.safetensors"


class Bottleneck(nn.Module):
    def __init__(self, in_channels: int, width: int, out_channels: int, stride: int = 1):
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm(out_channels)
        self.downsample = None
        if stride != 1 or in_channels != out_channels:
            shortcut = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
            self.downsample = nn.ModuleList([shortcut, nn.BatchNorm(out_channels)])

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        if self.downsample is not None:
            for layer in self.downsample:
                residual = layer(residual)
        x = ops.relu(self.bn1(self.conv1(x)))
        x = ops.relu(self.bn2(self.conv2(x)))
        return ops.relu(self.bn3(self.conv3(x)) + residual)


def stage(
    count: int, in_channels: int, width: int, out_channels: int, stride: int
) -> nn.ModuleList:
    """The first block changes sizes, the others keep them."""
    first = Bottleneck(in_channels, width, out_channels, stride)
    return nn.ModuleList(
        [first, *(Bottleneck(out_channels, width, out_channels) for _ in range(count - 1))]
    )


class Model(nn.Module):
    inputs = (Input("input", "float32", ("batch", 3, "height", "width")),)
    outputs = (Output("output", "float32", ("batch", 5)),)

    def __init__(self):
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm(64)
        self.layer1 = stage(1, 64, 64, 256, stride=1)
        self.layer2 = stage(2, 256, 128, 512, stride=2)
        self.layer3 = stage(1, 512, 256, 1024, stride=2)
        self.layer4 = stage(1, 1024, 512, 2048, stride=2)
        self.fc = nn.Linear(2048, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.relu(self.bn1(self.conv1(x)))  # (batch, 64, height / 2, width / 2)
        x = ops.max_pool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        for blocks in (self.layer1, self.layer2, self.layer3, self.layer4):
            for block in blocks:
                x = block(x)
        x = ops.global_average_pool(x).flatten(1)  # (batch, 2048)
        return self.fc(x)  # (batch, 5)
