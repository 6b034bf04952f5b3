"""nudenet_320n: 3.0 M parameters, from nudenet_320n.onnx (opset 17, written by pytorch 2.3.1).

Inputs:  images (batch, 3, height, width)
Outputs: output0 (batch, 22, ...)
"""

from burnx import Input, Output, Tensor, nn, ops, stack

WEIGHTS = "nudenet_320n.safetensors"


class Cv1(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
    ):
        self.conv = nn.Conv2d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )

    def forward(self, x: Tensor) -> Tensor:
        return ops.swish(self.conv(x))


class Dfl(nn.Module):
    def __init__(self):
        self.conv = nn.Conv2d(16, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        x_2 = x.reshape(batch, 4, 16, x.shape[2]).transpose(0, 2, 1, 3)
        x_2 = self.conv(ops.softmax(x_2, axis=1))
        return x_2.reshape(batch, 4, x.shape[2])


class MBlock(nn.Module):
    def __init__(self, channels: int):
        self.cv1 = Cv1(channels, channels, kernel_size=3, padding=1)
        self.cv2 = Cv1(channels, channels, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.cv2(self.cv1(x))


class ModelBlock(nn.Module):
    def __init__(self):
        self.cv1 = Cv1(256, 128, kernel_size=1)
        self.cv2 = Cv1(512, 256, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cv1(x)  # (batch, 128, ((height - 1) // 32) + 1, ((width - 1) // 32) + 1)
        pooled = ops.max_pool(x, kernel_shape=[5, 5], pads=[2, 2, 2, 2])
        pooled_2 = ops.max_pool(pooled, kernel_shape=[5, 5], pads=[2, 2, 2, 2])
        pooled_3 = ops.max_pool(pooled_2, kernel_shape=[5, 5], pads=[2, 2, 2, 2])
        return self.cv2(ops.concat(x, pooled, pooled_2, pooled_3, axis=1))


class MBlock_2(nn.Module):
    def __init__(self, channels: int):
        self.cv1 = Cv1(channels, channels, kernel_size=3, padding=1)
        self.cv2 = Cv1(channels, channels, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.cv2(self.cv1(x))


class ModelBlock_2(nn.Module):
    def __init__(self):
        self.cv2 = nn.ModuleList(
            nn.Sequential(
                Cv1(in_channels, 64, kernel_size=3, padding=1),
                Cv1(64, 64, kernel_size=3, padding=1),
                nn.Conv2d(64, 64, 1),
            )
            for in_channels in (64, 128, 256)
        )
        self.cv3 = nn.ModuleList(
            nn.Sequential(
                Cv1(in_channels, 64, kernel_size=3, padding=1),
                Cv1(64, 64, kernel_size=3, padding=1),
                nn.Conv2d(64, 18, 1),
            )
            for in_channels in (64, 128, 256)
        )
        self.dfl = Dfl()

    def forward(self, x: Tensor, x_2: Tensor, x_3: Tensor) -> Tensor:
        cv2 = self.cv2[0](x)  # (batch, 64, 4*((height - 1) // 32) + 4, 4*((width - 1) // 32) + 4)
        joined = ops.concat(cv2, self.cv3[0](x), axis=1)
        positions = ops.range(0, cv2.shape[3], 1).astype("float32")  # (4*((width - 1) // 32) + 4)
        positions_2 = ops.range(0, cv2.shape[2], 1).astype("float32")
        batch = joined.shape[0]
        joined = joined.reshape(batch, 82, -1)
        positions = positions + 0.5  # (4*((width - 1) // 32) + 4)
        positions_2 = (positions_2 + 0.5).reshape(-1, 1)  # (4*((height - 1) // 32) + 4, 1)
        positions = positions.reshape(1, -1)  # (1, 4*((width - 1) // 32) + 4)
        filled = ops.constant_of_shape((joined.shape[2], 1), value=ops.array([8.0]))
        positions_2 = ops.expand(positions_2, (cv2.shape[2], cv2.shape[3]))
        joined_2 = stack(
            [ops.expand(positions, (cv2.shape[2], cv2.shape[3])), positions_2], axis=-1
        )  # (4*((height - 1) // 32) + 4, 4*((width - 1) // 32) + 4, 2)
        joined_2 = joined_2.reshape(-1, 2)
        cv2 = self.cv2[1](x_2)
        joined_3 = ops.concat(cv2, self.cv3[1](x_2), axis=1)
        joined_3 = joined_3.reshape(batch, 82, -1)
        positions = ops.range(0, cv2.shape[3], 1).astype("float32")
        positions = positions + 0.5  # (((4*((width - 1) // 32) + 1) // 2) + 2)
        positions_2 = ops.range(0, cv2.shape[2], 1).astype("float32") + 0.5
        positions_2 = positions_2.reshape(-1, 1)  # (((4*((height - 1) // 32) + 1) // 2) + 2, 1)
        positions = positions.reshape(1, -1)  # (1, ((4*((width - 1) // 32) + 1) // 2) + 2)
        filled_2 = ops.constant_of_shape((joined_3.shape[2], 1), value=ops.array([16.0]))
        positions_2 = ops.expand(positions_2, (cv2.shape[2], cv2.shape[3]))
        joined_4 = stack(
            [ops.expand(positions, (cv2.shape[2], cv2.shape[3])), positions_2], axis=-1
        )  # (((4*((height - 1) // 32) + 1) // 2) + 2, ((4*((width - 1) // 32) + 1) // 2) + 2, 2)
        joined_4 = joined_4.reshape(-1, 2)
        cv2 = self.cv2[2](x_3)
        joined_5 = ops.concat(cv2, self.cv3[2](x_3), axis=1)
        joined_5 = joined_5.reshape(batch, 82, -1)
        part, part_2 = ops.split(
            ops.concat(joined, joined_3, joined_5, axis=2), [64, 18], axis=1, outputs=2
        )
        positions = ops.range(0, cv2.shape[3], 1).astype("float32")
        positions_2 = ops.range(0, cv2.shape[2], 1).astype("float32")
        part_2 = ops.sigmoid(part_2)
        positions = positions + 0.5  # (((4*((width - 1) // 32) + 3) // 4) + 1)
        positions_2 = (positions_2 + 0.5).reshape(-1, 1)
        positions = positions.reshape(1, -1)  # (1, ((4*((width - 1) // 32) + 3) // 4) + 1)
        joined = ops.concat(
            filled,
            filled_2,
            ops.constant_of_shape((joined_5.shape[2], 1), value=ops.array([32.0])),
            axis=0,
        )
        x = self.dfl(part)
        positions_2 = ops.expand(positions_2, (cv2.shape[2], cv2.shape[3]))
        joined = joined.transpose(1, 0)
        joined_3 = stack(
            [ops.expand(positions, (cv2.shape[2], cv2.shape[3])), positions_2], axis=-1
        )  # (((4*((height - 1) // 32) + 3) // 4) + 1, ((4*((width - 1) // 32) + 3) // 4) + 1, 2)
        joined_2 = ops.concat(joined_2, joined_4, joined_3.reshape(-1, 2), axis=0)
        x_2 = x[:, :2]
        x = x[:, 2:4]
        joined_2 = joined_2.transpose(1, 0)[None]
        x_2 = joined_2 - x_2
        joined_2 = joined_2 + x
        x = ops.concat((x_2 + joined_2) / 2.0, joined_2 - x_2, axis=1)
        return ops.concat(x * joined, part_2, axis=1)


class ModelBlock_3(nn.Module):
    def __init__(self, channels: int):
        self.cv1 = Cv1(2 * channels, 2 * channels, kernel_size=1)
        self.m = nn.Sequential(MBlock(channels))
        self.cv2 = Cv1(3 * channels, 2 * channels, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x, part = ops.split(self.cv1(x), axis=1, outputs=2)
        return self.cv2(ops.concat(x, part, self.m(part), axis=1))


class ModelBlock_4(nn.Module):
    def __init__(self, channels: int):
        self.cv1 = Cv1(2 * channels, 2 * channels, kernel_size=1)
        self.m = nn.ModuleList(MBlock(channels) for _ in range(2))
        self.cv2 = Cv1(4 * channels, 2 * channels, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x, part = ops.split(self.cv1(x), axis=1, outputs=2)
        m = self.m[0](part)
        return self.cv2(ops.concat(x, part, m, self.m[1](m), axis=1))


class ModelBlock_5(nn.Module):
    def __init__(self, in_channels: int, channels: int):
        self.cv1 = Cv1(in_channels, 2 * channels, kernel_size=1)
        self.m = nn.Sequential(MBlock_2(channels))
        self.cv2 = Cv1(3 * channels, 2 * channels, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x, part = ops.split(self.cv1(x), axis=1, outputs=2)
        x = ops.concat(x, part, self.m(part), axis=1)
        return self.cv2(x)


class Model_2(nn.Module):
    def __init__(self):
        self.part_0 = Cv1(3, 16, kernel_size=3, stride=2, padding=1)
        self.part_1 = Cv1(16, 32, kernel_size=3, stride=2, padding=1)
        self.part_2 = ModelBlock_3(16)
        self.part_3 = Cv1(32, 64, kernel_size=3, stride=2, padding=1)
        self.part_4 = ModelBlock_4(32)
        self.part_5 = Cv1(64, 128, kernel_size=3, stride=2, padding=1)
        self.part_6 = ModelBlock_4(64)
        self.part_7 = Cv1(128, 256, kernel_size=3, stride=2, padding=1)
        self.part_8 = ModelBlock_3(128)
        self.part_9 = ModelBlock()
        self.part_12 = ModelBlock_5(384, 64)
        self.part_15 = ModelBlock_5(192, 32)
        self.part_16 = Cv1(64, 64, kernel_size=3, stride=2, padding=1)
        self.part_18 = ModelBlock_5(192, 64)
        self.part_19 = Cv1(128, 128, kernel_size=3, stride=2, padding=1)
        self.part_21 = ModelBlock_5(384, 128)
        self.part_22 = ModelBlock_2()

    def forward(self, x: Tensor) -> Tensor:
        x = self.part_2(self.part_1(self.part_0(x)))
        x = self.part_4(self.part_3(x))
        model = self.part_6(self.part_5(x))
        model_2 = self.part_9(self.part_8(self.part_7(model)))
        resize = ops.resize(
            model_2,
            None,
            [1.0, 1.0, 2.0, 2.0],
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )  # (batch, 256, 2*((height - 1) // 32) + 2, 2*((width - 1) // 32) + 2)
        model = self.part_12(ops.concat(resize, model, axis=1))
        resize = ops.resize(
            model,
            None,
            [1.0, 1.0, 2.0, 2.0],
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )  # (batch, 128, 4*((height - 1) // 32) + 4, 4*((width - 1) // 32) + 4)
        x = self.part_15(ops.concat(resize, x, axis=1))
        model = self.part_18(ops.concat(self.part_16(x), model, axis=1))
        model_2 = self.part_21(ops.concat(self.part_19(model), model_2, axis=1))
        return self.part_22(x, model, model_2)


class Model(nn.Module):
    inputs = (Input("images", "float32", ("batch", 3, "height", "width")),)
    outputs = (
        Output(
            "output0",
            "float32",
            (
                "batch",
                22,
                "((4*((height - 1) // 32) + 1) // 2)*((4*((width - 1) // 32) + 1) // 2) + ((4*((height - 1) // 32) + 3) // 4)*((4*((width - 1) // 32) + 3) // 4) + 16*((height - 1) // 32)*((width - 1) // 32) + 2*((4*((height - 1) // 32) + 1) // 2) + ((4*((height - 1) // 32) + 3) // 4) + 2*((4*((width - 1) // 32) + 1) // 2) + ((4*((width - 1) // 32) + 3) // 4) + 16*((height - 1) // 32) + 16*((width - 1) // 32) + 21",
            ),
        ),
    )

    def __init__(self):
        self.model = Model_2()

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images)
