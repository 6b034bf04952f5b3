"""ch_PP-OCRv4_rec_infer: 2.7 M parameters, from ch_PP-OCRv4_rec_infer.onnx (opset 12).

Inputs:  x (p2o.DynamicDimension.0, 3, ?, p2o.DynamicDimension.1)
Outputs: softmax_11.tmp_0 (p2o.DynamicDimension.0, ((p2o.DynamicDimension.1 - 5) // 8) + 1, 6625)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "ch_PP_OCRv4_rec_infer.safetensors"


class Model(nn.Module):
    inputs = (Input("x", "float32", ("p2o.DynamicDimension.0", 3, None, "p2o.DynamicDimension.1")),)
    outputs = (
        Output(
            "softmax_11.tmp_0",
            "float32",
            ("p2o.DynamicDimension.0", "((p2o.DynamicDimension.1 - 5) // 8) + 1", 6625),
        ),
    )

    def __init__(self):
        self.conv = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm(16)
        self.conv_2 = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.conv_3 = nn.Conv2d(16, 32, 1)
        self.conv_4 = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.conv_5 = nn.Conv2d(32, 64, 1)
        self.conv_6 = nn.Conv2d(64, 64, 3, padding=1, groups=64)
        self.conv_7 = nn.Conv2d(64, 64, 1)
        self.conv_8 = nn.Conv2d(64, 64, 3, stride=[2, 1], padding=1, groups=64)
        self.conv_9 = nn.Conv2d(64, 128, 1)
        self.conv_10 = nn.Conv2d(128, 128, 3, padding=1, groups=128)
        self.conv_11 = nn.Conv2d(128, 128, 1)
        self.conv_12 = nn.Conv2d(128, 128, 3, stride=[1, 2], padding=1, groups=128)
        self.conv_13 = nn.Conv2d(128, 240, 1)
        self.conv_14 = nn.Conv2d(240, 240, 5, padding=2, groups=240)
        self.conv_15 = nn.Conv2d(240, 240, 1)
        self.conv_16 = nn.Conv2d(240, 240, 5, padding=2, groups=240)
        self.conv_17 = nn.Conv2d(240, 240, 1)
        self.conv_18 = nn.Conv2d(240, 240, 5, padding=2, groups=240)
        self.conv_19 = nn.Conv2d(240, 240, 1)
        self.conv_20 = nn.Conv2d(240, 240, 5, padding=2, groups=240)
        self.conv_21 = nn.Conv2d(240, 240, 1)
        self.conv_22 = nn.Conv2d(240, 240, 5, stride=[2, 1], padding=2, groups=240)
        self.conv_23 = nn.Conv2d(240, 60, 1)
        self.conv_24 = nn.Conv2d(60, 240, 1)
        self.conv_25 = nn.Conv2d(240, 480, 1)
        self.conv_26 = nn.Conv2d(480, 480, 5, padding=2, groups=480)
        self.conv_27 = nn.Conv2d(480, 120, 1)
        self.conv_28 = nn.Conv2d(120, 480, 1)
        self.conv_29 = nn.Conv2d(480, 480, 1)
        self.conv_30 = nn.Conv2d(480, 480, 5, stride=[2, 1], padding=2, groups=480)
        self.conv_31 = nn.Conv2d(480, 480, 1)
        self.conv_32 = nn.Conv2d(480, 480, 5, padding=2, groups=480)
        self.conv_33 = nn.Conv2d(480, 480, 1)
        self.conv_34 = nn.Conv2d(480, 60, [1, 3], padding=[0, 1], bias=False)
        self.norm_2 = nn.BatchNorm(60)
        self.conv_35 = nn.Conv2d(60, 120, 1, bias=False)
        self.norm_3 = nn.BatchNorm(120)
        self.attention_norm = nn.LayerNorm(120)
        self.qkv_proj = nn.Linear(120, 360)
        self.o_proj = nn.Linear(120, 120)
        self.mlp_norm = nn.LayerNorm(120)
        self.up_proj = nn.Linear(120, 240)
        self.down_proj = nn.Linear(240, 120)
        self.attention_norm_2 = nn.LayerNorm(120)
        self.qkv_proj_2 = nn.Linear(120, 360)
        self.o_proj_2 = nn.Linear(120, 120)
        self.mlp_norm_2 = nn.LayerNorm(120)
        self.up_proj_2 = nn.Linear(120, 240)
        self.down_proj_2 = nn.Linear(240, 120)
        self.norm_4 = nn.LayerNorm(120, eps=1e-06)
        self.conv_36 = nn.Conv2d(120, 480, 1, bias=False)
        self.norm_5 = nn.BatchNorm(480)
        self.conv_37 = nn.Conv2d(960, 60, [1, 3], padding=[0, 1], bias=False)
        self.norm_6 = nn.BatchNorm(60)
        self.conv_38 = nn.Conv2d(60, 120, 1, bias=False)
        self.norm_7 = nn.BatchNorm(120)
        self.linear = nn.Linear(120, 6625)
        self.mobile_one_block_0 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_1 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_1 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_2 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_2 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_3 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_3 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_4 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_4 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_5 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_5 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_6 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_6 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_7 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_7 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_8 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_8 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_9 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_9 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_10 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_10 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_11 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_11 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_12 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_12 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_13 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_13 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_14 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_14 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_15 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_15 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_16 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_16 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_17 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_17 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_18 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_18 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_19 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_19 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_20 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_20 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_21 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_21 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_22 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_22 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_23 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_23 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_24 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_24 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_25 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_25 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_26 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_26 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_27 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.mobile_one_block_27 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))
        self.whswish_b_28 = nn.Container(w_0=nn.Parameter(1), w_1=nn.Parameter(1))

    def forward(self, x: Tensor) -> Tensor:
        conv = self.mobile_one_block_0.w_0 * self.conv_2(self.norm(self.conv(x)))
        x = (
            self.whswish_b_1.w_0 * ops.hard_swish(conv + self.mobile_one_block_0.w_1)
            + self.whswish_b_1.w_1
        )  # (p2o.DynamicDimension.0, 16, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_1.w_0 * self.conv_3(x) + self.mobile_one_block_1.w_1
        )  # (p2o.DynamicDimension.0, 32, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = self.mobile_one_block_2.w_0 * self.conv_4(
            self.whswish_b_2.w_0 * conv + self.whswish_b_2.w_1
        )  # (p2o.DynamicDimension.0, 32, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        x = (
            self.whswish_b_3.w_0 * ops.hard_swish(conv + self.mobile_one_block_2.w_1)
            + self.whswish_b_3.w_1
        )  # (p2o.DynamicDimension.0, 32, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_3.w_0 * self.conv_5(x) + self.mobile_one_block_3.w_1
        )  # (p2o.DynamicDimension.0, 64, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = self.mobile_one_block_4.w_0 * self.conv_6(
            self.whswish_b_4.w_0 * conv + self.whswish_b_4.w_1
        )  # (p2o.DynamicDimension.0, 64, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        x = (
            self.whswish_b_5.w_0 * ops.hard_swish(conv + self.mobile_one_block_4.w_1)
            + self.whswish_b_5.w_1
        )  # (p2o.DynamicDimension.0, 64, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_5.w_0 * self.conv_7(x) + self.mobile_one_block_5.w_1
        )  # (p2o.DynamicDimension.0, 64, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = self.mobile_one_block_6.w_0 * self.conv_8(
            self.whswish_b_6.w_0 * conv + self.whswish_b_6.w_1
        )  # (p2o.DynamicDimension.0, 64, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        x = (
            self.whswish_b_7.w_0 * ops.hard_swish(conv + self.mobile_one_block_6.w_1)
            + self.whswish_b_7.w_1
        )  # (p2o.DynamicDimension.0, 64, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_7.w_0 * self.conv_9(x) + self.mobile_one_block_7.w_1
        )  # (p2o.DynamicDimension.0, 128, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = self.mobile_one_block_8.w_0 * self.conv_10(
            self.whswish_b_8.w_0 * conv + self.whswish_b_8.w_1
        )  # (p2o.DynamicDimension.0, 128, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        x = (
            self.whswish_b_9.w_0 * ops.hard_swish(conv + self.mobile_one_block_8.w_1)
            + self.whswish_b_9.w_1
        )  # (p2o.DynamicDimension.0, 128, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_9.w_0 * self.conv_11(x) + self.mobile_one_block_9.w_1
        )  # (p2o.DynamicDimension.0, 128, ?, ((p2o.DynamicDimension.1 - 1) // 2) + 1)
        conv = self.mobile_one_block_10.w_0 * self.conv_12(
            self.whswish_b_10.w_0 * conv + self.whswish_b_10.w_1
        )  # (p2o.DynamicDimension.0, 128, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_11.w_0 * ops.hard_swish(conv + self.mobile_one_block_10.w_1)
            + self.whswish_b_11.w_1
        )  # (p2o.DynamicDimension.0, 128, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_11.w_0 * self.conv_13(x) + self.mobile_one_block_11.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = self.mobile_one_block_12.w_0 * self.conv_14(
            self.whswish_b_12.w_0 * conv + self.whswish_b_12.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_13.w_0 * ops.hard_swish(conv + self.mobile_one_block_12.w_1)
            + self.whswish_b_13.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_13.w_0 * self.conv_15(x) + self.mobile_one_block_13.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = self.mobile_one_block_14.w_0 * self.conv_16(
            self.whswish_b_14.w_0 * conv + self.whswish_b_14.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_15.w_0 * ops.hard_swish(conv + self.mobile_one_block_14.w_1)
            + self.whswish_b_15.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_15.w_0 * self.conv_17(x) + self.mobile_one_block_15.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = self.mobile_one_block_16.w_0 * self.conv_18(
            self.whswish_b_16.w_0 * conv + self.whswish_b_16.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_17.w_0 * ops.hard_swish(conv + self.mobile_one_block_16.w_1)
            + self.whswish_b_17.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_17.w_0 * self.conv_19(x) + self.mobile_one_block_17.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = self.mobile_one_block_18.w_0 * self.conv_20(
            self.whswish_b_18.w_0 * conv + self.whswish_b_18.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_19.w_0 * ops.hard_swish(conv + self.mobile_one_block_18.w_1)
            + self.whswish_b_19.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_19.w_0 * self.conv_21(x) + self.mobile_one_block_19.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv_22 = self.mobile_one_block_20.w_0 * self.conv_22(
            self.whswish_b_20.w_0 * conv + self.whswish_b_20.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_21.w_0 * ops.hard_swish(conv_22 + self.mobile_one_block_20.w_1)
            + self.whswish_b_21.w_1
        )  # (p2o.DynamicDimension.0, 240, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv_24 = self.conv_24(ops.relu(self.conv_23(ops.global_average_pool(x))))
        x = x * ops.hard_sigmoid(conv_24, alpha=0.1666667)
        conv = ops.hard_swish(
            self.mobile_one_block_21.w_0 * self.conv_25(x) + self.mobile_one_block_21.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv_26 = self.mobile_one_block_22.w_0 * self.conv_26(
            self.whswish_b_22.w_0 * conv + self.whswish_b_22.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_23.w_0 * ops.hard_swish(conv_26 + self.mobile_one_block_22.w_1)
            + self.whswish_b_23.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv_28 = self.conv_28(ops.relu(self.conv_27(ops.global_average_pool(x))))
        x = x * ops.hard_sigmoid(conv_28, alpha=0.1666667)
        conv = ops.hard_swish(
            self.mobile_one_block_23.w_0 * self.conv_29(x) + self.mobile_one_block_23.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = self.mobile_one_block_24.w_0 * self.conv_30(
            self.whswish_b_24.w_0 * conv + self.whswish_b_24.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_25.w_0 * ops.hard_swish(conv + self.mobile_one_block_24.w_1)
            + self.whswish_b_25.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_25.w_0 * self.conv_31(x) + self.mobile_one_block_25.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = self.mobile_one_block_26.w_0 * self.conv_32(
            self.whswish_b_26.w_0 * conv + self.whswish_b_26.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        x = (
            self.whswish_b_27.w_0 * ops.hard_swish(conv + self.mobile_one_block_26.w_1)
            + self.whswish_b_27.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        conv = ops.hard_swish(
            self.mobile_one_block_27.w_0 * self.conv_33(x) + self.mobile_one_block_27.w_1
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 1) // 4) + 1)
        pooled = ops.average_pool(
            self.whswish_b_28.w_0 * conv + self.whswish_b_28.w_1,
            kernel_shape=[3, 2],
            strides=[3, 2],
        )  # (p2o.DynamicDimension.0, 480, ?, ((p2o.DynamicDimension.1 - 5) // 8) + 1)
        conv = self.conv_35(ops.swish(self.norm_2(self.conv_34(pooled))))
        conv = ops.swish(self.norm_3(conv))
        conv = conv.reshape(conv.shape[0], 120, -1).transpose(0, 2, 1)
        query, key, value = ops.split(self.qkv_proj(self.attention_norm(conv)), axis=-1, outputs=3)
        x = self.o_proj(ops.attention(query, key, value, q_num_heads=8, kv_num_heads=8))
        conv = conv + x  # (p2o.DynamicDimension.0, ?, 120)
        down_proj = self.down_proj(ops.swish(self.up_proj(self.mlp_norm(conv))))
        conv = conv + down_proj  # (p2o.DynamicDimension.0, ?, 120)
        query, key, value = ops.split(
            self.qkv_proj_2(self.attention_norm_2(conv)), axis=-1, outputs=3
        )  # (p2o.DynamicDimension.0, ?, 120)
        x = self.o_proj_2(ops.attention(query, key, value, q_num_heads=8, kv_num_heads=8))
        conv = conv + x  # (p2o.DynamicDimension.0, ?, 120)
        down_proj = self.down_proj_2(ops.swish(self.up_proj_2(self.mlp_norm_2(conv))))
        conv = self.norm_4(conv + down_proj)  # (p2o.DynamicDimension.0, ?, 120)
        x = self.conv_36(conv.reshape(conv.shape[0], 1, pooled.shape[3], 120).transpose(0, 3, 1, 2))
        joined = ops.concat(pooled, ops.swish(self.norm_5(x)), axis=1)
        x = self.conv_38(ops.swish(self.norm_6(self.conv_37(joined))))
        x = ops.swish(self.norm_7(x)).squeeze(2).transpose(0, 2, 1)
        return ops.softmax(self.linear(x))
