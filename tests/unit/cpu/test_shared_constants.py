"""Constants that were laid out once: a changed model with the same weights takes them, and nothing else is taken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import burnx
from burnx import nn
from burnx.fusion import weights as laying_out
from burnx.runtime.kept import entries, identity, sums

Array = np.ndarray[Any, Any]
WIDTH = 160
X = np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that keeps what is made of files that were written just now, too."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("BURNX_CACHE", str(folder))
    monkeypatch.setenv("BURNX_CACHE_MB", "256")
    monkeypatch.setattr(identity, "SETTLED_NS", 0)
    return folder


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was laid out anew."""
    done: list[str] = []

    def count(name: str) -> None:
        made = getattr(laying_out, name)
        monkeypatch.setattr(laying_out, name, lambda *given: done.append(name) or made(*given))

    count("pack_all")
    count("transform_weights")
    return done


def constants(folder: Path) -> list[Path]:
    return sorted(folder.glob("plans/*.constant"))


class Layers(nn.Module):
    """A stack whose activation and depth somebody changes."""

    def __init__(self, between: Callable[[Any], Any], depth: int = 3) -> None:
        super().__init__()
        self.between, self.depth = between, depth
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        random = np.random.default_rng(0)
        for each in self.parameters():
            each.data = random.standard_normal(each.data.shape).astype(np.float32) / 12

    def forward(self, x: Any) -> Any:
        for _ in range(self.depth):
            x = burnx.ops.softmax(self.two(self.between(self.one(x)))) + x
        return x


def run_alone(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The result of a process that keeps nothing."""
    with monkeypatch.context() as here:
        here.setenv("BURNX_CACHE", "off")
        return burnx.compile(module, "cpu")(X).numpy().tobytes()


@pytest.mark.parametrize(
    "edited",
    [(burnx.ops.sigmoid, 3), (burnx.ops.tanh, 3), (burnx.ops.relu, 2), (burnx.ops.relu, 4)],
    ids=["another activation", "a third one", "a layer less", "a layer more"],
)
def test_an_edited_model_packs_nothing_again(
    edited: Any, cache: Path, laid_out: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    burnx.compile(Layers(burnx.ops.relu), "cpu")(X)
    assert laid_out == ["pack_all"] * 2 and len(constants(cache)) == 2
    laid_out.clear()
    found = burnx.compile(Layers(*edited), "cpu")(X).numpy().tobytes()
    assert laid_out == [] and len(constants(cache)) == 2
    assert found == run_alone(Layers(*edited), monkeypatch)


def test_only_what_has_new_weights_is_packed(cache: Path, laid_out: list[str]) -> None:
    module = Layers(burnx.ops.relu)
    first = burnx.compile(module, "cpu")(X).numpy()
    laid_out.clear()
    module.two.weight.data = module.two.weight.data * 2
    second = burnx.compile(module, "cpu")(X).numpy()
    assert laid_out == ["pack_all"] and len(constants(cache)) == 3
    assert not np.array_equal(first, second)


def test_one_weight_read_in_two_ways_is_two_constants(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(WIDTH, WIDTH)
            self.weight.data = np.random.default_rng(1).random((WIDTH, WIDTH), np.float32)

        def forward(self, x: Any) -> Any:
            for _ in range(4):
                x = burnx.ops.softmax(x @ self.weight) @ self.weight.transpose(1, 0)
            return x

    found = burnx.compile(Turned(), "cpu")(X).numpy().tobytes()
    assert len(constants(cache)) == 2
    assert burnx.compile(Turned(), "cpu")(X).numpy().tobytes() == found
    assert found == run_alone(Turned(), monkeypatch)


# --- convolutions and bytes, from a file ------------------------------------------------------------------------------


def save_convolutions(path: Path, activation: str) -> None:
    """A convolution for Winograd's transforms, a plain one, one in groups, and a product."""
    random = np.random.default_rng(0)
    shapes = {"a": (64, 64, 3, 3), "b": (256, 64, 1, 1), "c": (256, 64, 5, 5), "d": (256, 100)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 50, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], pads=[1] * 4),
        helper.make_node(activation, ["p"], ["q"]),
        helper.make_node("Conv", ["q", "b"], ["r"]),
        helper.make_node(activation, ["r"], ["s"]),
        helper.make_node("Conv", ["s", "c"], ["t"], group=4, strides=[2, 2]),
        helper.make_node(activation, ["t"], ["u"]),
        helper.make_node("GlobalAveragePool", ["u"], ["v"]),
        helper.make_node("Flatten", ["v"], ["w"]),
        helper.make_node("MatMul", ["w", "d"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64, 28, 28]),
        helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 100]),
    ]
    graph = helper.make_graph(nodes, "convolutions", ends[:1], ends[1:], weights)
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def test_an_edited_source_takes_the_convolutions_of_the_one_before(
    tmp_path: Path, laid_out: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_convolutions(tmp_path / "model.onnx", "Relu")
    source, edited = tmp_path / "model.py", tmp_path / "edited.py"
    burnx.import_onnx(tmp_path / "model.onnx", source)
    text = source.read_text()
    assert "relu" in text
    edited.write_text(text.replace("ops.relu(", "ops.sigmoid("))
    x = np.random.default_rng(1).standard_normal((1, 64, 28, 28)).astype(np.float32)
    first = burnx.load(f"{source}:Model", "cpu").run({"x": x})["y"]
    assert set(laid_out) == {"pack_all", "transform_weights"}
    laid_out.clear()
    found = burnx.load(f"{edited}:Model", "cpu").run({"x": x})["y"]
    assert laid_out == [] and not np.array_equal(first, found)
    monkeypatch.setenv("BURNX_CACHE", "off")
    again = burnx.load(f"{edited}:Model", "cpu").run({"x": x})["y"]
    assert laid_out and again.tobytes() == found.tobytes()


@pytest.mark.parametrize("large", [0, 1], ids=["as asked", "as pairs, too much was spilled"])
def test_the_packing_that_was_found_is_kept_with_the_constant(cache: Path, large: int) -> None:
    """Bytes that are too large for one packing are packed in another, which whoever takes them has to know."""
    from burnx.runtime.devices.cpu.kept import plan_stamp
    from burnx.runtime.kept.entries import find_entries
    from burnx.runtime.kept.shared import SharedConstants

    matrix = np.full((256, 256), 127 if large else 3, np.int8)
    where = find_entries()
    assert where is not None
    made = []
    for _ in range(2):
        store = SharedConstants(where, plan_stamp())
        storage, size, packing = laying_out.lay_out_product(
            matrix, ((), (0,), (1,)), "8p4:16", matrix.dtype, store.derive
        )
        assert storage.array is not None
        made.append((storage.array.tobytes(), storage.array.dtype, size, packing))
        where.write("0" * 64, {}, None, entries.Constants(), list(store.made.values()))
    assert made[0] == made[1] and len(constants(cache)) == 1
    assert made[0][3] == ("8x2:16" if large else "8p4:16")


def test_a_constant_is_made_again_where_its_entry_is_gone(cache: Path, laid_out: list[str]) -> None:
    module = Layers(burnx.ops.relu)
    first = burnx.compile(module, "cpu")(X).numpy().tobytes()
    kept = constants(cache)
    kept[0].unlink()
    laid_out.clear()
    assert burnx.compile(module, "cpu")(X).numpy().tobytes() == first
    assert laid_out == ["pack_all"] and constants(cache) == kept


def test_hundreds_of_constants_keep_no_file_open(cache: Path) -> None:
    def count_open() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("no list of open files here")
    module = Layers(burnx.ops.relu)
    burnx.compile(module, "cpu")(X)
    before, held = count_open(), []
    for _ in range(20):
        held.append(burnx.compile(module, "cpu"))
        held[-1](X)
    assert count_open() <= before


class Wide(nn.Module):
    """Weights so large that they are added up on other threads."""

    SIZE = 640

    def __init__(self, between: Callable[[Any], Any]) -> None:
        super().__init__()
        self.between = between
        self.one, self.two = nn.Linear(self.SIZE, self.SIZE), nn.Linear(self.SIZE, self.SIZE)
        for number, each in enumerate(self.parameters()):
            random = np.random.default_rng(number)
            each.data = random.standard_normal(each.data.shape).astype(np.float32) / 25

    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = burnx.ops.softmax(self.two(self.between(self.one(x)))) + x
        return x


@pytest.mark.parametrize("edited", [False, True], ids=["the same model", "an edited one"])
def test_a_large_constant_that_is_damaged_is_made_again(
    edited: bool, cache: Path, laid_out: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 4 * Wide.SIZE**2 >= sums.LEAST_BYTES
    x = np.linspace(-1, 1, 2 * Wide.SIZE, dtype=np.float32).reshape(2, -1)
    module = Wide(burnx.ops.relu)
    burnx.compile(module, "cpu")(x)
    one, other = constants(cache)
    content = bytearray(one.read_bytes())
    content[-(1 << 19)] ^= 1
    one.unlink()  # what is mapped stays as it is
    one.write_bytes(content)
    laid_out.clear()
    again = Wide(burnx.ops.tanh) if edited else module
    before = threading.active_count()
    found = burnx.compile(again, "cpu")(x).numpy().tobytes()
    assert laid_out == ["pack_all"] and threading.active_count() == before
    monkeypatch.setenv("BURNX_CACHE", "off")
    assert burnx.compile(again, "cpu")(x).numpy().tobytes() == found
    content[-(1 << 19)] ^= 1
    assert one.read_bytes() == content and constants(cache) == [one, other]
