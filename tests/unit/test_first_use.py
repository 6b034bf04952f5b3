"""What a person meets in a first hour: models in a REPL, slips in a call, tensors from elsewhere, copies."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import burnx
from burnx import Tensor, nn, ops
from burnx.conformance.flops import count_flops
from burnx.errors import BurnxError, ShapeError, TraceError
from burnx.nn.sources import load_network
from burnx.nn.stored import ORIGINAL_NAMES, under_original_names
from burnx.weights import open_weights

X = np.array([1, -1, 2], np.float32)


# ------------------------------------------------------------------------------------ tensors from elsewhere
def test_what_a_plain_call_gave_is_a_constant_of_a_capture(tmp_path: Path) -> None:
    y, path = ops.relu(X) + 1, tmp_path / "m.onnx"

    def model(x: Tensor) -> Any:
        return x * y, burnx.cond(x.sum() > 0, lambda: y, lambda: x)

    burnx.export_onnx(model, {"x": X}, path)
    for found in (burnx.load(path)(X), [each.numpy() for each in burnx.compile(model)(X)]):
        np.testing.assert_array_equal(found[0], [2, -1, 6])
        np.testing.assert_array_equal(found[1], [2, 1, 3])


def test_weight_may_be_what_a_plain_call_gave(tmp_path: Path) -> None:
    module, path = nn.Linear(3, 2), tmp_path / "m.onnx"
    expected = 2 * module(X[None]).numpy()
    setattr(module, "weight", module.weight * 2)  # noqa: B010
    burnx.export_onnx(module, {"x": X[None]}, path)
    np.testing.assert_allclose(burnx.load(path)(X[None]), expected, rtol=1e-5)


def test_tensor_that_outlives_its_capture_is_named() -> None:
    kept: list[Tensor] = []

    def keeping(x: Tensor) -> Tensor:
        kept.append(x * 2)
        return x

    def leaking(x: Tensor) -> Tensor:
        burnx.cond(x.sum() > 0, lambda: keeping(x), lambda: x)
        return kept[-1]

    burnx.trace(keeping, X)
    for model in (lambda x: x + kept[0], lambda x: kept[0], leaking):
        with pytest.raises(TraceError, match=r"test_first_use\.py:\d+: a tensor is of use only"):
            burnx.trace(model, X)


# ------------------------------------------------------------------------------------ slips in a call
class Doubled(nn.Module):
    inputs = (nn.Input("x", "float32", ("n",)),)

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Small(nn.Module):
    def __init__(self) -> None:
        self.head = nn.Linear(3, 2)
        self.blocks = nn.ModuleList(nn.Container(a=nn.Linear(2, 2)) for _ in range(2))
        self.scale = nn.Parameter(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * self.scale


SLIPS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "load nothing": (lambda path: burnx.load(None), "a model is a path, .* not NoneType"),
    "load a module": (lambda path: burnx.load(Doubled()), "a model is a path, .* not Doubled"),
    "run an array": (lambda path: loaded(path).run(X), "dict by input name, not ndarray"),  # type: ignore[arg-type]
    "export an array": (lambda path: burnx.export_onnx(Doubled(), X, path), "not ndarray"),  # type: ignore[arg-type]
    "dynamic as a list": (
        lambda path: burnx.export_onnx(Doubled(), {"x": X}, path, dynamic={"x": [0]}),  # type: ignore[dict-item]
        r'dynamic is \{input: \{axis: dim\}\}; "x" has \[0\]',
    ),
    "dynamic as a tuple": (
        lambda path: burnx.export_onnx(Doubled(), {"x": X}, path, dynamic=("x",)),  # type: ignore[arg-type]
        "dynamic is a dict by input name, not tuple",
    ),
    "compile a path": (lambda path: burnx.compile("m.onnx"), "not str; burnx.load opens a file"),  # type: ignore[arg-type]
    "trace nothing": (lambda path: burnx.trace(None), "not NoneType"),  # type: ignore[arg-type]
    "give no tensor": (
        lambda path: burnx.trace(lambda x: None, X),
        r"<lambda> gives tensors, not NoneType: file '.*test_first_use\.py', line \d+",
    ),
    "call with text": (
        lambda path: Doubled()("x"),
        'input "x" is float32, not an array of objects',
    ),
    "call with uneven lists": (lambda path: Doubled()([[1], [1, 2]]), "a list that is no array"),
    "run with uneven lists": (lambda path: loaded(path)([[1], [1, 2]]), "a list that is no array"),
}


def loaded(folder: Path) -> Any:
    burnx.export_onnx(Doubled(), {"x": X}, folder / "m.onnx")
    return burnx.load(folder / "m.onnx")


@pytest.mark.parametrize("slip", SLIPS)
def test_slip_in_a_call_is_an_error_of_burnx(slip: str, tmp_path: Path) -> None:
    call, message = SLIPS[slip]
    with pytest.raises(BurnxError, match=message):
        call(tmp_path)


# ------------------------------------------------------------------------------------ in a REPL
def test_what_a_repl_shows_is_short(tmp_path: Path) -> None:
    def grown(x: Tensor) -> Tensor:
        for _ in range(60):
            x = x + ops.relu(x)
        return x

    graph = burnx.trace(grown, X)
    assert repr(graph) == "<graph grown: 120 nodes, (x float32(3)) -> (float32(3))>"
    assert re.fullmatch(r"<node \(Relu\) at test_first_use\.py:\d+>", repr(graph.nodes[0]))
    assert repr(graph.inputs[0]) == "Value(x: float32(3))"
    assert repr(loaded(tmp_path)).endswith("(x float32(n)) -> (output float32(n))> on cpu>")
    assert repr(burnx.compile(Doubled())) == "<compiled Doubled on cpu>"


def test_print_of_a_module_shows_what_is_inside() -> None:
    assert repr(Small()) == "Small(22 parameters)"
    assert str(Small()).splitlines() == [
        "Small(22 parameters)",
        "  head: Linear(weight (2, 3), bias (2,))",
        "  blocks: ModuleList",
        "    0: Container",
        "      a: Linear(weight (2, 2), bias (2,))",
        "    1: Container",
        "      a: Linear(weight (2, 2), bias (2,))",
        "  scale: Parameter(2, dtype='float32')",
    ]


# ------------------------------------------------------------------------------------ copies
COPIES: list[Callable[[Any], Any]] = [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]


@pytest.mark.parametrize("duplicate", COPIES, ids=["deepcopy", "pickle"])
def test_module_and_tensor_can_be_copied(duplicate: Callable[[Any], Any], tmp_path: Path) -> None:
    small, path = Small(), tmp_path / "small.safetensors"
    small.scale.data = np.array([2, 3], np.float32)
    small.save_weights(path)
    loaded_small, fresh = Small.load(path), Small()
    for module in (loaded_small, fresh):
        copied = duplicate(module)
        assert copied.head.weight is not module.head.weight
        np.testing.assert_array_equal(copied(X[None]).numpy(), module(X[None]).numpy())
    copied = duplicate(loaded_small)
    copied.scale.data = np.zeros(2, np.float32)
    assert loaded_small.scale.data.tolist() == [2, 3]
    np.testing.assert_array_equal(duplicate(ops.relu(X)).numpy(), [1, 0, 2])


@pytest.mark.parametrize("duplicate", COPIES, ids=["deepcopy", "pickle"])
def test_what_is_shared_stays_shared(duplicate: Callable[[Any], Any]) -> None:
    small = Small()
    small.blocks[1].a.weight = small.blocks[0].a.weight
    copied = duplicate(small)
    assert copied.blocks[1].a.weight is copied.blocks[0].a.weight


def test_loaded_model_says_how_to_send_it(tmp_path: Path) -> None:
    for made in (loaded(tmp_path), burnx.compile(Doubled())):
        with pytest.raises(BurnxError, match="is not pickled or copied: send"):
            pickle.dumps(made)


# ------------------------------------------------------------------------------------ finding one's way
def test_operator_says_what_it_takes() -> None:
    parameters = inspect.signature(ops.leaky_relu).parameters
    assert list(parameters) == ["x", "alpha"] and parameters["alpha"].default == 0.01
    assert inspect.getdoc(ops.leaky_relu).splitlines()[0].startswith("leaky_relu(x: ")  # type: ignore[union-attr]
    assert "leaky_relu(x: " in pydoc.render_doc(ops.leaky_relu)
    with pytest.raises(TypeError, match="no input or attribute 'slope'; it has x, alpha"):
        ops.leaky_relu(X, slope=0.1)


def test_name_that_is_not_there_leads_to_one_that_is() -> None:
    with pytest.raises(AttributeError, match=r"no operator 'matmul'; did you mean 'mat_mul'\?"):
        _ = ops.matmul
    with pytest.raises(AttributeError, match=r"no operator 'zzz'$"):
        _ = ops.zzz
    with pytest.raises(AttributeError, match=r"no 'ReLU': .* function of burnx\.ops"):
        _ = nn.ReLU  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------ sizes that only running tells
ODD_SIZES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str]] = {
    "matmul": (lambda a, b: a @ b, ((2, 3), (4, 3)), r"equal inner .*\(2, 3\) times \(4, 3\)"),
    "concat": (
        lambda a, b: ops.concat(a, b, axis=0),
        ((2, 3), (4, 2)),
        r"but along axis 0: \(2, 3\) and \(4, 2\)",
    ),
    "conv": (ops.conv, ((1, 3, 4, 4), (2, 2, 3, 3)), "needs 2 input channels"),
    "depthwise": (lambda a, b: ops.conv(a, b, group=4), ((1, 4, 4), (4, 2, 3)), "needs 8 input"),
    "split": (lambda a: ops.split(a, [1, 2], outputs=2)[0], ((2, 3),), r'node "output" \(Split\)'),
    "split short": (
        lambda a: ops.split(a, [1, 2], outputs=2)[0],
        ((5, 3),),
        r"\(3, 3\) has 9, \(1, 3\)",
    ),
}


@pytest.mark.parametrize("case", ODD_SIZES)
def test_sizes_that_do_not_fit_are_named_while_running(case: str, tmp_path: Path) -> None:
    function, shapes, message = ODD_SIZES[case]
    names, path = "ab"[: len(shapes)], tmp_path / "m.onnx"
    examples = {"conv": [(1, 2, 4, 4), (2, 2, 3, 3)], "depthwise": [(1, 8, 4), (4, 2, 3)]}
    fitting = examples.get(case, [(3, 3)] * len(shapes))
    burnx.export_onnx(
        (lambda a: function(a)) if len(shapes) == 1 else (lambda a, b: function(a, b)),
        {name: np.ones(shape, np.float32) for name, shape in zip(names, fitting, strict=True)},
        path,
        dynamic={name: {i: f"{name}{i}" for i in range(len(shapes[0]))} for name in names},
    )
    model = burnx.load(path)
    model(*(np.ones(shape, np.float32) for shape in fitting))
    with pytest.raises(ShapeError, match=message):
        model(*(np.ones(shape, np.float32) for shape in shapes))


@pytest.mark.parametrize("place", [0, 1])
def test_export_keeps_an_output_that_the_standard_wants(place: int, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    burnx.export_onnx(lambda x: ops.top_k(x, [2])[place], {"x": X}, path)
    assert burnx.load(path)(X).tolist() == [[2, 1], [2, 0]][place]


def test_operations_of_generated_source_are_those_of_the_file() -> None:
    graph = burnx.trace(nn.Linear(3, 2), X[None])
    assert [count_flops(node, {}) for node in graph.nodes] == [2 * 3 * 2]


def test_index_out_of_range_is_found_at_its_line() -> None:
    picked = ops.gather(X, np.array([9]))
    with pytest.raises(
        ShapeError, match=r"found 9 to 9, node \(Gather\) at test_first_use\.py:\d+"
    ):
        picked.numpy()


# ------------------------------------------------------------------------------------ dims
class Fixed(nn.Module):
    inputs = (nn.Input("x", "float32", (1, 3)), nn.Input("y", "float32", (1, 3)))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


def test_example_of_a_dynamic_axis_may_have_any_size(tmp_path: Path) -> None:
    path, two = tmp_path / "m.onnx", np.ones((2, 3), np.float32)
    axes = {"x": {0: "n"}, "y": {-2: "n"}}
    burnx.export_onnx(Fixed(), {"x": two, "y": two}, path, dynamic=axes)
    assert burnx.load(path)(two, two).shape == (2, 3)
    for wrong in (two[:1], two[:, :2]):
        with pytest.raises(BurnxError, match=r'input "y" has shape \(n, 3\)'):
            burnx.export_onnx(Fixed(), {"x": two, "y": wrong}, path, dynamic=axes)


def test_output_that_is_not_declared_gets_a_name(tmp_path: Path) -> None:
    source = tmp_path / "two.py"
    source.write_text(
        "from burnx import Input, Output, nn\n"
        "class Model(nn.Module):\n"
        "    inputs = (Input('x', 'float32', (3,)),)\n"
        "    outputs = (Output('y', 'float32', (3,)),)\n"
        "    def forward(self, x): return x, x + 1\n"
    )
    with pytest.warns(UserWarning, match=r'add Output\("output_1", "float32", \(3,\)\)'):
        loaded = burnx.load(source)
    assert list(loaded.run({"x": X})) == ["y", "output_1"]


class Tied(nn.Module):
    def __init__(self) -> None:
        self.table, self.head = nn.Embedding(5, 2), nn.Linear(2, 5, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table(x) + 1)


def test_source_counts_a_shared_weight_once(tmp_path: Path) -> None:
    burnx.export_onnx(Tied(), {"x": np.array([[0, 4]])}, tmp_path / "m.onnx")
    report = burnx.import_onnx(tmp_path / "m.onnx", tmp_path / "m.py")
    assert report.parameters == 10 and "m: 10 parameters, from" in (tmp_path / "m.py").read_text()


# ------------------------------------------------------------------------------------ weights that were changed
RENAMED = """<ir_version: 8, opset_import: ["": 17]>
g (float[1, 2] x) => (float[1, 2] y)
<float[2, 2] "onnx::MatMul_7" = {1, 2, 3, 4}, float[2] "a/b" = {5, 6}>
{ h = MatMul(x, "onnx::MatMul_7")
  y = Add(h, "a/b") }"""


def test_saved_weights_keep_the_names_of_the_model(tmp_path: Path) -> None:
    file, source = tmp_path / "m.onnx", tmp_path / "m.py"
    onnx.save(onnx.parser.parse_model(RENAMED), file)
    burnx.import_onnx(file, source)
    before = dict(open_weights(tmp_path / "m.safetensors"))
    network = load_network(source)
    for parameter in network.parameters():
        parameter.data = parameter.data * 2
    network.save_weights(tmp_path / "m.safetensors")
    after = open_weights(tmp_path / "m.safetensors")
    assert set(after) == set(before) and "a/b" in before
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array * 2)
    x = np.ones((1, 2), np.float32)
    np.testing.assert_array_equal(burnx.load(source)(x), 2 * burnx.load(file)(x))


def test_names_that_clash_lose_no_weight() -> None:
    one, two, three = (np.full(1, size, np.float32) for size in range(3))
    tensors, metadata = under_original_names([("a", "b", one), ("b", "b", two), ("c", "b", one)])
    assert [float(array[0]) for array in tensors.values()] == [0, 1]
    names = json.loads(metadata[ORIGINAL_NAMES])
    assert {path: tensors[name] is one for path, name in names.items()} == {
        "a": True,
        "b": False,
        "c": True,
    }
    assert under_original_names([("a", "a", three)]) == ({"a": three}, {})


def test_saved_shared_weight_stays_one(tmp_path: Path) -> None:
    tied, path = Tied(), tmp_path / "tied.safetensors"
    tied.head.weight = nn.Parameter(5, 2)
    tied.head.weight.data = tied.table.weight.data
    tied.save_weights(path)
    assert len(open_weights(path)) == 1
    found = Tied.load(path)
    np.testing.assert_array_equal(found.head.weight.data, tied.table.weight.data)
