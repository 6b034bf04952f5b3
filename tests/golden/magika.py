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
        self.jax2tf_get_logits_pjit_get_logits_MagikaV2_Dense_0_Reshape = nn.Parameter(1, 1, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.einsum(x) + self.jax2tf_get_logits_pjit_get_logits_MagikaV2_Dense_0_Reshape


class Model(nn.Module):
    inputs = (Input("bytes", "int32", ("unk__214", 2048)),)
    outputs = (Output("target_label", "float32", ("unk__214", 214)),)

    def __init__(self):
        self.jax2tf_get_logits_ = nn.Container(
            pjit_get_logits_=nn.Container(
                MagikaV2=nn.Container(
                    Dense_0=Dense0(),
                    Conv_0=nn.Conv2d(256, 512, [5, 1], bias=False),
                    Dense_1=nn.Linear(512, 214, bias=False),
                )
            )
        )
        self.jax2tf_get_logits_pjit_get_logits_pjit_one_hot_BroadcastTo_1 = nn.Parameter(
            1, 1, 257, dtype="int32"
        )
        self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_0_Resha = nn.Parameter(1, 512, 1)
        self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_0_Resha_2 = nn.Parameter(
            1, 512, 1
        )
        self.const_fold_opt__209 = nn.Parameter(1, 512, 1)
        self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_1_Resha = nn.Parameter(1, 512)
        self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_1_Resha_2 = nn.Parameter(1, 512)
        self.jax2tf_get_logits_pjit_get_logits_MagikaV2_Dense_1_Reshape = nn.Parameter(1, 214)

    def forward(self, bytes: Tensor) -> Tensor:
        equal = (
            bytes.reshape(-1, 2048, 1)
            == self.jax2tf_get_logits_pjit_get_logits_pjit_one_hot_BroadcastTo_1
        ).astype("float32")  # (unk__214, 2048, 257)
        equal = ops.gelu(
            self.jax2tf_get_logits_.pjit_get_logits_.MagikaV2.Dense_0(equal), approximate="tanh"
        )  # (unk__214, 2048, 64)
        equal = equal.reshape(equal.shape[0], 512, 256)  # (unk__214, 512, 256)
        reduce_sum = ops.reduce_sum(equal, [1], keepdims=0, noop_with_empty_axes=1)
        reduce_sum_2 = ops.reduce_sum(equal * equal, [1], keepdims=0, noop_with_empty_axes=1)
        reduce_sum_2 = reduce_sum_2 * 0.001953125  # (unk__214, 256)
        reduce_sum = reduce_sum * 0.001953125  # (unk__214, 256)
        max = ops.max(0.0, reduce_sum_2 - reduce_sum * reduce_sum)  # (unk__214, 256)
        max = ops.reciprocal(ops.sqrt(max.reshape(max.shape[0], 1, 256) + 1e-06))
        max = max * self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_0_Resha
        equal = (equal - reduce_sum.reshape(reduce_sum.shape[0], 1, 256)) * max
        equal = ops.slice(
            ops.unsqueeze(
                equal + self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_0_Resha_2, [3]
            ),
            ops.array([0, 0, 0, 0], dtype="int32"),
            ops.array([1000000000, 1000000000, 1000000000, 1000000000], dtype="int32"),
            ops.array([0, 2, 1, 3], dtype="int32"),
            ops.array([1, 1, 1, 1], dtype="int32"),
        )  # (min(1000000000, unk__214), 512, 256, 1)
        equal = ops.squeeze(
            self.jax2tf_get_logits_.pjit_get_logits_.MagikaV2.Conv_0(equal.transpose(0, 2, 1, 3)),
            [3],
        )  # (min(1000000000, unk__214), 512, 508)
        equal = ops.global_max_pool(ops.gelu(equal + self.const_fold_opt__209, approximate="tanh"))
        equal = ops.squeeze(equal, [2])  # (min(1000000000, unk__214), 512)
        reduce_sum = ops.reduce_sum(equal, [1], keepdims=0, noop_with_empty_axes=1) * 0.001953125
        x = reduce_sum * reduce_sum  # (min(1000000000, unk__214))
        x_2 = equal - reduce_sum.reshape(bytes.shape[0], 1)  # (unk__214, 512)
        equal = ops.reduce_sum(equal * equal, [1], keepdims=0, noop_with_empty_axes=1)
        max = ops.max(0.0, equal * 0.001953125 - x).reshape(bytes.shape[0], 1)  # (unk__214, 1)
        max = (
            ops.reciprocal(ops.sqrt(max + 1e-06))
            * self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_1_Resha
        )  # (unk__214, 512)
        x_2 = self.jax2tf_get_logits_.pjit_get_logits_.MagikaV2.Dense_1(
            x_2 * max + self.jax2tf_get_logits_pjit_get_logits_MagikaV2_LayerNorm_1_Resha_2
        )  # (unk__214, 214)
        x_2 = x_2 + self.jax2tf_get_logits_pjit_get_logits_MagikaV2_Dense_1_Reshape
        reduce_max = ops.max(float("-inf"), ops.reduce_max(x_2, [1], keepdims=0))  # (unk__214)
        x_2 = ops.exp(x_2 - reduce_max.reshape(reduce_max.shape[0], 1))  # (unk__214, 214)
        reduce_sum = ops.reduce_sum(x_2, [1], keepdims=0, noop_with_empty_axes=1)  # (unk__214)
        return x_2 / reduce_sum.reshape(reduce_sum.shape[0], 1)  # (unk__214, 214)
