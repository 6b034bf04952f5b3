"""lstm_tagger.ts: 91.7 k parameters, from lstm_tagger.ts.onnx (opset 17, written by pytorch
2.13.0).

Inputs:  tokens (batch, seq) int64
Outputs: logits (batch, seq, 10)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "lstm_tagger_ts.safetensors"


class R(nn.Module):
    def __init__(self):
        self.lstm = nn.LSTM(32, 48, direction="bidirectional")
        self.lstm_2 = nn.LSTM(96, 48, direction="bidirectional")

    def forward(self, tokens: Tensor, x: Tensor) -> Tensor:
        x_2 = ops.constant_of_shape((4, tokens.shape[0], 48))  # (4, batch, 48)
        state = x_2[:2]  # (2, batch, 48)
        x, _, _ = self.lstm(x.transpose(1, 0, 2), None, state, state)  # (seq, 2, batch, 48)
        x = ops.reshape(x.transpose(0, 2, 1, 3), [0, 0, -1])  # (seq, batch, 96)
        state = x_2[2:4]  # (2, batch, 48)
        x, _, _ = self.lstm_2(x, None, state, state)  # (seq, 2, batch, 48)
        x = ops.reshape(x.transpose(0, 2, 1, 3), [0, 0, -1])  # (seq, batch, 96)
        return x.transpose(1, 0, 2)  # (batch, seq, 96)


class Model(nn.Module):
    inputs = (Input("tokens", "int64", ("batch", "seq")),)
    outputs = (Output("logits", "float32", ("batch", "seq", 10)),)

    def __init__(self):
        self.e = nn.Embedding(100, 32)
        self.r = R()
        self.o = nn.Linear(96, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.o(self.r(tokens, self.e(tokens)))  # (batch, seq, 10)
