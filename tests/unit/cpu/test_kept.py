"""Plans that are kept: a warm start gives the same bits without lowering, and nothing stale or damaged is used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from native_code import run_python, start_python
from onnx import TensorProto, helper, numpy_helper

import burnx
import burnx.lowering
from burnx import nn
from burnx.errors import InputError, ModelError, ShapeError
from burnx.runtime.devices.cpu import building, tuning
from burnx.runtime.kept import entries, identity
from burnx.runtime.tuning.roofline import Roofline

Array = np.ndarray[Any, Any]
WIDTH = 160  # such that weights are large enough to be mapped
X = np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that keeps plans, of files that were written just now, too."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("BURNX_CACHE", str(folder))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    monkeypatch.setattr(identity, "SETTLED_NS", 0)
    return folder


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done anew: graphs lowered, segments built."""
    done: list[str] = []

    def count(module: Any, name: str) -> None:
        kept = getattr(module, name)

        def counted(*given: Any, **named: Any) -> Any:
            done.append(name)
            return kept(*given, **named)

        monkeypatch.setattr(module, name, counted)

    count(burnx.lowering, "lower")
    count(building, "build_native")
    return done


def plans(folder: Path) -> list[Path]:
    return sorted(folder.glob("plans/*.plan"))


def entries_in(folder: Path) -> list[Path]:
    """Plans and the constants that they share."""
    return [*plans(folder), *sorted(folder.glob("plans/*.constant"))]


def make_model(seed: int = 0) -> onnx.ModelProto:
    """Layers of products and what follows them, for any number of rows, and a default for one input."""
    random = np.random.default_rng(seed)
    nodes, weights, last = [], [], "x"
    for layer in range(4):
        matrix = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 12
        weights.append(numpy_helper.from_array(matrix, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Softmax", [f"m{layer}"], [f"s{layer}"]))
        nodes.append(helper.make_node("Add", [f"m{layer}", f"s{layer}"], [f"a{layer}"]))
        last = f"a{layer}"
    nodes.append(helper.make_node("Mul", [last, "scale"], ["y"]))
    weights.append(numpy_helper.from_array(np.float32(2), "scale"))
    graph = helper.make_graph(
        nodes,
        "layers",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH]),
            helper.make_tensor_value_info("scale", TensorProto.FLOAT, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.onnx"
    onnx.save(make_model(), file)
    return file


def test_a_warm_start_gives_the_same_bits_and_makes_nothing(
    path: Path, cache: Path, work: list[str]
) -> None:
    first = burnx.load(path).run({"x": X})["y"]
    assert work == ["lower", "build_native"]
    model = burnx.load(path)
    assert model.run({"x": X})["y"].tobytes() == first.tobytes()
    assert [(each.name, each.dims, each.optional) for each in model.inputs] == [
        ("x", ("n", WIDTH), False),
        ("scale", (), True),
    ]
    assert len(work) == 2


def test_a_tuned_model_leaves_its_plan(
    path: Path, work: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "cpu_roofline", lambda threads: Roofline(1e15, 1e15))
    burnx.load(path).run({"x": X})
    tuned = burnx.load(path, tune=True).run({"x": X})["y"]
    before = len(work)
    assert burnx.load(path).run({"x": X})["y"].tobytes() == tuned.tobytes()
    assert len(work) == before


def test_a_plan_holds_for_other_sizes_and_threads(path: Path, work: list[str]) -> None:
    cold, other = burnx.load(path), np.concatenate([X, X[:2]])
    expected = [cold.run({"x": value})["y"].tobytes() for value in (X, other, X[:1], X[:0])]
    for options in ({}, {"threads": 1}, {"threads": 3}):
        warm = burnx.load(path, **options)
        found = [warm.run({"x": value})["y"].tobytes() for value in (X, other, X[:1], X[:0])]
        assert found == expected
    assert len(work) == 2


def test_an_input_with_a_default_has_a_program_of_its_own(path: Path, work: list[str]) -> None:
    given = {"x": X, "scale": np.float32(3)}
    cold = burnx.load(path)
    expected = [cold.run({"x": X})["y"], cold.run(given)["y"]]
    assert len(work) == 4
    warm = burnx.load(path)
    for value, inputs in zip(expected, ({"x": X}, given), strict=True):
        assert warm.run(inputs)["y"].tobytes() == value.tobytes()
    assert len(work) == 4


def test_the_graph_is_read_when_it_is_asked_for(path: Path) -> None:
    burnx.load(path).run({"x": X})
    model = burnx.load(path)
    model.run({"x": X})
    assert len(model.graph.nodes) == 13 and model.graph is model.graph
    assert "13 nodes" in repr(model) and model.placement() == {}
    assert any(row.what == "contract" for row in model.profile({"x": X}))


def test_wrong_inputs_are_refused_in_the_same_words(path: Path) -> None:
    cold = burnx.load(path)
    cold.run({"x": X})
    warm = burnx.load(path)
    for inputs in ({"x": X[:, :4]}, {}, {"x": X, "z": X}, {"x": X.astype(np.float64)}):
        messages = []
        for model in (cold, warm):
            with pytest.raises(InputError) as caught:
                model.run(inputs)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_sizes_that_do_not_fit_are_refused_in_the_same_words(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 4] x, float[m, 4] z) => (float[n, k] y) {
        a = Exp(x)  b = Softmax(a)  c = Transpose(z)  d = MatMul(b, c)  e = Softmax(d)
        f = MatMul(e, z)  h = Add(f, x)  i = Transpose(h)  j = MatMul(x, i)  y = Add(j, d)
    }"""
    path = tmp_path / "sizes.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x, z = np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)
    cold = burnx.load(path)
    good = cold.run({"x": x, "z": x})["y"]
    warm = burnx.load(path)
    assert warm.run({"x": x, "z": x})["y"].tobytes() == good.tobytes()
    messages = []
    for model in (cold, warm):
        with pytest.raises(ShapeError) as caught:
            model.run({"x": x, "z": z})
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_an_index_outside_its_axis_is_named_in_the_same_words(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 4] x, int64[k] i) => (float[k, 4] y) {
        a = Exp(x)  b = Softmax(a)  c = Gather(b, i)  d = Softmax(c)
        e = Softmax(d)  f = Softmax(e)  h = Softmax(f)  y = Neg(h)
    }"""
    path = tmp_path / "index.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x, i = np.ones((3, 4), np.float32), np.array([0, 2])
    cold = burnx.load(path)
    cold.run({"x": x, "i": i})
    messages = []
    for model in (cold, burnx.load(path)):
        model.run({"x": x, "i": i})
        with pytest.raises(burnx.BurnxError) as caught:
            model.run({"x": x, "i": i + 1})
        messages.append(str(caught.value))
        model.run({"x": x, "i": i})
    assert messages[0] == messages[1] and "Gather" in messages[0]


# ---------------------------------------------------------------------------------------------- damage
def _turn(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[:-1],
    "cut in its head": lambda content: content[:40],
    "a bit of the head turned": lambda content: _turn(content, 120),
    "a bit of the constants turned": lambda content: _turn(content, len(content) - 1000),
    "another format": lambda content: content.replace(b"plan-1\n", b"plan-0\n", 1),
    "more at the end": lambda content: content + b"x",
    "not ours": lambda content: b"\x7fELF" * 1000,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_as_good_as_none(
    path: Path, cache: Path, work: list[str], kind: str
) -> None:
    expected = burnx.load(path).run({"x": X})["y"].tobytes()
    assert any(each.suffix == ".constant" for each in entries_in(cache))
    for each in entries_in(cache):
        each.write_bytes(DAMAGE[kind](each.read_bytes()))
    assert burnx.load(path).run({"x": X})["y"].tobytes() == expected
    assert work.count("lower") == 2
    assert burnx.load(path).run({"x": X})["y"].tobytes() == expected
    assert work.count("lower") == 2


def test_an_entry_of_another_meaning_is_as_good_as_none(path: Path, cache: Path) -> None:
    """Two whole entries, one in place of the other."""
    expected = burnx.load(path).run({"x": X})["y"].tobytes()
    mine = entries_in(cache)
    assert len(mine) == 2 + 4
    for first, second in ((0, 1), (1, 0), (0, 2), (2, 0)):
        kept = [each.read_bytes() for each in mine]
        mine[first].write_bytes(kept[second])
        assert burnx.load(path).run({"x": X})["y"].tobytes() == expected
        mine[first].write_bytes(kept[first])


def test_an_entry_whose_kernels_are_gone_is_as_good_as_none(path: Path, cache: Path) -> None:
    code = f"""
import numpy as np, burnx
burnx.load({str(path)!r}).run({{"x": np.zeros((3, {WIDTH}), np.float32)}})
from burnx.runtime.devices.cpu import compiled_kernels
print(compiled_kernels())
"""
    settled = code.replace(
        "import numpy",
        "from burnx.runtime.kept import identity\nidentity.SETTLED_NS = 0\nimport numpy",
    )
    assert int(run_python(settled)) > 2
    kernels = sorted(cache.glob("*.o"))
    for each in kernels[::2]:
        each.unlink()
    assert int(run_python(settled)) > 0
    assert sorted(cache.glob("*.o")) == kernels


# ---------------------------------------------------------------------------------------------- stale files
def test_a_file_that_was_written_just_now_is_not_known_by_its_times(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_NS", 2_000_000_000)
    first = burnx.load(path).run({"x": X})["y"]
    times = os.stat(path).st_mtime_ns
    onnx.save(make_model(1), path)
    os.utime(path, ns=(times, times))
    other = burnx.load(path).run({"x": X})["y"]
    assert not np.array_equal(first, other)
    onnx.save(make_model(), path)
    np.testing.assert_array_equal(burnx.load(path).run({"x": X})["y"], first)


@pytest.mark.parametrize("replaced", [True, False])
def test_another_file_of_the_same_name_is_another_model(
    path: Path, tmp_path: Path, replaced: bool
) -> None:
    burnx.load(path).run({"x": X})
    times = os.stat(path).st_mtime_ns
    other = tmp_path / "other.onnx"
    onnx.save(make_model(1), other)
    expected = burnx.load(other, device="cpu").run({"x": X})["y"]
    if replaced:
        os.replace(other, path)
    else:
        shutil.copyfile(other, path)
    os.utime(path, ns=(times, times))
    np.testing.assert_array_equal(burnx.load(path).run({"x": X})["y"], expected)


def test_a_model_stays_what_it_was_loaded_as(path: Path, tmp_path: Path) -> None:
    given = {"x": X, "scale": np.float32(3)}
    expected = burnx.load(path).run(given)["y"]
    for each in tmp_path.glob("kernels/plans/*"):
        each.unlink()
    burnx.load(path).run({"x": X})
    warm = burnx.load(path)
    other = tmp_path / "other.onnx"
    onnx.save(make_model(1), other)
    os.replace(other, path)
    np.testing.assert_array_equal(warm.run(given)["y"], expected)


def test_a_model_that_is_written_to_after_it_was_loaded_is_refused(
    path: Path, tmp_path: Path
) -> None:
    burnx.load(path).run({"x": X})
    warm = burnx.load(path)
    onnx.save(make_model(1), tmp_path / "other.onnx")
    shutil.copyfile(tmp_path / "other.onnx", path)
    with pytest.raises(ModelError, match="has changed since"):
        warm.run({"x": X, "scale": np.float32(3)})


def test_external_data_is_part_of_the_model(tmp_path: Path, work: list[str]) -> None:
    path = tmp_path / "model.onnx"
    large = {"save_as_external_data": True, "location": "data.bin", "size_threshold": 0}
    onnx.save(make_model(), path, **large)
    first = burnx.load(path).run({"x": X})["y"]
    assert burnx.load(path).run({"x": X})["y"].tobytes() == first.tobytes()
    assert work.count("lower") == 1
    data = np.fromfile(tmp_path / "data.bin", np.float32)
    (data * 2).tofile(tmp_path / "data.bin")
    second = burnx.load(path).run({"x": X})["y"]
    assert work.count("lower") == 2 and not np.array_equal(first, second)


# ---------------------------------------------------------------------------------------------- modules
class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = self.two(burnx.ops.softmax(self.one(x))) + x
        return x


def test_a_module_finds_its_code_by_what_it_is(cache: Path, work: list[str]) -> None:
    module = Layers()
    random = np.random.default_rng(0)
    for each in module.parameters():
        each.data = random.standard_normal(each.data.shape).astype(np.float32)
    first = burnx.compile(module)(X).numpy()
    assert work == ["lower", "build_native"] and len(plans(cache)) == 1
    assert burnx.compile(module)(X).numpy().tobytes() == first.tobytes()
    assert work == ["lower", "build_native", "lower"]
    module.one.weight.data = module.one.weight.data * 2
    second = burnx.compile(module)(X).numpy()
    assert work.count("build_native") == 2 and not np.array_equal(first, second)
    np.testing.assert_array_equal(second, burnx.compile(module, fuse=True)(X).numpy())
    burnx.compile(module, fuse=False)(X)
    assert work.count("build_native") == 3


# ---------------------------------------------------------------------------------------------- processes
START = """
import sys
import numpy as np, burnx
from burnx.runtime.kept import identity
identity.SETTLED_NS = 0
x = np.linspace(-1, 1, 3 * {width}, dtype=np.float32).reshape(3, {width})
y = burnx.load({path!r}, threads={threads}).run({{"x": x}})["y"]
rooms = ("burnx.ops.arithmetic", "burnx.fusion.scheduler", "burnx.importer", "burnx.llvm.emitter", "onnx")
print(y.tobytes().hex()[:4000], [name for name in rooms if name in sys.modules])
"""


def test_a_warm_process_loads_no_compiler(path: Path) -> None:
    code = START.format(path=str(path), width=WIDTH, threads=2)
    cold, warm = run_python(code), run_python(code)
    assert "burnx.fusion.scheduler" in cold
    assert warm.split()[0] == cold.split()[0] and warm.split()[1] == "[]"


def test_processes_that_start_at_once_do_not_disturb_each_other(path: Path, cache: Path) -> None:
    code = START.format(path=str(path), width=WIDTH, threads=1)
    running = [start_python(code) for _ in range(4)]
    found = {each.communicate(timeout=120)[0].split()[0] for each in running}
    assert len(found) == 1
    assert [each.name for each in cache.glob("plans/.*")] == []


def test_a_child_of_a_fork_runs_what_was_kept(path: Path) -> None:
    burnx.load(path).run({"x": X})
    model = burnx.load(path)
    expected = model.run({"x": X})["y"].tobytes()
    child = os.fork()
    if child == 0:
        good = model.run({"x": X})["y"].tobytes() == expected
        good = good and burnx.load(path).run({"x": X})["y"].tobytes() == expected
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


# ---------------------------------------------------------------------------------------------- the bound
def test_what_was_used_longest_ago_goes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, work: list[str]
) -> None:
    monkeypatch.setenv("BURNX_CACHE_MB", "1")
    paths = [tmp_path / f"{number}.onnx" for number in range(4)]
    for number, each in enumerate(paths):
        onnx.save(make_model(number), each)
        burnx.load(each).run({"x": X})
    assert sum(each.stat().st_size for each in entries_in(cache)) <= 1 << 20
    burnx.load(paths[-1]).run({"x": X})
    assert work.count("lower") == 4
    burnx.load(paths[0]).run({"x": X})
    assert work.count("lower") == 5


def test_what_a_killed_process_left_is_removed(path: Path, cache: Path) -> None:
    (cache / "plans").mkdir(parents=True, mode=0o700)
    cache.chmod(0o700)
    left = [cache / "plans" / f".new-{number}" for number in range(2)]
    for each in left:
        each.write_bytes(b"part")
    os.utime(left[0], (1, 1))
    burnx.load(path).run({"x": X})
    assert [each.exists() for each in left] == [False, True]


@pytest.mark.parametrize("name, value", [("BURNX_CACHE", "off"), ("BURNX_CACHE_MB", "0")])
def test_nothing_is_kept_where_that_is_asked_for(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, work: list[str], name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    for _ in range(2):
        burnx.load(path).run({"x": X})
    assert work.count("lower") == 2 and plans(cache) == []


def test_a_full_disk_is_no_error(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(entries, "_write", fail)
    burnx.load(path).run({"x": X})
    assert plans(cache) == [] and list(cache.glob("plans/.new-*")) == []


def test_a_graph_that_decides_by_sizes_is_kept_for_sizes_that_come_again(
    tmp_path: Path, cache: Path, work: list[str]
) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 4] x, int64[k] i) => (float[a, b] y) {
        s = Shape(x)  r = Gather(s, i)  z = Expand(x, r)
        a = Exp(z)  b = Softmax(a)  c = Softmax(b)  d = Softmax(c)  e = Softmax(d)
        f = Softmax(e)  h = Add(f, x)  o = Softmax(h)  y = Softmax(o)
    }"""
    path = tmp_path / "decides.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x, i = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), np.array([0, 1])
    cold = burnx.load(path)
    expected = [cold.run({"x": x, "i": i})["y"].tobytes() for _ in range(4)]
    count = len(work)
    warm = burnx.load(path)
    assert [warm.run({"x": x, "i": i})["y"].tobytes() for _ in range(4)] == expected
    assert len(work) == count
    other = warm.run({"x": x[:2], "i": i})["y"]
    assert other.shape == (2, 4) and other.tobytes() == expected[0][:32]
    assert len(work) > count


def test_dtypes_of_few_bits_are_kept(tmp_path: Path, work: list[str]) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[n, 8] x) => (float[n, 8] y)
    <int4[8] w = {18, 52, 86, 120}, bfloat16[8] v = {16256, 1, 2, 3, 4, 5, 6, 7}> {
        a = Cast<to = 1>(w)  b = Mul(x, a)  c = Cast<to = 16>(b)  d = Mul(c, v)  e = Cast<to = 1>(d)
        f = Softmax(e)  h = Add(f, x)  i = Softmax(h)  j = Softmax(i)  k = Softmax(j)  y = Exp(k)
    }"""
    path = tmp_path / "bits.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x = np.linspace(0, 1, 24, dtype=np.float32).reshape(3, 8)
    expected = burnx.load(path).run({"x": x})["y"].tobytes()
    assert burnx.load(path).run({"x": x})["y"].tobytes() == expected
    assert work.count("lower") == 1
