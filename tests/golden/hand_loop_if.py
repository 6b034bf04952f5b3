"""hand_loop_if: 0 parameters, from hand_loop_if.onnx (opset 17, written by hand).

Inputs:  x (N, 4); n () int64
Outputs: y (N, 4); ys (?, N, 4)
"""

from burnx import Input, Output, Tensor, cond, loop, nn, ops


class Model(nn.Module):
    inputs = (Input("x", "float32", ("N", 4)), Input("n", "int64", ()))
    outputs = (Output("y", "float32", ("N", 4)), Output("ys", "float32", (None, "N", 4)))

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        def body(i, c, a):
            x_2 = a / 2.0 + i.astype("float32")  # (N, 4)
            reduce_mean = ops.reduce_mean(x_2, keepdims=0) < 2.0  # () bool

            def then_branch():
                return x_2 * 2.0  # (N, 4)

            def else_branch():
                return -x_2  # (N, 4)

            reduce_mean = cond(reduce_mean, then_branch, else_branch)  # (N, 4)
            return c, reduce_mean, reduce_mean

        return loop(body, x, trips=n, condition=True)  # (N, 4), (?, N, 4)
