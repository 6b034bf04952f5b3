"""silero_vad_16k_op15: 309.6 k parameters, from silero_vad_16k_op15.onnx (opset 15, written by
pytorch 2.3.1).

Inputs:  input (batch, sequence); state (2, batch, 128); sr () int64
Outputs: output (batch, 1); stateN (AddstateN_dim_0, batch, AddstateN_dim_2)
"""

from burnx import Input, Output, Tensor, cond, nn, ops

WEIGHTS = "silero_vad_16k_op15.safetensors"


class EncoderBlock(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1):
        self.reparam_conv = nn.Conv1d(in_channels, out_channels, 3, stride=stride, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(self.reparam_conv(x))


class Decoder(nn.Module):
    def __init__(self):
        self.conv = nn.Conv1d(128, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return ops.sigmoid(self.conv(x))  # (...)


class Decoder_2(nn.Module):
    def __init__(self):
        self.rnn = nn.LSTM(128, 128)
        self.decoder = Decoder()

    def forward(self, x: Tensor, x_2: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x = ops.dims((ops.max_dim((x.shape[1] + 64) // 128 - 1, 0) - 1) // 4 + 1) == 1  # (1) bool

        def then_branch():
            return ops.squeeze(x_2, [-1])  # (batch, 128)

        def else_branch():
            return x_2

        x = cond(x, then_branch, else_branch)  # (...)
        picked = ops.gather(state, 0)  # (batch, 128)
        x_2 = ops.gather(state, 1)  # (batch, 128)
        inverse = ~(ops.size(ops.shape(x)) == 2)  # (...) bool

        def then_branch_2():
            return ops.unsqueeze(x, [0])  # (?, ?, ?)

        def else_branch_2():
            return ops.identity(x)  # (?, ?)

        result = cond(inverse, then_branch_2, else_branch_2)  # (...)

        def then_branch_3():
            return ops.unsqueeze(picked, [0]), ops.unsqueeze(x_2, [0])

        def else_branch_3():
            return picked, x_2

        result_2, result_3 = cond(inverse, then_branch_3, else_branch_3)  # (...)
        result = ops.unsqueeze(result, [0])  # (...)
        _, x, rnn = self.rnn(
            result, None, ops.unsqueeze(result_2, [0]), ops.unsqueeze(result_3, [0])
        )  # (...)
        x = ops.squeeze(x, [0])  # (...)
        rnn = ops.squeeze(rnn, [0])  # (...)

        def then_branch_4():
            is_equal = ops.gather(ops.shape(x), [0]) == [1]  # (...) bool

            def then_branch_5():
                return ops.squeeze(x, [0])  # (...)

            def else_branch_4():
                return x

            result = cond(is_equal, then_branch_5, else_branch_4)  # (...)
            is_equal = ops.gather(ops.shape(rnn), [0]) == [1]  # (...) bool

            def then_branch_6():
                return ops.squeeze(rnn, [0])  # (...)

            def else_branch_5():
                return rnn

            result_2 = cond(is_equal, then_branch_6, else_branch_5)  # (...)
            return result, result_2

        def else_branch_4():
            return x, rnn

        result, result_2 = cond(inverse, then_branch_4, else_branch_4)  # (...)
        x = ops.unsqueeze(result, [-1])  # (...)
        joined = ops.concat(ops.unsqueeze(result, [0]), ops.unsqueeze(result_2, [0]), axis=0)
        return joined, self.decoder(ops.relu(x))


class Model_2(nn.Module):
    def __init__(self):
        self.stft = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.encoder = nn.Sequential(
            EncoderBlock(129, 128),
            EncoderBlock(128, 64, stride=2),
            EncoderBlock(64, 64, stride=2),
            EncoderBlock(64, 128),
        )
        self.decoder = Decoder_2()

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        stft = self.stft(ops.unsqueeze(ops.pad(x, [0, 0, 0, 64], mode="reflect"), [1]))
        power = stft[:, :129] ** 2.0 + stft[:, 129:] ** 2.0
        x, decoder = self.decoder(x, self.encoder(ops.sqrt(power)), state)  # (...)
        is_equal = ops.gather(ops.shape(decoder), [1]) == [1]  # (...) bool

        def then_branch():
            return ops.squeeze(decoder, [1])  # (...)

        def else_branch():
            return decoder

        result = cond(is_equal, then_branch, else_branch)  # (...)
        output = ops.unsqueeze(ops.reduce_mean(result, [1], keepdims=0), [1])  # (batch, 1)
        return x, output


class Model(nn.Module):
    inputs = (
        Input("input", "float32", ("batch", "sequence"), parameter="x"),
        Input("state", "float32", (2, "batch", 128)),
        Input("sr", "int64", ()),
    )
    outputs = (
        Output("output", "float32", ("batch", 1)),
        Output("stateN", "float32", ("AddstateN_dim_0", "batch", "AddstateN_dim_2")),
    )

    def __init__(self):
        self.model = Model_2()

    def forward(self, x: Tensor, state: Tensor, sr: Tensor) -> tuple[Tensor, Tensor]:
        x, output = self.model(x, state)  # (...), (batch, 1)
        stateN = x + (sr * 0).astype("float32")  # (AddstateN_dim_0, batch, AddstateN_dim_2)
        return output, stateN
