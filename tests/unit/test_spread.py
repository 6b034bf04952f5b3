"""How far roundings move a model, and what that excuses: another engine's last bits, and nothing that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import burnx
from burnx.agreement.spread import Spread, SpreadOf, excuse, measure_spread
from burnx.agreement.tolerance import close
from burnx.cli import main
from burnx.conformance import engines, verify
from burnx.primitives import PRIMITIVES
from burnx.runtime.devices.reference.stirred import Stirred, stir

WIDTH = 96
HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
SMOOTH = f"""g (float[n, {WIDTH}] x) => (float[n, {WIDTH}] y)
{{ a = MatMul(x, w)
 b = Tanh(a)
 y = MatMul(b, w) }}"""
STEPS = f"""g (float[n, {WIDTH}] x) => (float[n, {WIDTH}] y)
<float three = {{3}}, float scale = {{0.1}}, uint8 zero = {{100}}> {{
 a = Div(x, three)
 b = QuantizeLinear(a, scale, zero)
 c = DequantizeLinear(b, scale, zero)
 y = MatMul(c, w) }}"""
PLACES = """g (float[n, 3] x) => (int64[n] y) <float three = {3}> {
 a = Div(x, three)
 y = ArgMax<axis=1, keepdims=0>(a) }"""
BYTES = f"""g (float[n, {WIDTH}] x) => (uint8[n, {WIDTH}] y)
<float three = {{3}}, float scale = {{0.1}}, uint8 zero = {{100}}> {{
 a = Div(x, three)
 y = QuantizeLinear(a, scale, zero) }}"""
CHANCE = STEPS.replace("y = MatMul(c, w)", "d = RandomNormalLike(c)\n y = Add(c, d)")
TURNS = f"""g (float[n, {WIDTH}] x, int64 turns) => (float[n, {WIDTH}] y)
<float three = {{3}}, float scale = {{0.1}}, uint8 zero = {{100}}, bool go = {{1}}> {{
 y = Loop(turns, go, x) <body = b (int64 i, bool c, float[n, {WIDTH}] v) => (bool c2, float[n, {WIDTH}] u) {{
   c2 = Identity(c)
   a = Div(v, three)
   q = QuantizeLinear(a, scale, zero)
   d = DequantizeLinear(q, scale, zero)
   u = MatMul(d, w) }}> }}"""


def halves() -> np.ndarray[Any, Any]:
    """A third of each is half-way between two steps of 0.1, as far as float32 tells."""
    places = np.random.default_rng(1).integers(-60, 60, (4, WIDTH))
    return ((places + 0.5) * 0.3).astype(np.float32)


def written(folder: Path, text: str) -> str:
    model = parser.parse_model(HEAD + text)
    weight = np.random.default_rng(2).standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)
    model.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), "w"))
    path = folder / "model.onnx"
    onnx.save(model, path)
    return str(path)


def inputs_of(text: str) -> dict[str, Any]:
    return {"x": halves(), **({"turns": np.array(3)} if text is TURNS else {})}


def another_engine(path: str, inputs: Mapping[str, Any], seed: int = 99) -> dict[str, Any]:
    """One that rounds otherwise, and is right."""
    model = burnx.load(path, device="reference")
    program, values = model.program(inputs)
    (y,) = Stirred(random=np.random.default_rng(seed)).run(program, values)
    return {"y": y}


WRONG: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "a factor": lambda y: y * np.float32(1.2),
    "an offset": lambda y: y + np.float32(0.2),
    "a sign": lambda y: -y,
    "columns changed places": lambda y: y[:, ::-1].copy(),
    "a row is another one": lambda y: np.concatenate([y[1:2], y[1:]]),
    "one element": lambda y: np.where(np.arange(y.size).reshape(y.shape) == 7, y + 2, y),
    "no number": lambda y: np.where(np.arange(y.size).reshape(y.shape) == 7, np.float32("nan"), y),
    "not finite": lambda y: np.where(np.arange(y.size).reshape(y.shape) == 7, np.float32("inf"), y),
    "another dtype": lambda y: y.astype(np.float64),
    "another shape": lambda y: y[:2],
}


@pytest.mark.parametrize("text", [STEPS, TURNS], ids=["steps", "turns"])
def test_roundings_are_excused_where_a_model_makes_steps_of_them(tmp_path: Path, text: str) -> None:
    path, inputs = written(tmp_path, text), inputs_of(text)
    expected = burnx.load(path, device="reference").run(inputs)
    measured = SpreadOf(path, inputs)
    for seed in range(90, 100):
        found = another_engine(path, inputs, seed)
        assert close(expected["y"], found["y"]) is not None
        told = excuse(["y"], expected, found, measured)
        assert told.startswith("output 'y' differs by ")
        assert f"the reference's own moves by {measured.get().width('y')}" in told


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_not_excused(tmp_path: Path, wrong: str) -> None:
    path, inputs = written(tmp_path, STEPS), inputs_of(STEPS)
    expected = burnx.load(path, device="reference").run(inputs)
    measured = SpreadOf(path, inputs)
    for found in (expected, another_engine(path, inputs)):
        assert excuse(["y"], expected, {"y": WRONG[wrong](found["y"])}, measured) == ""
    assert excuse(["y"], expected, {}, measured) == ""


def test_a_model_without_steps_excuses_nothing(tmp_path: Path) -> None:
    path, inputs = written(tmp_path, SMOOTH), inputs_of(SMOOTH)
    expected = burnx.load(path, device="reference").run(inputs)
    spread = measure_spread(path, inputs)
    limit = 1e-4 * np.abs(expected["y"]).max()
    assert 0 < spread.width("y").worst < limit / 10
    nearly = {"y": expected["y"] + np.float32(limit)}
    assert excuse(["y"], expected, nearly, SpreadOf(path, inputs)) == ""


def test_bytes_may_be_a_step_apart(tmp_path: Path) -> None:
    path, inputs = written(tmp_path, BYTES), inputs_of(BYTES)
    expected = burnx.load(path, device="reference").run(inputs)
    measured = SpreadOf(path, inputs)
    flipped = another_engine(path, inputs)["y"]
    assert (flipped != expected["y"]).any()
    assert excuse(["y"], expected, {"y": flipped}, measured)
    flipped[0, 0] += np.uint8(2)
    assert excuse(["y"], expected, {"y": flipped}, measured) == ""


def test_a_place_is_one_of_the_answers(tmp_path: Path) -> None:
    """The greatest of two that are the same but for their roundings; a third is never the greatest."""
    path, inputs = written(tmp_path, PLACES), {"x": np.full((40, 3), 0.1, np.float32)}
    inputs["x"][:, 1] = 0
    expected = burnx.load(path, device="reference").run(inputs)
    measured = SpreadOf(path, inputs)
    seen = np.array([answer["y"] for answer in measured.get().answers])
    assert set(seen.ravel().tolist()) == {0, 2}
    other = seen[1]
    assert excuse(["y"], expected, {"y": other}, measured)
    for never in (1, 3, -1):
        assert excuse(["y"], expected, {"y": np.where(other == 2, never, other)}, measured) == ""


def test_chance_excuses_nothing(tmp_path: Path) -> None:
    path, inputs = written(tmp_path, CHANCE), inputs_of(CHANCE)
    assert measure_spread(path, inputs) == Spread()
    y = {"y": inputs["x"]}
    assert excuse(["y"], y, {"y": y["y"] + 1}, SpreadOf(path, inputs)) == ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_half_of_what_is_no_whole_number_moves_to_a_neighbour(dtype: str) -> None:
    random = np.random.default_rng(0)
    array = burnx.dtype.as_array(random.uniform(1.1, 1.9, 4000)).astype(
        burnx.dtype.parse_dtype(dtype)
    )
    moved = stir(array, random)
    assert moved.dtype == array.dtype
    assert 0.3 < np.mean(moved != array) < 0.8
    apart = np.abs(moved.astype(complex) - array.astype(complex)).max()
    assert 0 < apart < 2.0 ** -{"float16": 9, "bfloat16": 6, "float64": 51}.get(dtype, 22)
    for whole in ([0, 1, -3], [np.inf, -np.inf, np.nan]):
        kept = np.array(whole, np.float32)
        assert np.array_equal(stir(kept, random), kept, equal_nan=True)
    assert stir(np.arange(3), random).tolist() == [0, 1, 2]


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[str]]:
    """A model and its inputs in the current folder, and an onnxruntime that gives what is asked for."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, STEPS)
    np.save("x.npy", halves())

    def answer(change: Callable[[Any], Any]) -> list[str]:
        def opened(path: str, threads: int = 1, optimised: bool = True) -> Any:
            return lambda inputs: {"y": change(another_engine(path, inputs)["y"])}

        for room in (engines, verify):
            monkeypatch.setattr(room, "open_onnxruntime", opened)
        monkeypatch.setattr(engines, "_PLAIN", {})
        return ["--input", "x=@x.npy"]

    return answer


VERBS = (
    ["verify", "model.onnx"],
    ["verify", "model.onnx", "--device", "cpu", "--device", "reference"],
    ["import", "model.onnx", "--check"],
    ["verify", "model.py"],
    ["export", "model.py", "-o", "again.onnx", "--check"],
)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: "-".join(verb))
@pytest.mark.parametrize("fault", ["", *WRONG])
def test_verbs_tell_rounding_from_what_is_wrong(
    beside: Callable[[Any], list[str]],
    verb: list[str],
    fault: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if verb[1].endswith(".py"):
        assert main(["import", "model.onnx"]) == 0
    given = beside(WRONG.get(fault, lambda y: y))
    capsys.readouterr()
    status = main([*verb, *given, "--json", "-"])
    said = capsys.readouterr()
    assert status == (1 if fault else 0)
    assert ("as nearly as rounding lets it" in said.err) == (not fault)
    assert ("the reference's own moves by" in json.dumps(json.loads(said.out))) or fault in (
        "another dtype",
        "another shape",
    )


def test_limits_that_are_asked_for_hold(
    beside: Callable[[Any], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    given = beside(lambda y: y)
    assert main(["verify", "model.onnx", *given]) == 0
    assert main(["verify", "model.onnx", *given, "--rtol", "1e-3"]) == 1
    assert "reference's own" not in capsys.readouterr().err.splitlines()[-1]


def test_a_wrong_kernel_is_still_found(
    beside: Callable[[Any], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = beside(lambda y: y)
    right = PRIMITIVES["contract"]
    path, inputs = "model.onnx", {"x": halves()}
    kept = another_engine(path, inputs)["y"]
    monkeypatch.setattr(engines, "open_onnxruntime", lambda *_, **__: lambda inputs: {"y": kept})

    def evaluate(*arrays: Any, **attributes: Any) -> Any:
        return right.evaluate(*arrays, **attributes) * np.float32(1.2)

    monkeypatch.setitem(PRIMITIVES, "contract", replace(right, evaluate=evaluate))
    assert main(["verify", path, *given, "--device", "reference"]) == 1
    assert "differs from" in capsys.readouterr().err
