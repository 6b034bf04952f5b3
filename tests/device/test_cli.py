"""The burnx command: exit statuses, what goes where, and each verb on a small model."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from burnx.cli import main
from burnx.conformance import engines
from burnx.conformance.divergence import find_divergence, sorted_steps
from burnx.primitives import PRIMITIVES

MODEL = """
<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 3] x, float[batch, 4] bias) => (float[batch, 4] y)
<float[3, 4] weight = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
{
    product = MatMul(x, weight)
    sum = Add(product, bias)
    y = Relu(sum)
}
"""

# bytes of a scale of 0.01, and of those bytes of a scale of 10: at most 2.55, so that all become 0
TWICE_QUANTISED = """
<ir_version: 8, opset_import: ["": 17]>
g (float[4] x) => (float[4] y)
<float fine = {0.01}, float coarse = {10}, uint8 zero = {0}>
{
    a = QuantizeLinear(x, fine, zero)
    b = DequantizeLinear(a, fine, zero)
    c = QuantizeLinear(b, coarse, zero)
    y = DequantizeLinear(c, coarse, zero)
}
"""

FAILING_FORWARD = """from burnx import Input, nn
class Model(nn.Module):
    inputs = (Input("x", "float32", (1,)),)
    def forward(self, x): return {}["k"]
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    onnx.save(parser.parse_model(MODEL), "small.onnx")
    return "small.onnx"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict:
    """What a verb writes to stdout with ``--json -``, which must be one JSON document."""
    assert main([*arguments, "--json", "-"]) == status
    return json.loads(capsys.readouterr().out)


def test_help_loads_no_room() -> None:
    code = (
        "import sys; from burnx.cli import main; main(['--help']);"
        "print([m for m in ('numpy', 'onnx', 'rich', 'burnx.api') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "conformance" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--version"], 0),
        (["frobnicate"], 2),
        (["run"], 2),
        (["run", "small.onnx", "--input", "1y3"], 2),
        (["run", "small.onnx", "--input", "z=1x3"], 2),
        (["run", "small.onnx", "--dim", "batch"], 2),
        (["run", "small.onnx", "-o", "out.csv"], 2),
        (["run", "small.onnx", "--input", "x=2x5"], 1),
        (["run", "small.onnx", "--input", "x=2x3:float64"], 1),
        (["run", "noise.onnx"], 1),
        (["run", "small.onnx", "--input", "x=@none.npy"], 2),
        (["run", "small.onnx", "--input", "1x3:float99"], 2),
        (["run", "small.onnx", "--dim", "other=3"], 2),
        (["run", "small.onnx", "--device", "tpu"], 1),
        (["run", "small.onnx", "--fallback", "tpu"], 1),
        (["run", "small.onnx", "--threads", "0"], 2),
        (["run", "small.onnx", "--no-lift", "nothing"], 2),
        (["run", "small.onnx", "--json", "nowhere/x.json"], 2),
        (["run", "small.onnx", "-o", "nowhere/out.npz"], 2),
        (["import", "noise.onnx"], 1),
        (["import", "missing.pt"], 1),
        (["import", "."], 1),
        (["import", "small.onnx", "-o", "nowhere/small.py"], 2),
        (["import", "small.onnx", "-o", "small.txt"], 2),
        (["import", "small.onnx", "--name", "class"], 2),
        (["verify", "noise.onnx"], 1),
        (["inspect", "noise.onnx"], 1),
        (["bench", "noise.onnx"], 1),
        (["bench", "small.onnx", "--plot", "plot.png"], 2),
        (["conformance", "--filter", "("], 2),
        (["conformance", "--device", "tpu", "--filter", "test_relu$"], 1),
        (["demo", "--device", "tpu"], 1),
        (["export", "missing.py:Model", "--input", "1x3"], 2),
    ],
)
def test_exit_status(
    model: str, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int
) -> None:
    Path("noise.onnx").write_bytes(b"no model")
    assert main(arguments) == status
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert "internal error" not in errors
    assert (status == 0) or errors.strip()
    assert sorted(entry.name for entry in Path().iterdir()) == ["noise.onnx", "small.onnx"]


def test_run_writes_what_numpy_computes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
    np.savez("in.npz", x=x)
    assert main(["run", model, "--input", "@in.npz", "-o", "out.npz"]) == 0
    assert "made up input 'bias': float32 2x4" in capsys.readouterr().err
    weight = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    bias = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    with np.load("out.npz") as outputs:
        assert np.allclose(outputs["y"], np.maximum(x @ weight + bias, 0), rtol=1e-5)


def test_json_on_stdout_is_one_document(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "run", model, "--dim", "batch=2")["outputs"]["y"]["shape"] == [2, 4]
    assert "error" in answer(capsys, "run", "noise.onnx", status=1)
    facts = answer(capsys, "inspect", model, "--dim", "batch=5")
    assert facts["operators"] == {"MatMul": 1, "Add": 1, "Relu": 1}
    assert (facts["parameters"], facts["flops"]) == (12, 2 * 5 * 3 * 4)
    assert any(row["device"] == "cpu" for row in answer(capsys, "devices")["devices"])


def test_verify_agrees_with_another_engine(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = answer(capsys, "verify", model, "--device", "cpu", "--device", "reference")
    assert verdict["agrees"] is True
    assert list(verdict["devices"]) == ["cpu", "reference"]


def test_verify_names_the_first_node_that_parts(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = PRIMITIVES["contract"]

    def evaluate(*arrays: np.ndarray, **attributes: Any) -> Any:
        return right.evaluate(*arrays, **attributes) * 2

    monkeypatch.setitem(PRIMITIVES, "contract", replace(right, evaluate=evaluate))
    verdict = answer(capsys, "verify", model, "--device", "reference", status=1)
    found = verdict["devices"]["reference"]
    assert verdict["agrees"] is False
    assert list(found["differences"]) == ["y"]
    assert "MatMul" in found["diverging"]
    assert main(["import", model]) == 0
    capsys.readouterr()
    again = answer(capsys, "verify", "small.py:Model", "--device", "reference", status=1)
    assert (
        "Gemm" in again["devices"]["reference"]["diverging"]
    )  # what MatMul and Add were lifted to


def test_verify_does_not_blame_burnx_for_another_optimiser(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime's optimiser makes one pair of the two, of the wrong range; its nodes give what burnx gives."""
    onnx.save(parser.parse_model(TWICE_QUANTISED), "q.onnx")
    np.savez("in.npz", x=np.float32([0.014, 1.5, 2.5, 70]))
    verdict = answer(capsys, "verify", "q.onnx", "--input", "@in.npz")
    (found,) = verdict["devices"].values()
    assert verdict["agrees"] is True
    assert found["notice"].startswith("agrees with onnxruntime without its optimiser")
    assert "its optimised levels differ: output 'y': 4 of 4 elements" in found["notice"]
    assert main(["verify", "q.onnx", "--input", "@in.npz"]) == 0
    assert "agrees with onnxruntime without its optimiser" in capsys.readouterr().err
    right = PRIMITIVES["map"]

    def evaluate(*arrays: np.ndarray, **attributes: Any) -> Any:
        return right.evaluate(*arrays, **attributes) + arrays[0].dtype.type(1)

    monkeypatch.setitem(PRIMITIVES, "map", replace(right, evaluate=evaluate))
    arguments = ("verify", "q.onnx", "--input", "@in.npz", "--device", "reference")
    wrong = answer(capsys, *arguments, status=1)["devices"]["reference"]
    assert (wrong["notice"], wrong["agrees"]) == ("", False)
    assert "Linear" in wrong["diverging"]


def test_verify_asks_the_reference_evaluator_at_last(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime adds some products of bytes in 16 bits, where the processor has nothing better."""
    right = engines.open_onnxruntime

    def saturating(path: str, threads: int = 1, optimised: bool = True) -> Any:
        run = right(path, threads, optimised)
        return lambda inputs: {name: array + 1 for name, array in run(inputs).items()}

    monkeypatch.setattr(engines, "open_onnxruntime", saturating)
    (found,) = answer(capsys, "verify", model)["devices"].values()
    assert found["notice"].startswith("agrees with the reference evaluator of onnx; onnxruntime")
    assert "with its optimiser and without it: output 'y': " in found["notice"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def (:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("class Model: pass", "no module class"),
        ("from burnx import nn\nclass Model(nn.Module): pass", "inputs"),
        (
            FAILING_FORWARD,
            "line 4",
        ),
    ],
)
def test_source_that_fails_is_one_message(
    model: str, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    Path("bad.py").write_text(text)
    for verb in ("run", "verify", "inspect"):
        assert main([verb, "bad.py"]) in (1, 2)
        said = capsys.readouterr().err
        assert says in said
        assert said.count("error:") == 1
        assert "internal" not in said


def test_what_steers_a_terminal_is_shown_not_sent(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = onnx.load(model)
    proto.graph.node[2].op_type = "Re\x1b[31mlu"
    onnx.save(proto, "red.onnx")
    assert main(["run", "red.onnx"]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "Re\\x1b[31mlu" in said


def test_options_of_import_and_export(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["import", model, "--flat", "--name", "Small", "--weights", "w.safetensors"]
    report = answer(capsys, *arguments, "--no-lift", "linear", "-o", "flat.py", "--check")
    assert report["report"]["weights"] == "w.safetensors"
    assert "linear" not in report["report"]["changes"]
    assert report["check"]["agrees_with"][0] == "a direct run"
    arguments = ["export", "flat.py:Small", "--opset", "21", "--dynamic", "x:0=rows", "--check"]
    assert answer(capsys, *arguments, "--dynamic", "bias:0=rows")["file"] == "flat.onnx"
    written = onnx.load("flat.onnx")
    assert written.opset_import[0].version == 21
    assert written.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"


FIXED = """from burnx import Input, Output, Tensor, nn


class Model(nn.Module):
    inputs = (Input("x", "float32", (1, 4)),)
    outputs = (Output("y", "float32", (1, 2, 2)),)

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape({first}, 2, 2)
"""


@pytest.mark.parametrize(("first", "holds"), [("1", False), ("-1", True)])
def test_a_size_that_is_opened_is_tried(
    first: str,
    holds: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fixed.py").write_text(FIXED.format(first=first))
    status = main(["export", "fixed.py", "--dynamic", "x:0=rows", "--check"])
    said = capsys.readouterr()
    assert status == (0 if holds else 1)
    assert ("with rows = 3 as well" in said.out + said.err) is holds
    assert ("does not run with rows = 3" in said.err) is not holds


def test_code_that_this_processor_has_no_words_for_is_refused(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = pytest.importorskip("burnx.runtime.devices.cpu.target")
    plain = replace(target._find_host(), vector_bytes=16, int8="")
    monkeypatch.setattr(target, "_find_host", lambda: plain)
    target.find_target.cache_clear()
    monkeypatch.setenv("BURNX_CPU", "haswell")
    try:
        assert main(["run", model, "--device", "cpu"]) == 2
    finally:
        target.find_target.cache_clear()
    assert "BURNX_CPU=haswell: code for it does not run on this" in capsys.readouterr().err


def test_conformance_reports(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    html, markdown = tmp_path / "report.html", tmp_path / "report.md"
    arguments = ["conformance", "--filter", "^test_relu$", "--jobs", "1", "--html", str(html)]
    result = answer(capsys, *arguments, "--markdown", str(markdown))
    statuses = result["tests"]["test_relu"]
    assert {route: statuses[route] for route in ("run", "source", "roundtrip")} == dict.fromkeys(
        ("run", "source", "roundtrip"), "pass"
    )
    assert "Relu" in html.read_text()
    assert "Relu" in markdown.read_text()


def test_import_export_and_back(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", model, "--check"]) == 0
    assert main(["export", "small.py:Model", "-o", "again.onnx", "--check"]) == 0
    assert answer(capsys_cleared(capsys), "verify", "small.py:Model")["agrees"] is True
    onnx.checker.check_model("again.onnx", full_check=True)


def test_import_is_checked_on_what_is_given(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "x.npy"
    np.save(rows, np.ones((5, 3), np.float32))
    arguments = ["import", model, "--dim", "batch=5", "--input", f"x=@{rows}", "--seed", "3"]
    assert "add --check" in refused(capsys, *arguments)
    assert answer(capsys, *arguments, "--check")["check"]["agrees_with"][0] == "a direct run"
    assert "batch" in refused(capsys, *arguments, "--dim", "batch=4", "--check")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) != 0
    return capsys.readouterr().err


COUNTED = """
<ir_version: 8, opset_import: ["": 17]>
g (float[4] x, bool c) => (float[4] y) {
    two = Constant<value_float=2.0>()
    a = Mul(x, two)
    y = If(c) <
        then_branch = t () => (float[4] u) { e = Exp(a)\n s = Relu(e)\n u = Neg(s) },
        else_branch = f () => (float[4] v) { v = Sqrt(a) }
    >
}
"""


def test_every_verb_counts_the_same_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parser.parse_model(COUNTED), "counted.onnx")
    report = answer(capsys, "import", "counted.onnx")["report"]
    facts = answer(capsys, "inspect", "counted.onnx")
    assert report["nodes"] == facts["nodes"] == 7
    assert report["nodes_written"] == sum(facts["operators"].values()) == 6  # no Constant
    assert main(["inspect", "counted.onnx"]) == 0
    assert "7 in the file, 6 as read" in capsys.readouterr().out
    assert main(["import", "counted.onnx"]) == 0
    assert "7 nodes in the file, 6 as written" in capsys.readouterr().out
    assert main(["inspect", "counted.py"]) == 0
    assert "nodes        6 as read" in capsys.readouterr().out


def capsys_cleared(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    capsys.readouterr()
    return capsys


@pytest.mark.parametrize("verb", ["run", "verify", "inspect"])
def test_options_of_running_change_no_result(
    model: str, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    plain = answer(capsys, verb, model)
    for options in (["--no-fuse", "--threads", "2"], ["--tune", "--fallback", "reference"]):
        assert answer(capsys, verb, model, *options) == plain


def test_a_profile_tells_kernels_apart(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", model, "--rounds", "1", "--profile", "--threads", "2", "--device", "cpu"]
    fused = answer(capsys, *arguments)["profile"]
    rows = answer(capsys, *arguments, "--no-fuse")["profile"]
    assert [row["instruction"] for row in fused] == ['contract node "product" (MatMul)']
    assert {row["instruction"] for row in rows} == {
        'contract node "product" (MatMul)',
        'map node "sum" (Add)',
        'map node "y" (Relu)',
    }
    assert all(row["elapsed_ns"] >= 0 for row in rows)


def test_a_wrong_number_of_threads_in_the_environment(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNX_THREADS", "many")
    for verb in ("run", "bench"):
        assert main([verb, model, "--device", "cpu"]) == 2
        assert "BURNX_THREADS" in capsys.readouterr().err


def test_bench_times_both_engines(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    arguments = ["bench", model, "--against", "onnxruntime", "--rounds", "1", "--plot", "p.svg"]
    figures = answer(capsys, *arguments, "--threads", "1")
    keys = {"median_ms", "min_ms", "load_ms", "first_ms", "first_cold_ms", "peak_bytes"}
    assert keys <= set(figures["burnx"])
    assert keys <= set(figures["onnxruntime"])
    ratio = figures["onnxruntime"]["median_ms"] / figures["burnx"]["median_ms"]
    assert figures["ratio"] == pytest.approx(ratio)
    assert Path("p.svg").read_text().startswith("<svg")


def test_demo_goes_there_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    result = answer(capsys, "demo")
    assert result["right"] > 0.9 * result["samples"]
    assert result["verified_with"]


def test_the_first_diverging_node_is_the_one_whose_inputs_agree() -> None:
    graph = parser.parse_model(MODEL).graph
    nodes = [graph.node[2], graph.node[0], graph.node[1]]
    del graph.node[:]
    graph.node.extend(nodes)
    steps = list(sorted_steps(graph))
    assert [step.operator for step in steps] == ["MatMul", "Add", "Relu"]
    right = {name: np.ones((1, 4), np.float32) for name in ("product", "sum", "y")}
    wrong = {**right, "sum": right["sum"] * 2, "y": right["y"] * 2}
    found = find_divergence(right, wrong, steps)
    assert found is not None
    assert (found.step.operator, found.output) == ("Add", "sum")
    assert find_divergence(right, right, steps) is None


PRINTING = """from burnx import Input, nn
class Model(nn.Module):
    inputs = (Input("x", "float32", (1,)),)
    def forward(self, x):
        print("inside", x.shape)
        return x + 1
"""


def test_what_a_model_prints_stays_out_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("printing.py").write_text(PRINTING)
    assert main(["run", "printing.py", "--json", "-"]) == 0
    written = capsys.readouterr()
    assert json.loads(written.out)["outputs"]["output"]["shape"] == [1]
    assert "inside (1,)" in written.err
    assert main(["run", "printing.py"]) == 0
    assert "inside (1,)" in capsys.readouterr().out


def test_failure_on_made_up_inputs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n, m] x, float[n] y) => (float[n, k] z) { z = MatMul(x, x) }"""
    onnx.save(parser.parse_model(text), "square.onnx")
    assert main(["run", "square.onnx"]) == 0
    assert "--dim NAME=N" not in capsys.readouterr().err
    assert main(["run", "square.onnx", "--dim", "n=2", "--dim", "m=1"]) == 1
    assert "inputs were made up: --dim NAME=N sets a size" in capsys.readouterr().err


def test_verify_names_the_device_it_ran_on(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNX_DEVICE", "reference")
    assert list(answer(capsys, "verify", model)["devices"]) == ["reference"]
