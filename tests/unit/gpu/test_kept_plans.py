"""Plans of devices with a driver: a warm start gives the same bits and builds nothing; what is damaged is not used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from native_code import run_python, start_python
from onnx import TensorProto, helper, numpy_helper, parser

import burnx
import burnx.lowering
from burnx import nn, ops
from burnx.errors import ShapeError
from burnx.runtime.devices.gpu import building
from burnx.runtime.kept import identity

pytest.importorskip("pyopencl")
Array = np.ndarray[Any, Any]
DEVICE = "opencl:0"
WIDTH = 96  # such that weights are large enough to be mapped
X = np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that keeps plans, of files that were written just now, too."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("BURNX_CACHE", str(folder))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    monkeypatch.setattr(identity, "SETTLED_NS", 0)
    return folder


@pytest.fixture(autouse=True)
def functions() -> Any:
    """No function that another test has built is found in the process."""
    from burnx.runtime.devices.opencl import find_driver

    found = find_driver(DEVICE).functions
    kept = dict(found)
    found.clear()
    yield found
    found.clear()
    found.update(kept)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done anew: graphs lowered, segments built."""
    done: list[str] = []

    def count(module: Any, name: str) -> None:
        kept = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: done.append(name) or kept(*given))

    count(burnx.lowering, "lower")
    count(building, "build_native")
    return done


def plans(folder: Path) -> list[Path]:
    return sorted(folder.glob("plans/*.plan"))


def make_model(seed: int = 0) -> onnx.ModelProto:
    """Layers of products and what follows them, for any number of rows; behind them text that Python makes of numbers."""
    random = np.random.default_rng(seed)
    nodes, weights, last = [], [], "x"
    for layer in range(3):
        matrix = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 12
        weights.append(numpy_helper.from_array(matrix, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Softmax", [f"m{layer}"], [f"s{layer}"]))
        nodes.append(helper.make_node("Add", [f"m{layer}", f"s{layer}"], [f"a{layer}"]))
        last = f"a{layer}"
    nodes.append(helper.make_node("Cast", [last], ["text"], to=TensorProto.STRING))
    nodes.append(helper.make_node("Cast", ["text"], ["more"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Add", ["more", last], ["y"]))
    info = helper.make_tensor_value_info
    ends = [info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.onnx"
    onnx.save(make_model(), file)
    return file


def run(path: Path, x: Array = X, **options: Any) -> bytes:
    return burnx.load(path, DEVICE, **options).run({"x": x})["y"].tobytes()


def test_a_warm_start_gives_the_same_bits_and_makes_nothing(
    path: Path, work: list[str], functions: dict[Any, Any]
) -> None:
    first = run(path)
    assert work == ["lower", "build_native", "build_native"]
    functions.clear()
    model = burnx.load(path, DEVICE)
    for _ in range(3):  # the second call records, the third replays
        assert model.run({"x": X})["y"].tobytes() == first
    assert len(work) == 3 and not functions


def test_other_sizes_are_planned_anew_and_kept_if_they_come_first(
    path: Path, work: list[str]
) -> None:
    other = np.concatenate([X, X[:2]])
    cold = burnx.load(path, DEVICE)
    expected = [cold.run({"x": value})["y"].tobytes() for value in (X, other, X[:1])]
    warm = burnx.load(path, DEVICE)
    found = [warm.run({"x": value})["y"].tobytes() for value in (X, other, X[:1], X)]
    assert found == [*expected, expected[0]]
    assert len(work) == 6
    assert run(path) == expected[0] and len(work) == 6
    assert run(path, other) == expected[1] and len(work) == 9
    assert run(path, other) == expected[1] and len(work) == 9


def test_a_profile_knows_what_was_kept(path: Path) -> None:
    run(path)
    model = burnx.load(path, DEVICE)
    model.run({"x": X})
    rows = model.profile({"x": X})
    assert any(row.what == "contract" for row in rows)


def test_what_is_tuned_takes_no_older_plan_and_leaves_its_own(path: Path, work: list[str]) -> None:
    first = run(path)
    model = burnx.load(path, DEVICE, tune=True)
    tuned, again = (model.run({"x": X})["y"] for _ in range(2))
    np.testing.assert_allclose(
        tuned, np.frombuffer(first, np.float32).reshape(tuned.shape), rtol=1e-4, atol=1e-5
    )
    assert work.count("lower") == 2
    assert run(path) == again.tobytes()
    assert work.count("lower") == 2, "the plan is kept with the results that it was made with"


def test_loops_and_branches_are_kept(tmp_path: Path, work: list[str]) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 8] x, bool c, int64 turns) => (float[n, 8] y) {
        a = Exp(x)  b = Softmax(a)
        d = If(c) <then_branch = t () => (float[n, 8] e) { e = Sin(b) },
                   else_branch = f () => (float[n, 8] h) { h = Cos(b) }>
        l = Loop(turns, c, d) <body = body (int64 i, bool go, float[n, 8] v) => (bool on, float[n, 8] w) {
            on = Identity(go)  u = Softmax(v)  w = Add(u, v) }>
        o = Exp(l)  p = Softmax(o)  q = Sin(p)  r = Cos(q)  y = Neg(r)
    }"""
    path = tmp_path / "flow.onnx"
    onnx.save(parser.parse_model(text), path)
    x = X[:, :8]
    cases = [
        {"x": x, "c": np.array(c), "turns": np.array(n)} for c in (True, False) for n in (3, 40)
    ]
    cold = burnx.load(path, DEVICE)
    expected = [cold.run(given)["y"].tobytes() for given in cases]
    count = len(work)
    warm = burnx.load(path, DEVICE)
    assert [warm.run(given)["y"].tobytes() for given in cases] == expected
    assert len(work) == count


def test_errors_are_said_in_the_same_words(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 4] x, float[m, 4] z, int64[k] i) => (float[k, 4] y) {
        a = Exp(x)  b = Add(a, z)  c = Gather(b, i)  d = Softmax(c)
        e = Softmax(d)  f = Softmax(e)  h = Softmax(f)  y = Neg(h)
    }"""
    path = tmp_path / "index.onnx"
    onnx.save(parser.parse_model(text), path)
    x, i = np.ones((3, 4), np.float32), np.array([0, 2])
    burnx.load(path, DEVICE).run({"x": x, "z": x, "i": i})
    messages: list[list[str]] = []
    for _ in range(2):
        model = burnx.load(path, DEVICE)
        model.run({"x": x, "z": x, "i": i})
        with pytest.raises(burnx.BurnxError) as outside:
            model.run({"x": x, "z": x, "i": i + 1})
        with pytest.raises(ShapeError) as unfit:
            model.run({"x": x, "z": np.ones((2, 4), np.float32), "i": i})
        messages.append([str(outside.value), str(unfit.value)])
    assert messages[0] == messages[1] and "Gather" in messages[0][0]


# ---------------------------------------------------------------------------------------------- damage
def turn(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGE: dict[str, Any] = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[:-1],
    "a bit of the head turned": lambda content: turn(content, 150),
    "not ours": lambda content: b"\x7fELF" * 1000,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_as_good_as_none(
    path: Path, cache: Path, work: list[str], kind: str
) -> None:
    expected = run(path)
    for each in plans(cache):
        each.write_bytes(DAMAGE[kind](each.read_bytes()))
    assert run(path) == expected and work.count("lower") == 2
    assert run(path) == expected and work.count("lower") == 2


def test_an_entry_in_the_place_of_another_is_not_used(
    path: Path, cache: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.onnx"
    onnx.save(make_model(1), other)
    expected = run(path), run(other)
    assert expected[0] != expected[1]
    kept = {each: each.read_bytes() for each in plans(cache)}
    assert len(kept) == 4
    for one in kept:
        for two in kept:
            one.write_bytes(kept[two])
            assert (run(path), run(other)) == expected
            one.write_bytes(kept[one])


def test_an_entry_whose_binaries_are_gone_is_as_good_as_none(
    path: Path, cache: Path, work: list[str]
) -> None:
    expected = run(path)
    for each in cache.glob("*.cl"):
        each.unlink()
    assert run(path) == expected and work.count("lower") == 2


def test_another_device_s_entries_are_not_found(
    path: Path, work: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from burnx.runtime.devices.opencl import find_driver

    run(path)
    driver = find_driver(DEVICE)
    monkeypatch.setattr(driver, "known", {**driver.stamp, "driver": "another"})
    run(path)
    assert work.count("lower") == 2
    monkeypatch.setattr(identity, "source_stamp", lambda: "another source")
    run(path)
    assert work.count("lower") == 3


def test_a_changed_file_is_another_model(path: Path) -> None:
    first = run(path)
    onnx.save(make_model(1), path)
    assert run(path) != first


# ---------------------------------------------------------------------------------------------- modules
class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = self.two(ops.softmax(self.one(x))) + x
        return x


def test_a_module_finds_its_code_by_what_it_is(cache: Path, work: list[str]) -> None:
    module = Layers()
    random = np.random.default_rng(0)
    for each in module.parameters():
        each.data = random.standard_normal(each.data.shape).astype(np.float32)
    first = burnx.compile(module, DEVICE)(X).numpy()
    assert work == ["lower", "build_native"] and len(plans(cache)) == 1
    assert burnx.compile(module, DEVICE)(X).numpy().tobytes() == first.tobytes()
    assert work == ["lower", "build_native", "lower"]
    longer = np.concatenate([X, X])
    other = burnx.compile(module, DEVICE)(longer).numpy()
    np.testing.assert_allclose(other[:3], first, rtol=1e-5, atol=1e-6)
    module.one.weight.data = module.one.weight.data * 2
    assert not np.array_equal(first, burnx.compile(module, DEVICE)(X).numpy())


# ---------------------------------------------------------------------------------------------- processes
START = """
import sys
import numpy as np, burnx
from burnx.runtime.kept import identity
identity.SETTLED_NS = 0
x = np.linspace(-1, 1, 3 * {width}, dtype=np.float32).reshape(3, {width})
y = burnx.load({path!r}, "opencl:0").run({{"x": x}})["y"]
rooms = ("burnx.ops.arithmetic", "burnx.fusion.scheduler", "burnx.gpu.emitter", "burnx.importer", "onnx")
print(y.tobytes().hex()[:4000], [name for name in rooms if name in sys.modules])
"""


def test_a_warm_process_loads_no_compiler(path: Path) -> None:
    code = START.format(path=str(path), width=WIDTH)
    cold, warm = run_python(code), run_python(code)
    assert "burnx.fusion.scheduler" in cold
    assert warm.split()[0] == cold.split()[0] and warm.split()[1] == "[]"


def test_processes_that_start_at_once_do_not_disturb_each_other(path: Path, cache: Path) -> None:
    code = START.format(path=str(path), width=WIDTH)
    for _ in range(2):  # with an empty cache, and with what that has left
        running = [start_python(code) for _ in range(3)]
        found = {each.communicate(timeout=240)[0].split()[0] for each in running}
        assert len(found) == 1
    assert [each.name for each in cache.glob("plans/.*")] == []


def test_plans_of_a_device_travel_in_an_environment(
    path: Path, cache: Path, tmp_path: Path, work: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from burnx.runtime.environments.carry import export_environment, import_environment

    expected = run(path)
    export_environment("default", str(tmp_path / "file"))
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "elsewhere"))
    report = import_environment(str(tmp_path / "file"), "default")
    assert report.taken["plan"] == 2 and not report.left
    assert run(path) == expected and work.count("lower") == 1


def test_an_entry_says_what_it_was_made_for(path: Path, cache: Path) -> None:
    from burnx.runtime.kept.entries import parse_head

    run(path)
    heads = [parse_head(each.read_bytes()) for each in plans(cache)]
    assert {json.dumps(each["about"], sort_keys=True) for each in heads if each} != set()
    assert all(each["about"]["for"] == "opencl" for each in heads if each)
