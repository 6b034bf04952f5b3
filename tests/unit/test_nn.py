"""Modules: what they hold, and how their weights are loaded and saved; imports that write over nobody's work."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import Tensor, nn, ops
from burnx.errors import BurnxError, CallError, InputError, UsageError, WeightsError
from burnx.weights import save_weights


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        self.first = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.first(x))


class Stack(nn.Module):
    def __init__(self) -> None:
        self.blocks = nn.ModuleList(Block(4) for _ in range(2))
        self.scale = nn.Parameter(4, init="ones")
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x * self.scale)


NAMES = [
    "scale",
    "blocks.0.first.weight",
    "blocks.0.first.bias",
    "blocks.0.norm.weight",
    "blocks.0.norm.bias",
    "blocks.1.first.weight",
    "blocks.1.first.bias",
    "blocks.1.norm.weight",
    "blocks.1.norm.bias",
    "head.weight",
]


def arrays_of(module: nn.Module) -> dict[str, Any]:
    return {name: parameter.data for name, parameter in module.named_parameters()}


def other_weights(module: nn.Module) -> dict[str, Any]:
    return {name: array + 1 for name, array in arrays_of(module).items()}


# ------------------------------------------------------------------------------------ what a module holds
def test_parameters_have_paths() -> None:
    assert [name for name, _ in Stack().named_parameters()] == NAMES
    paths = [path for path, _ in Stack().named_modules()]
    assert paths[:4] == ["", "blocks", "blocks.0", "blocks.0.first"]


def test_parameter_that_is_held_twice_comes_once() -> None:
    module = Stack()
    module.blocks[1].first.weight = module.blocks[0].first.weight
    names = [name for name, _ in module.named_parameters()]
    assert "blocks.0.first.weight" in names
    assert "blocks.1.first.weight" not in names


def test_fresh_weights_are_the_same_every_time() -> None:
    first, second = arrays_of(Stack()), arrays_of(Stack())
    assert list(first) == list(second)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    weight = first["blocks.0.first.weight"]
    assert weight.std() > 0.1
    assert np.abs(weight).max() <= 0.5
    assert first["blocks.0.first.bias"].tolist() == [0] * 4
    assert first["scale"].tolist() == [1] * 4


def test_list_of_modules() -> None:
    modules = nn.ModuleList([nn.Linear(1, 1), nn.Linear(2, 2)])
    modules.append(nn.Linear(3, 3))
    assert [module.weight.shape[0] for module in modules] == [1, 2, 3]
    assert len(modules) == 3
    assert modules[-1] is modules[2]
    assert [module.weight.shape[0] for module in modules[1:]] == [2, 3]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"{index} in a list of 3"):
            modules[index]


def test_list_may_have_some_places_only() -> None:
    modules = nn.ModuleList({0: nn.Linear(1, 1), 3: nn.Linear(2, 2)})
    assert [name for name, _ in modules.named_parameters()] == [
        "0.weight",
        "0.bias",
        "3.weight",
        "3.bias",
    ]
    assert modules[3].weight.shape == (2, 2)
    assert len(modules) == 2
    with pytest.raises(IndexError):
        modules[1]


def test_container_holds_by_name() -> None:
    container = nn.Container(query=nn.Linear(2, 2), scale=nn.Parameter(2))
    assert [name for name, _ in container.named_parameters()] == [
        "scale",
        "query.weight",
        "query.bias",
    ]
    assert container.query.weight.shape == (2, 2)
    with pytest.raises(AttributeError, match="'key'; it has query, scale"):
        _ = container.key


def test_parameter_keeps_its_shape_and_dtype() -> None:
    parameter = nn.Parameter(2, 3)
    for wrong in (np.zeros((3, 2), np.float32), np.zeros((2, 3))):
        with pytest.raises(WeightsError, match="keeps its shape and dtype"):
            parameter.data = wrong


# ------------------------------------------------------------------------------------ weights
def test_weights_come_back(tmp_path: Path) -> None:
    module, path = Stack(), tmp_path / "stack.safetensors"
    changed = other_weights(module)
    for name, parameter in module.named_parameters():
        parameter.data = changed[name]
    module.save_weights(path)
    found = Stack.load(path)
    for name, array in arrays_of(found).items():
        np.testing.assert_array_equal(array, changed[name])
    x = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(found(x).numpy(), module(x).numpy())


def test_what_does_not_fit_is_reported_at_once(tmp_path: Path) -> None:
    path, arrays = tmp_path / "wrong.safetensors", other_weights(Stack())
    del arrays["head.weight"]
    arrays["scale"] = np.ones(5, np.float32)
    arrays["blocks.0.first.bias"] = np.ones(4)
    arrays["more"] = np.ones(1, np.float32)
    save_weights(path, arrays, None)
    module = Stack()
    with pytest.raises(WeightsError) as caught:
        module.load_weights(path)
    for part in ("wrong.safetensors", "Stack", "unexpected: more", "missing: head.weight (2, 4)"):
        assert part in str(caught.value)
    for part in ("mismatched: scale", "(5,)", "mismatched: blocks.0.first.bias", "float64"):
        assert part in str(caught.value)


def test_loading_may_be_lenient(tmp_path: Path) -> None:
    path, arrays = tmp_path / "part.safetensors", other_weights(Stack())
    arrays.pop("head.weight")
    save_weights(path, arrays, None)
    module = Stack()
    problems = module.load_weights(path, strict=False)
    assert problems == ["missing: head.weight (2, 4)"]
    np.testing.assert_array_equal(module.head.weight.data, Stack().head.weight.data)
    np.testing.assert_array_equal(module.scale.data, arrays["scale"])


def test_what_was_cut_off_needs_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "more.safetensors"
    save_weights(path, {**other_weights(Stack()), "tail.weight": np.ones(3, np.float32)}, None)
    assert Stack.load(path).load_weights(path) == ["unexpected: tail.weight"]


def test_changed_layer_keeps_fresh_weights_where_that_is_wanted(tmp_path: Path) -> None:
    path, arrays = tmp_path / "part.safetensors", other_weights(Stack())
    arrays["head.weight"] = np.ones((9, 9), np.float32)
    save_weights(path, arrays, None)
    with pytest.raises(WeightsError, match=r"load\(strict=False\) leaves fresh weights"):
        Stack.load(path)
    with pytest.warns(
        UserWarning, match=r"do not fit Stack:\n  mismatched: head\.weight.*\(9, 9\)"
    ):
        found = Stack.load(path, strict=False)
    np.testing.assert_array_equal(found.head.weight.data, Stack().head.weight.data)
    np.testing.assert_array_equal(found.scale.data, arrays["scale"])


def test_a_lenient_load_says_all_that_does_not_fit(tmp_path: Path) -> None:
    path, arrays = tmp_path / "part.safetensors", other_weights(Stack())
    scale = arrays.pop("scale")
    save_weights(path, {**arrays, "old_scale": scale, "head.weight": np.ones(1, "f")}, None)
    with pytest.warns(UserWarning, match="do not fit Stack") as caught:
        Stack.load(path, strict=False)
    (warning,) = caught
    assert warning.filename == __file__
    for line in ("unexpected: old_scale", "missing: scale (4,)", "mismatched: head.weight"):
        assert f"\n  {line}" in str(warning.message)
    Stack().save_weights(path)
    Stack.load(path, strict=False)  # nothing to say


@pytest.mark.parametrize("prefix", ["", "blocks.0.", "of.another.module."])
def test_counters_of_training_are_not_unexpected(prefix: str, tmp_path: Path) -> None:
    path, counter = tmp_path / "w.safetensors", f"{prefix}num_batches_tracked"
    save_weights(path, {**other_weights(Stack()), counter: np.array(7)}, None)
    assert Stack().load_weights(path) == []
    Stack.load(path, strict=False)
    save_weights(path, {**other_weights(Stack()), f"{counter}.weight": np.array(7)}, None)
    assert Stack().load_weights(path) == [f"unexpected: {counter}.weight"]


@pytest.mark.parametrize("is_mapping", [True, False])
def test_names_may_be_turned_into_others(is_mapping: bool, tmp_path: Path) -> None:
    path, arrays = tmp_path / "named.safetensors", other_weights(Stack())
    save_weights(path, {f"model.{name}": array for name, array in arrays.items()}, None)
    remap: Any = lambda name: name.removeprefix("model.")  # noqa: E731
    if is_mapping:
        remap = {f"model.{name}": name for name in arrays}
    module = Stack()
    assert module.load_weights(path, remap=remap) == []
    for name, array in arrays_of(module).items():
        np.testing.assert_array_equal(array, arrays[name])
    with pytest.raises(WeightsError, match=r"unexpected: model\.scale"):
        Stack().load_weights(path)


def test_load_without_a_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="names no weights"):
        Stack.load()
    with pytest.raises(BurnxError, match=r"nowhere\.safetensors"):
        Stack.load(tmp_path / "nowhere.safetensors")


class Doubled(nn.Module):
    inputs = (nn.Input("x", "float32", ("n", 2)), nn.Input("y", "float32", ("n",)))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.mul(x, 2) + ops.unsqueeze(y, [1])


def test_module_without_parameters_needs_no_file() -> None:
    assert isinstance(Doubled.load(), Doubled)


def test_call_is_checked_against_what_is_declared() -> None:
    module, x, y = Doubled(), np.ones((3, 2), np.float32), np.ones(3, np.float32)
    assert module(x, y=y).numpy().tolist() == [[3, 3]] * 3
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((x,), 'input "y"'),
        ((x, y, y), "takes 2 inputs, not 3"),
        ((x, y[:2]), "with n = 3"),
        ((x[:, :1], y), r'input "x" has shape \(n, 2\)'),
        ((x.astype(np.float64), y), "never casts silently"),
    ]
    for arguments, message in wrong:
        with pytest.raises(InputError, match=message):
            module(*arguments)


# ------------------------------------------------------------------------------------ importing over a file
@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "stack.onnx"
    burnx.export_onnx(Stack(), {"x": np.ones((1, 4), np.float32)}, path)
    return path


def test_import_writes_over_its_own_file(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "stack.py"
    burnx.import_onnx(model, target)
    first = target.read_text()
    burnx.import_onnx(model, target)
    assert target.read_text() == first


@pytest.mark.parametrize("kind", ["edited", "foreign"])
def test_import_writes_over_nobodys_work(kind: str, model: Path, tmp_path: Path) -> None:
    target, weights = tmp_path / "stack.py", tmp_path / "stack.safetensors"
    burnx.import_onnx(model, target)
    text = target.read_text()
    mine = text + "\nVALUE = 1\n" if kind == "edited" else "VALUE = 1\n"
    target.write_text(mine)
    before = weights.read_bytes()
    weights.write_bytes(before + b" ")
    with pytest.raises(UsageError, match=r"stack\.py was .*--force"):
        burnx.import_onnx(model, target)
    assert target.read_text() == mine
    assert weights.read_bytes() == before + b" "
    burnx.import_onnx(model, target, force=True)
    assert target.read_text() == text
    assert weights.read_bytes() == before


def test_weights_are_replaced_and_never_written_in_place() -> None:
    layer = nn.Linear(2, 2)
    given = np.ones((2, 2), np.float32)
    compiled = burnx.compile(layer, "reference")
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            layer.weight.data[0] = 0
        with pytest.raises(BurnxError, match="give it a new array"):
            layer.weight[0] = 0
        layer.weight.data = given
        before = compiled(given).numpy()
        given[:] = 7  # the caller's array is the caller's
        np.testing.assert_array_equal(layer.weight.data, np.ones((2, 2)))
        np.testing.assert_array_equal(compiled(np.ones((2, 2), np.float32)).numpy(), before)
        given[:] = 1
    other = copy.deepcopy(layer)
    with pytest.raises(ValueError, match="read-only"):
        other.weight.data[0] = 0
    assert other.weight.data is not layer.weight.data
    held = layer.weight.data
    other.weight.data = held
    assert other.weight.data is held


def test_compiled_modules_notice_new_weights() -> None:
    layer = nn.Linear(3, 2)
    compiled = burnx.compile(layer)
    x = np.ones((1, 3), np.float32)
    before = compiled(x).numpy()
    layer.weight.data = layer.weight.data + 1
    np.testing.assert_allclose(compiled(x).numpy(), before + 3, rtol=1e-5)


@pytest.mark.parametrize("value", [[1.0], 1.0, "w"])
def test_a_parameter_is_not_replaced_by_plain_values(value):
    layer = nn.Linear(3, 2)
    with pytest.raises(CallError, match=r"Linear\.weight is a parameter .* \.weight\.data = array"):
        layer.weight = value
    layer.weight, layer.bias = nn.Parameter(2, 3), None
    assert list(dict(layer.named_parameters())) == ["weight"]


def test_an_array_in_place_of_a_parameter_is_one(tmp_path):
    layer = nn.Linear(3, 2)
    layer.weight, layer.bias = np.ones((5, 3), np.float32), ops.array([1.0, 2.0]) * 2
    assert {name: each.shape for name, each in layer.named_parameters()} == {
        "weight": (5, 3),
        "bias": (2,),
    }
    layer.save_weights(tmp_path / "w.safetensors")
    assert set(burnx.checkpoints.open_tensors(tmp_path / "w.safetensors")) == {"weight", "bias"}
