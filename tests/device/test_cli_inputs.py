"""Inputs on the command line: made up, by value, and by the name of their parameter, on every verb that takes them."""

from __future__ import annotations

import json
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from onnx import parser

from burnx.cli import main
from burnx.weights import save_weights

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
# an LSTM-like need: what is left of the time axis must not be empty
FRAMES = """g (float[n, t] audio, float[2, n, 4] state) => (float[n, m] y, float[2, n, 4] s)
<int64[4] pads = {0, 0, 0, 32}, int64[2] shape = {-1, 32}, int64[1] zero = {0}>
{
    padded = Pad<mode="reflect">(audio, pads)
    rows = Reshape(padded, shape)
    first = Gather<axis=0>(rows, zero)
    tiled = Squeeze(first, zero)
    sum = ReduceMean<keepdims=0>(tiled)
    y = Add(audio, sum)
    s = Identity(state)
}"""
# as often as an input says, as long as another one says
COUNTED = """g (float[N, 4] input, int64 count, bool go) => (float[N, 4] y)
{
    y = Loop(count, go, input) <body = b (int64 i, bool c, float[N, 4] a) => (bool c2, float[N, 4] d) {
        c2 = Identity(c)
        d = Add(a, a)
    }>
}"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(parser.parse_model(HEAD + FRAMES), "frames.onnx")
    onnx.save(parser.parse_model(HEAD + COUNTED), "counted.onnx")
    return tmp_path


def outputs(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[float]]:
    capsys.readouterr()
    assert main(["run", *arguments, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["outputs"]
    return {name: each["values"] for name, each in found.items()}


VERBS = (
    ["run", "frames.onnx"],
    ["verify", "frames.onnx"],
    ["import", "frames.onnx", "--check"],
    ["bench", "frames.onnx", "--rounds", "1"],
    ["run", "frames.py"],
    ["verify", "frames.py"],
    ["export", "frames.py", "-o", "again.onnx", "--check"],
)


@pytest.mark.parametrize("arguments", VERBS, ids=lambda arguments: "-".join(arguments[:2]))
def test_sizes_that_nothing_sets_grow_until_the_model_runs(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if arguments[1].endswith(".py"):
        assert main(["import", "frames.onnx"]) == 0
    capsys.readouterr()
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert "sizes that nothing sets, but batches, are 64 here, since the model fails with 1" in said
    assert "made up input 'audio': float32 1x64" in said
    assert "made up input 'state': float32 2x1x4" in said


@pytest.mark.parametrize("arguments", VERBS[:3], ids=lambda arguments: "-".join(arguments[:2]))
def test_a_size_that_is_set_stays(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--dim", "t=16", "--dim", "n=1"]) == 1
    said = capsys.readouterr().err
    assert "Reshape" in said or "Pad" in said
    assert "1x64" not in said


def test_where_no_size_does_the_first_error_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = "g (float[n, m] x) => (float[a, b] y) <float[3, 7] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}>"
    onnx.save(parser.parse_model(HEAD + text + " { y = MatMul(x, w) }"), "seven.onnx")
    assert main(["run", "seven.onnx"]) == 1
    said = capsys.readouterr().err
    assert said.count("error:") == 1
    assert "(1, 1)" in said
    assert "made up input 'x': float32 1x1" in said


def test_counts_and_conditions_that_are_made_up_let_a_loop_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", "counted.onnx", "--check"]) == 0
    for model in ("counted.onnx", "counted.py"):
        assert main(["verify", model]) == 0
    said = capsys.readouterr().err
    assert "made up input 'count': int64 scalar, 1" in said
    assert "made up input 'go': bool scalar, all True" in said


def test_values_are_given_by_name_or_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "counted.onnx"]) == 0
    given = ("--input", "x=[[1, 2, 3, 4]]", "--input", "count=3", "--input", "go=true")
    for model in ("counted.onnx", "counted.py"):
        assert outputs(capsys, model, *given) == {"y": [8, 16, 24, 32]}
        assert outputs(capsys, model, *given[:-1], "go=false") == {"y": [1, 2, 3, 4]}
        assert main(["verify", model, *given]) == 0
        assert main(["run", model, "--input", "z=1x4"]) == 2
        assert "its inputs are 'input' (or 'x'), 'count', 'go'" in capsys.readouterr().err
    dynamic = ("--dynamic", "x:0=rows", "--check")
    assert main(["export", "counted.py", "-o", "c.onnx", *given, *dynamic]) == 0
    (rows, _) = onnx.load("c.onnx").graph.input[0].type.tensor_type.shape.dim
    assert rows.dim_param == "rows"
    assert main(["export", "counted.py", *given, "--dynamic", "z:0=rows"]) == 2
    assert "'input' (or 'x')" in capsys.readouterr().err


@pytest.mark.parametrize("size", [16, 64, 200])
def test_an_opened_size_is_tried_beyond_what_is_small(
    size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 is too few of what is reflected: that is no old size that was kept."""
    text = 'g (float[1, n] x) => (float[1, m] y) <int64[4] p = {0, 8, 0, 8}> { y = Pad<mode="reflect">(x, p) }'
    onnx.save(parser.parse_model(HEAD + text), "wide.onnx")
    assert main(["import", "wide.onnx"]) == 0
    arguments = ["--input", f"1x{size}", "--dynamic", "x:1=samples", "--check"]
    assert main(["export", "wide.py", "-o", "w.onnx", *arguments]) == 0
    assert "with samples = " in capsys.readouterr().out


WEIGHTED = """from burnx import Input, Tensor, nn
class Model(nn.Module):
    inputs = (Input("x", "float32", (1, 2)),)
    def __init__(self):
        self.w = nn.Parameter(2)
    def forward(self, x: Tensor) -> Tensor:
        return x * self.w
"""


def test_weights_are_given_to_every_verb_that_runs_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("weighted.py").write_text(WEIGHTED)
    for number in (2, 3):
        save_weights(f"w{number}.safetensors", {"w": np.full(2, number, np.float32)})
    x = ("--input", "x=[[1, 2]]")
    for number in (2, 3):
        weights = ("--weights", f"w{number}.safetensors")
        (found,) = outputs(capsys, "weighted.py", *x, *weights).values()
        assert found == [number, 2 * number]
        assert main(["verify", "weighted.py", *x, *weights]) == 0
        assert main(["bench", "weighted.py", *x, *weights, "--rounds", "1"]) == 0
        assert main(["inspect", "weighted.py", *weights]) == 0
    assert main(["run", "frames.onnx", "--weights", "w2.safetensors"]) == 2
    assert "weights are given to a model in Python" in capsys.readouterr().err
    assert main(["run", "weighted.py", "--weights", "none.safetensors"]) == 1


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("distilbert_base.ts.dynint8", ("--dim", "seq=8")),
        ("distilbert_base.ts.dynint8", ("--dim", "batch=2", "--dim", "seq=32")),
        ("hand_loop_if", ()),
        ("silero_vad", ()),
        ("silero_vad_16k_op15", ()),
        ("silero_vad_op18_ifless", ()),
    ],
)
def test_a_newcomer_checks_a_real_model(name: str, options: tuple[str, ...]) -> None:
    entry = models.entries()[name]
    try:
        path = str(models.path(entry))
    except models.Unavailable as error:
        pytest.skip(str(error))
    assert main(["import", path, "-o", "model.py", "--check", *options]) == 0
    assert main(["verify", path, *options]) == 0
    assert main(["verify", "model.py", *options]) == 0
