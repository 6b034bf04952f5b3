"""resnet50.ts: 25.5 M parameters, from resnet50.ts.onnx (opset 17, written by pytorch 2.14.1).

Inputs:  input (1, 3, 224, 224)
Outputs: output (1, 1000)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "resnet50_ts.safetensors"


class Layer1Block(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(64, 64, 1)
        self.conv2 = nn.Conv2d(64, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 256, 1)
        self.downsample = nn.ModuleList([nn.Conv2d(64, 256, 1)])

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 64, 56, 56)
        conv_2 = ops.relu(self.conv3(conv_2) + self.downsample[0](x))  # (1, 256, 56, 56)
        return conv_2


class Layer1Block_2(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(256, 64, 1)
        self.conv2 = nn.Conv2d(64, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 256, 1)

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 64, 56, 56)
        return ops.relu(self.conv3(conv_2) + x)  # (1, 256, 56, 56)


class Layer2Block(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(256, 128, 1)
        self.conv2 = nn.Conv2d(128, 128, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(128, 512, 1)
        self.downsample = nn.ModuleList([nn.Conv2d(256, 512, 1, stride=2)])

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 128, 28, 28)
        conv_2 = ops.relu(self.conv3(conv_2) + self.downsample[0](x))  # (1, 512, 28, 28)
        return conv_2


class Layer2Block_2(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(512, 128, 1)
        self.conv2 = nn.Conv2d(128, 128, 3, padding=1)
        self.conv3 = nn.Conv2d(128, 512, 1)

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 128, 28, 28)
        return ops.relu(self.conv3(conv_2) + x)  # (1, 512, 28, 28)


class Layer3Block(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(512, 256, 1)
        self.conv2 = nn.Conv2d(256, 256, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(256, 1024, 1)
        self.downsample = nn.ModuleList([nn.Conv2d(512, 1024, 1, stride=2)])

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 256, 14, 14)
        conv_2 = ops.relu(self.conv3(conv_2) + self.downsample[0](x))  # (1, 1024, 14, 14)
        return conv_2


class Layer3Block_2(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(1024, 256, 1)
        self.conv2 = nn.Conv2d(256, 256, 3, padding=1)
        self.conv3 = nn.Conv2d(256, 1024, 1)

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 256, 14, 14)
        return ops.relu(self.conv3(conv_2) + x)  # (1, 1024, 14, 14)


class Layer4Block(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(1024, 512, 1)
        self.conv2 = nn.Conv2d(512, 512, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(512, 2048, 1)
        self.downsample = nn.ModuleList([nn.Conv2d(1024, 2048, 1, stride=2)])

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 512, 7, 7)
        conv_2 = ops.relu(self.conv3(conv_2) + self.downsample[0](x))  # (1, 2048, 7, 7)
        return conv_2


class Layer4Block_2(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(2048, 512, 1)
        self.conv2 = nn.Conv2d(512, 512, 3, padding=1)
        self.conv3 = nn.Conv2d(512, 2048, 1)

    def forward(self, x: Tensor) -> Tensor:
        conv_2 = ops.relu(self.conv2(ops.relu(self.conv1(x))))  # (1, 512, 7, 7)
        return ops.relu(self.conv3(conv_2) + x)  # (1, 2048, 7, 7)


class Model(nn.Module):
    inputs = (Input("input", "float32", (1, 3, 224, 224)),)
    outputs = (Output("output", "float32", (1, 1000)),)

    def __init__(self):
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.layer1 = nn.ModuleList([Layer1Block(), Layer1Block_2(), Layer1Block_2()])
        self.layer2 = nn.ModuleList(
            [Layer2Block(), Layer2Block_2(), Layer2Block_2(), Layer2Block_2()]
        )
        self.layer3 = nn.ModuleList(
            [
                Layer3Block(),
                Layer3Block_2(),
                Layer3Block_2(),
                Layer3Block_2(),
                Layer3Block_2(),
                Layer3Block_2(),
            ]
        )
        self.layer4 = nn.ModuleList([Layer4Block(), Layer4Block_2(), Layer4Block_2()])
        self.fc = nn.Linear(2048, 1000)

    def forward(self, input: Tensor) -> Tensor:
        x = ops.max_pool(
            ops.relu(self.conv1(input)), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]
        )  # (1, 64, 56, 56)
        layer_1 = self.layer1[0](x)
        for block in self.layer1[1:]:
            layer_1 = block(layer_1)  # (1, 256, 56, 56)
        layer_2 = self.layer2[0](layer_1)
        for block in self.layer2[1:]:
            layer_2 = block(layer_2)  # (1, 512, 28, 28)
        layer_3 = self.layer3[0](layer_2)
        for block in self.layer3[1:]:
            layer_3 = block(layer_3)  # (1, 1024, 14, 14)
        layer_4 = self.layer4[0](layer_3)
        for block in self.layer4[1:]:
            layer_4 = block(layer_4)  # (1, 2048, 7, 7)
        layer_4 = self.fc(ops.flatten(ops.global_average_pool(layer_4)))  # (1, 1000)
        return layer_4
