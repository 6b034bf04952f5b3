"""magika: 784.5 k parameters, from magika.onnx (opset 15, written by tf2onnx 1.16.1 15c810).

converted from b'__inference_get_logits_tf_function_304'

Inputs:  bytes (unk__214, 2048) int32
Outputs: target_label (unk__214, 214)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "magika.safetensors"


class Dense0(nn.Module):
    def __init__(self):
        self.einsum = nn.Linear(257, 64, bias=False)
        self.constant = nn.Parameter(1, 1, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.einsum(x) + self.constant  # (unk__214, 2048, 64)


class MagikaV2(nn.Module):
    def __init__(self):
        self.Dense_0 = Dense0()
        self.Conv_0 = nn.Conv2d(256, 512, [5, 1], bias=False)
        self.Dense_1 = nn.Linear(512, 214, bias=False)
        self.constant = nn.Parameter(1, 512, 1)
        self.constant_2 = nn.Parameter(1, 512, 1)
        self.const_fold_opt__209 = nn.Parameter(1, 512, 1)
        self.constant_3 = nn.Parameter(1, 512)
        self.constant_4 = nn.Parameter(1, 512)
        self.constant_5 = nn.Parameter(1, 214)

    def forward(self, x: Tensor, bytes_: Tensor) -> Tensor:
        x = ops.gelu(self.Dense_0(x), approximate="tanh")  # (unk__214, 2048, 64)
        x = x.reshape(x.shape[0], 512, 256)  # (unk__214, 512, 256)
        total = x.sum(1)  # (unk__214, 256)
        total_2 = (x * x).sum(1)  # (unk__214, 256)
        total_2 = total_2 * 0.001953125  # (unk__214, 256)
        total = total * 0.001953125  # (unk__214, 256)
        larger = ops.max(0.0, total_2 - total * total)  # (unk__214, 256)
        reciprocal = ops.reciprocal(ops.sqrt(larger.reshape(larger.shape[0], 1, 256) + 1e-06))
        reciprocal = reciprocal * self.constant  # (unk__214, 512, 256)
        x = (x - total.reshape(total.shape[0], 1, 256)) * reciprocal  # (unk__214, 512, 256)
        x = ops.slice(
            (x + self.constant_2)[..., None],
            ops.array([0, 0, 0, 0], dtype="int32"),
            ops.array([1000000000, 1000000000, 1000000000, 1000000000], dtype="int32"),
            ops.array([0, 2, 1, 3], dtype="int32"),
            ops.array([1, 1, 1, 1], dtype="int32"),
        )  # (min(1000000000, unk__214), 512, 256, 1)
        x = self.Conv_0(x.transpose(0, 2, 1, 3)).squeeze(3)  # (min(1000000000, unk__214), 512, 508)
        x = ops.global_max_pool(ops.gelu(x + self.const_fold_opt__209, approximate="tanh"))
        x = x.squeeze(2)  # (min(1000000000, unk__214), 512)
        total = x.sum(1) * 0.001953125  # (min(1000000000, unk__214))
        x_2 = total * total  # (min(1000000000, unk__214))
        x_3 = x - total.reshape(bytes_.shape[0], 1)  # (unk__214, 512)
        x = (x * x).sum(1)  # (min(1000000000, unk__214))
        larger = ops.max(0.0, x * 0.001953125 - x_2).reshape(bytes_.shape[0], 1)  # (unk__214, 1)
        reciprocal = ops.reciprocal(ops.sqrt(larger + 1e-06)) * self.constant_3  # (unk__214, 512)
        x_3 = self.Dense_1(x_3 * reciprocal + self.constant_4)  # (unk__214, 214)
        return x_3 + self.constant_5  # (unk__214, 214)


class PjitGetLogits(nn.Module):
    def __init__(self):
        self.MagikaV2 = MagikaV2()
        self.constant = nn.Parameter(1, 1, 257, dtype="int32")

    def forward(self, bytes_: Tensor) -> Tensor:
        is_equal = (bytes_.reshape(-1, 2048, 1) == self.constant).astype("float32")
        return ops.softmax(self.MagikaV2(is_equal, bytes_))  # (unk__214, 214)


class Model(nn.Module):
    inputs = (Input("bytes", "int32", ("unk__214", 2048), parameter="bytes_"),)
    outputs = (Output("target_label", "float32", ("unk__214", 214)),)

    def __init__(self):
        self.jax2tf_get_logits_ = nn.Container(pjit_get_logits_=PjitGetLogits())

    def forward(self, bytes_: Tensor) -> Tensor:
        return self.jax2tf_get_logits_.pjit_get_logits_(bytes_)  # (unk__214, 214)
