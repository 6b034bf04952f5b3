"""hand_loop_if: 0 parameters, from hand_loop_if.onnx (opset 17, written by hand).

Inputs:  x (N, 4); n () int64
Outputs: y (N, 4); ys (?, N, 4)
"""

from burnx import Input, Output, Tensor, nn, ops, script, stack


class Model(nn.Module):
    inputs = (Input("x", "float32", ("N", 4)), Input("n", "int64", ()))
    outputs = (Output("y", "float32", ("N", 4)), Output("ys", "float32", (None, "N", 4)))

    @script
    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        y = x
        rows = []
        for i in range(n):
            y = y / 2.0 + ops.cast(i, to="float32")  # (N, 4)
            if ops.reduce_mean(y, keepdims=0) < 2.0:
                y = y * 2.0  # (N, 4)
            else:
                y = -y  # (N, 4)
            rows.append(y)
        ys = stack(rows)  # (?, N, 4)
        return y, ys
