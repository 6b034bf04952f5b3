"""silero_vad_16k_op15: 309.6 k parameters, from silero_vad_16k_op15.onnx (opset 15, written by
pytorch 2.3.1).

Inputs:  input (batch, sequence); state (2, batch, 128); sr () int64
Outputs: output (batch, 1); stateN (AddstateN_dim_0, batch, AddstateN_dim_2)
"""

from burnx import Input, Output, Tensor, nn, ops, script

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

    @script
    def forward(self, x: Tensor, x_2: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if ops.dims((ops.max_dim((x.shape[1] + 64) // 128 - 1, 0) - 1) // 4 + 1) == 1:
            x = x_2.squeeze(-1)  # (batch, 128)
        else:
            x = x_2
        picked = state[0]  # (batch, 128)
        x_2 = state[1]  # (batch, 128)
        inverse = ~(ops.size(ops.shape(x)) == 2)  # (...) bool
        if inverse:
            x = ops.unsqueeze(x, [0])  # (?, ?, ?)
        else:
            x = ops.identity(x)  # (?, ?)
        if inverse:
            x_3 = x_2[None]  # (1, batch, 128)
            x_2 = picked[None]  # (1, batch, 128)
        else:
            x_3 = x_2
            x_2 = picked
        x = ops.unsqueeze(x, [0])  # (...)
        _, x, rnn = self.rnn(x, None, ops.unsqueeze(x_2, [0]), ops.unsqueeze(x_3, [0]))  # (...)
        x = x.squeeze(0)  # (...)
        rnn = rnn.squeeze(0)  # (...)
        if inverse:
            is_equal = ops.gather(ops.shape(x), [0]) == [1]  # (...) bool
            if is_equal:
                x = x.squeeze(0)  # (...)
            is_equal = ops.gather(ops.shape(rnn), [0]) == [1]  # (...) bool
            if is_equal:
                rnn = rnn.squeeze(0)  # (...)
        x_2 = ops.unsqueeze(x, [-1])  # (...)
        x = ops.concat(ops.unsqueeze(x, [0]), ops.unsqueeze(rnn, [0]), axis=0)  # (...)
        return x, self.decoder(ops.relu(x_2))


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

    @script
    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        stft = self.stft(ops.pad(x, [0, 0, 0, 64], mode="reflect")[:, None])
        power = stft[:, :129] ** 2.0 + stft[:, 129:] ** 2.0
        x, decoder = self.decoder(x, self.encoder(ops.sqrt(power)), state)  # (...)
        is_equal = ops.gather(ops.shape(decoder), [1]) == [1]  # (...) bool
        if is_equal:
            decoder = decoder.squeeze(1)  # (...)
        output = ops.unsqueeze(decoder.mean(1), [1])  # (batch, 1)
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
