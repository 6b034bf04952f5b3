"""Models that are damaged, contradict themselves or hide code: one clear error, nothing written, nothing run."""

from __future__ import annotations

import ast
import pickle
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import burnx
from burnx.cli import main
from burnx.errors import BurnxError, ModelError, UnsupportedError, UsageError, WeightsError

Node = helper.make_node
EVIL = [
    'a"b',
    "a\nimport os",
    '"""',
    "'''",
    "a\\",
    "\u202eabc",
    "\u2028",
    "\x1b[31m",
    '"""\nopen("PWNED", "w")\n"""',
    '__import__("os").system("touch PWNED")',
    "{{7*7}}",
    "%s",
    "self",
    "class",
    "None",
    "print",
    "Tensor",
    "ops",
    "forward",
    "__init__",
    "inputs",
    "WEIGHTS",
    "x.y",
    "x/y",
    "x_y",
    "X",
    "x",
    "1",
    "ｘ",
    "a" * 10_000,
]


def value(name: str, shape: Any = ("N", 3), dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: list[Any], arrays: dict[str, Any] | None = None, opset: int = 17, **domains: int
) -> ModelProto:
    """x -> y, both float32 (N, 3), and constants."""
    constants = [numpy_helper.from_array(array, name) for name, array in (arrays or {}).items()]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], constants)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(name, version) for name, version in domains.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def changed(change: Callable[[ModelProto], object]) -> ModelProto:
    result = model([Node("Relu", ["x"], ["y"])])
    change(result)
    return result


def calls_doubling(depth: int) -> ModelProto:
    """Few functions that stand for 2**depth nodes."""
    result = model([Node(f"F{depth}", ["x"], ["y"], domain="d")], d=1)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    bodies = [[Node("Relu", ["a"], ["b"])]]
    for step in range(depth):
        twice = (("a", "c"), ("c", "b"))
        bodies.append([Node(f"F{step}", [a], [b], domain="d") for a, b in twice])
    for step, body in enumerate(bodies):
        result.functions.append(helper.make_function("d", f"F{step}", ["a"], ["b"], body, imports))
    return result


WRONG: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "cycle": (
        lambda: model([Node("Add", ["x", "b"], ["a"]), Node("Add", ["a", "x"], ["b"])]),
        "wait for each other",
    ),
    "two nodes for a value": (lambda: model([Node("Relu", ["x"], ["y"])] * 2), "two nodes give"),
    "undefined input": (
        lambda: model([Node("Add", ["x", "nope"], ["y"], name="n")]),
        '"nope".*"n"',
    ),
    "undefined output": (lambda: model([Node("Relu", ["x"], ["z"])]), '"y"'),
    "two inputs": (lambda: changed(lambda m: m.graph.input.append(value("x"))), 'inputs.*"x"'),
    "attribute of another kind": (
        lambda: model([Node("Softmax", ["x"], ["y"], axis=1.5, name="n")]),
        'axis.*INT, not FLOAT.*"n"',
    ),
    "text for numbers": (
        lambda: model([Node("Transpose", ["x"], ["y"], perm="10")]),
        "perm.*INTS, not STRING",
    ),
    "a graph for a number": (
        lambda: model([Node("Softmax", ["x"], ["y"], axis=helper.make_graph([], "g", [], []))]),
        "axis.*INT, not GRAPH",
    ),
    "unknown attribute": (lambda: model([Node("Relu", ["x"], ["y"], zap=1)]), "zap"),
    "missing attribute": (
        lambda: model([Node("Concat", ["x", "x"], ["y"], name="cat")]),
        "needs its attribute 'axis'.*\"cat\"",
    ),
    "missing input": (lambda: model([Node("Add", ["x"], ["y"])]), "needs its input"),
    "too many inputs": (lambda: model([Node("Relu", ["x", "x"], ["y"])]), "takes 1 inputs"),
    "axis out of range": (lambda: model([Node("Softmax", ["x"], ["y"], axis=2**62)]), "axis"),
    "huge reshape": (
        lambda: model(
            [Node("Reshape", ["w", "s"], ["y"])], {"w": np.ones(6), "s": np.array([10**12])}
        ),
        "element count",
    ),
    "opset of the future": (lambda: model([Node("Relu", ["x"], ["y"])], opset=99), "opset 99"),
    "no opset": (lambda: changed(lambda m: m.ClearField("opset_import")), "opset import"),
    "no IR version": (lambda: changed(lambda m: m.ClearField("ir_version")), "IR version"),
    "no type": (lambda: changed(lambda m: m.graph.input[0].ClearField("type")), "without a type"),
    "a dtype that is none": (
        lambda: changed(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 77)),
        "77",
    ),
    "another dtype than declared": (
        lambda: changed(lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 3)),
        "declared as int8",
    ),
    "functions without end": (lambda: calls_doubling(30), "at most 1,000,000 nodes"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_contradicts_itself_is_refused(name: str, folder: Path) -> None:
    build, message = WRONG[name]
    with pytest.raises(BurnxError, match=message) as caught:
        burnx.import_onnx(build(), "m.py")
    assert "Error:" not in str(caught.value)
    assert str(caught.value).count("node ") <= 1
    assert not list(folder.iterdir())


def test_all_that_is_unsupported_is_in_one_report(folder: Path) -> None:
    nodes = [
        Node("Foo", ["x"], ["a"], name="first"),
        Node("Bar", ["a"], ["b"], domain="mine"),
        Node("Foo", ["b"], ["c"]),
        Node("Relu", ["c"], ["y"]),
    ]
    with pytest.raises(UnsupportedError) as caught:
        burnx.import_onnx(model(nodes, mine=3), "m.py")
    report = str(caught.value).splitlines()[1:]
    assert len(report) == 2
    assert 'Foo (opset 17): 2 nodes, first "first"' in report[0]
    assert 'mine.Bar (opset 3): 1 node, first "b"' in report[1]
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("declared", "warns"),
    [((2, 3), False), (("n", 3), False), ((3, 2), True), ((2, 3, 1), True), (None, False)],
)
def test_an_output_is_not_what_it_is_declared_to_be(
    folder: Path, capsys: pytest.CaptureFixture[str], declared: Any, warns: bool
) -> None:
    """onnxruntime warns as well, and gives what the nodes give."""
    wrong = model([Node("Relu", ["x"], ["y"], name="n")])
    wrong.graph.input[0].CopyFrom(value("x", [2, 3]))
    wrong.graph.output[0].CopyFrom(value("y", declared))
    onnx.save(wrong, "m.onnx")
    assert main(["run", "m.onnx"]) == 0
    said = capsys.readouterr().err
    assert ('warning: output "y" is declared as float32' in said) is warns
    assert ("but its nodes give float32(2, 3), node" in said) is warns
    if warns:
        with pytest.warns(UserWarning, match="declared as"):
            found = burnx.load("m.onnx").run({"x": np.ones((2, 3), np.float32)})
        assert found["y"].shape == (2, 3)


@pytest.mark.parametrize("shape", [[10**13], [2**62], [10**9, 10**9]])
def test_more_than_memory_holds_is_an_error_that_says_so(shape: list[int]) -> None:
    huge = model([Node("ConstantOfShape", ["s"], ["y"])], {"s": np.array(shape)})
    huge.graph.output[0].CopyFrom(value("y", [None] * len(shape)))
    with pytest.raises(BurnxError):
        burnx.load(huge).run({"x": np.ones((1, 3), np.float32)})


def test_damage_anywhere_is_one_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        Node("MatMul", ["x", "w"], ["p"], name="product"),
        Node("Reshape", ["p", "s"], ["r"]),
        Node("Softmax", ["r"], ["y"], axis=1),
    ]
    arrays = {"w": np.eye(3, dtype=np.float32), "s": np.array([-1, 3])}
    data = model(nodes, arrays).SerializeToString()
    draw = random.Random(0)
    damaged = [data[:size] for size in range(0, len(data), 7)]
    for _ in range(200):
        place = draw.randrange(len(data))
        damaged.append(data[:place] + bytes([draw.randrange(256)]) + data[place + 1 :])
    for content in damaged:
        Path("m.onnx").write_bytes(content)
        status = main(["import", "m.onnx", "--force"])
        said = capsys.readouterr().err
        assert "internal" not in said
        assert said.count("error:") == status, said
        assert status or Path("m.py").exists()
        Path("m.py").unlink(missing_ok=True)


def test_bodies_deeper_than_protobuf_allows() -> None:
    def field(number: int, content: bytes) -> bytes:
        size, length = b"", len(content)
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        return bytes([number << 3 | 2]) + size + bytes([length]) + content

    graph = b""
    for _ in range(200):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    with pytest.raises(ModelError):
        burnx.load(b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11"))


def test_a_long_chain_meets_no_recursion_limit(folder: Path) -> None:
    count = 3000
    names = ["x", *(f"v{place}" for place in range(1, count)), "y"]
    nodes = [Node("Add", [a, "w"], [b]) for a, b in pairwise(names)]
    burnx.import_onnx(model(nodes, {"w": np.ones(3, np.float32)}), "m.py")
    x = np.zeros((1, 3), np.float32)
    assert burnx.load("m.py").run({"x": x})["y"].tolist() == [[count] * 3]


def evil_model() -> ModelProto:
    nodes, inputs, outputs, arrays = [], [], [], []
    for place, text in enumerate(EVIL):
        inputs.append(value(text, [text[:3000], 2]))
        outputs.append(value(f"{text}Y", [text[:3000], 2]))
        arrays.append(numpy_helper.from_array(np.full(2, place, np.float32), f"{text}W"))
        nodes.append(Node("Add", [text, f"{text}W"], [f"{text}M"], name=text, doc_string=text))
        nodes.append(Node("Relu", [f"{text}M"], [f"{text}Y"], name=f"/{text}/{text}/relu"))
    graph = helper.make_graph(nodes, EVIL[8], inputs, outputs, arrays, doc_string=EVIL[8] * 10_000)
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    result.producer_name, result.doc_string = EVIL[8], EVIL[8]
    helper.set_model_props(result, {text: text for text in EVIL})
    return result


@pytest.mark.parametrize("flat", [False, True])
def test_the_text_of_a_model_never_becomes_code(folder: Path, flat: bool) -> None:
    burnx.import_onnx(evil_model(), "evil.py", flat=flat)
    text = Path("evil.py").read_text(encoding="utf-8")
    ast.parse(text)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert main(["export", "evil.py", "-o", "again.onnx"]) == 0
    again = onnx.load("again.onnx")
    assert [each.name for each in again.graph.input] == EVIL
    assert [each.name for each in again.graph.output] == [f"{text}Y" for text in EVIL]
    assert {each.name for each in again.graph.initializer} == {f"{text}W" for text in EVIL}
    assert not Path("PWNED").exists()


def test_text_that_is_not_utf8_is_refused() -> None:
    data = model([Node("Relu", ["x"], ["y"], name="name")]).SerializeToString()
    with pytest.raises(ModelError, match="UTF-8"):
        burnx.load(data.replace(b"name", b"n\xffme"))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("PWNED"),))


def test_a_checkpoint_is_read_without_running_it(folder: Path) -> None:
    Path("evil.pt").write_bytes(pickle.dumps({"w": Evil()}, 2))
    with pytest.raises(WeightsError, match="reads tensors only"):
        burnx.import_onnx("evil.pt", "m.py")
    from burnx.weights import save_weights

    save_weights("sound.safetensors", {"w": np.ones(2, np.float32)})
    burnx.import_onnx("sound.safetensors", "m.py")
    names = ["evil.pt", "m.py", "sound.safetensors"]
    assert sorted(each.name for each in folder.iterdir()) == names


def test_only_what_burnx_wrote_is_replaced(folder: Path) -> None:
    layer = model([Node("MatMul", ["x", "w"], ["y"])], {"w": np.eye(3, dtype=np.float32)})
    Path("m.safetensors").write_text("weights of another program")
    with pytest.raises(UsageError, match="no source of burnx names it"):
        burnx.import_onnx(layer, "m.py")
    assert not Path("m.py").exists()
    burnx.import_onnx(layer, "m.py", force=True)
    burnx.import_onnx(layer, "m.py")
    with Path("m.py").open("a") as file:
        file.write("# mine\n")
    with pytest.raises(UsageError, match="was edited"):
        burnx.import_onnx(layer, "m.py")
    for name in ("class", "Tensor", "a b"):
        with pytest.raises(UsageError, match="class name"):
            burnx.import_onnx(layer, "n.py", name=name)


def test_weights_may_lie_elsewhere(folder: Path) -> None:
    Path("sub").mkdir()
    layer = model([Node("MatMul", ["x", "w"], ["y"])], {"w": 2 * np.eye(3, dtype=np.float32)})
    burnx.import_onnx(layer, "m.py", weights="sub/w.bin")
    x = np.ones((1, 3), np.float32)
    assert burnx.load("m.py").run({"x": x})["y"].tolist() == [[2, 2, 2]]
