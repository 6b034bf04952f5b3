"""The outputs that a module declares are those that its forward gives, when it is written or run by their names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import burnx
from burnx import Input, Output, Tensor, nn, ops
from burnx.capture.lazy import default_recorder
from burnx.errors import InputError, ModelError
from burnx.nn.declared import declared_type, entry_of

ONE = (Output("y", "float32", ("n", 4)),)
TWO = (*ONE, Output("z", "float32", ("n", 2)))


def module_of(
    forward: Callable[..., Any],
    outputs: tuple[Output, ...],
    dims: tuple[int | str | None, ...] = ("n", 4),
) -> nn.Module:
    """A module of one input that declares these outputs."""
    body = {"inputs": (Input("x", "float32", dims),), "outputs": outputs}
    return type("Edited", (nn.Module,), {**body, "forward": forward})()


WRONG: dict[str, tuple[tuple[Output, ...], Callable[..., Any], tuple[str, ...]]] = {
    "one more": (
        ONE,
        lambda _, x: (x, x[:, :2]),
        ("declares 1, forward gives 2", 'add Output("output_1", "float32", ("n", 2))'),
    ),
    "one more in front": (
        TWO,
        lambda _, x: (x[:, 0], x, x[:, :2]),
        ("forward gives 3", 'add Output("output_0", "float32", ("n",))'),
    ),
    "one less": (
        TWO,
        lambda _, x: x[:, :2],
        ("declares 2, forward gives 1", 'leave out Output("y", "float32", ("n", 4))'),
    ),
    "another size": (
        ONE,
        lambda _, x: x[:, :3],
        ('write Output("y", "float32", ("n", 3)) for Output("y", "float32", ("n", 4))',),
    ),
    "another rank": (ONE, lambda _, x: x[:, 0], ('write Output("y", "float32", ("n",)) for',)),
    "another dtype": (
        ONE,
        lambda _, x: x.astype("float64"),
        ('write Output("y", "float64", ("n", 4)) for',),
    ),
    "another kind": (
        ONE,
        lambda _, x: ops.sequence_construct(x),
        ('write Output("y", "float32", (None, 4), kind="sequence") for',),
    ),
    "in another order": (
        TWO,
        lambda _, x: (x[:, :2], x),
        ('write Output("y", "float32", ("n", 2))', 'write Output("z", "float32", ("n", 4))'),
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_other_outputs_than_declared_are_an_error_that_says_what_to_write(
    kind: str, tmp_path: Path
) -> None:
    outputs, forward, says = WRONG[kind]
    with pytest.raises(ModelError) as caught:
        burnx.export_onnx(module_of(forward, outputs), {}, tmp_path / "m.onnx")
    for part in ("Edited in ", "test_declared_outputs.py", *says):
        assert part in str(caught.value)
    assert not (tmp_path / "m.onnx").exists()


def test_entries_that_fit_keep_their_names_in_the_advice(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        burnx.export_onnx(module_of(WRONG["one less"][1], TWO), {}, tmp_path / "m.onnx")
    assert '"z"' not in str(caught.value)


def test_advice_on_many_outputs_stays_readable(tmp_path: Path) -> None:
    many = tuple(Output(f"present.{place}", "float32", ("n", 4)) for place in range(100))
    with pytest.raises(ModelError, match="… and 82 more") as caught:
        burnx.export_onnx(module_of(lambda _, x: (x, x), many), {}, tmp_path / "m.onnx")
    assert 'leave out Output("present.2"' in str(caught.value)
    assert len(str(caught.value).splitlines()) == 18


@pytest.mark.parametrize(
    ("dims", "outputs"),
    [
        (("n", 4), ()),
        (("n", 4), (Output("y", "float32", ("rows", "columns")),)),
        (("n", 4), (Output("y", "float32", (1, 4)),)),  # an axis that was opened
        ((3, 4), ONE),  # an axis that was given a size
        (("n", 4), (Output("y", "float32", None),)),
        ((None, 4), ONE),
    ],
)
def test_sizes_that_nobody_can_tell_apart_agree(
    dims: tuple[int | str | None, ...], outputs: tuple[Output, ...], tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    burnx.export_onnx(module_of(lambda _, x: ops.relu(x), outputs, dims), {}, path)
    (found,) = onnx.load(path).graph.output
    assert found.name == (outputs[0].name if outputs else "output")


def test_an_axis_opened_for_the_file_agrees(tmp_path: Path) -> None:
    fixed = module_of(lambda _, x: ops.relu(x), (Output("y", "float32", (1, 4)),), (1, 4))
    burnx.export_onnx(fixed, {}, tmp_path / "m.onnx", dynamic={"x": {0: "rows"}})
    (found,) = onnx.load(tmp_path / "m.onnx").graph.output
    assert found.type.tensor_type.shape.dim[0].dim_param == "rows"


def test_what_has_no_axes_is_not_opened(tmp_path: Path) -> None:
    listed = Input("xs", "float32", ("n",), kind="sequence")
    body = {"inputs": (listed,), "forward": lambda _, xs: ops.sequence_length(xs)}
    with pytest.raises(InputError, match='"xs" is a sequence.*no axes to open'):
        burnx.export_onnx(type("M", (nn.Module,), body)(), {}, tmp_path / "m", {"xs": {0: "n"}})


@pytest.mark.parametrize(
    "forward",
    [lambda _, x: x[1:], lambda _, x: x.transpose(), lambda _, x: x.reshape(-1, 2)],
)
def test_a_size_that_depends_on_inputs_in_another_way_is_warned_of(
    forward: Callable[..., Any], tmp_path: Path
) -> None:
    module = module_of(forward, (Output("y", "float32", ("n", "m")),), ("n", "m"))
    with pytest.warns(UserWarning, match=r'declares Output\("y".*which is what is written'):
        burnx.export_onnx(module, {}, tmp_path / "m.onnx")


def test_a_size_that_is_said_in_other_words_is_the_same(tmp_path: Path) -> None:
    outputs = (Output("y", "float32", ("n - n//2",)),)  # beside (n + 1)//2
    burnx.export_onnx(module_of(lambda _, x: x[::2], outputs, ("n",)), {}, tmp_path / "m.onnx")


def test_a_size_of_two_inputs_that_broadcast_is_that_of_either(tmp_path: Path) -> None:
    class Added(nn.Module):
        inputs = (Input("x", "float32", ("n",)), Input("y", "float32", ("m",)))
        outputs = (Output("z", "float32", ("n",)),)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    burnx.export_onnx(Added(), {}, tmp_path / "m.onnx")


def test_names_are_those_of_the_outputs_in_what_is_loaded(tmp_path: Path) -> None:
    source = """
from burnx import Input, Output, Tensor, nn
class Model(nn.Module):
    inputs = (Input("x", "float32", ("n", 4)),)
    outputs = (Output("y", "float32", ("n", 4)),)
    def forward(self, x: Tensor):
        return RETURNED
"""
    x = np.ones((2, 4), np.float32)
    path = tmp_path / "model.py"
    path.write_text(source.replace("RETURNED", "x[:, :2], x"))
    with pytest.raises(ModelError, match=r'Model in .*model\.py.*\n  add Output\("output_0"'):
        burnx.load(path)
    path.write_text(source.replace("RETURNED", "x[:, :2]"))  # a head cut off: it runs as it is
    loaded = burnx.load(path)
    assert [entry.dims for entry in loaded.outputs] == [("n", 2)]
    assert loaded.run({"x": x})["y"].shape == (2, 2)


def test_a_trace_gives_no_name_to_another_output() -> None:
    module = module_of(WRONG["one more"][1], ONE)
    assert burnx.trace(module).output_names == ["", ""]
    first, second = burnx.compile(module)(np.ones((2, 4), np.float32))
    assert (first.shape, second.shape) == ((2, 4), (2, 2))


@pytest.mark.parametrize(
    "entry",
    [
        Output("y", "float32", ("n", 4, None, "2*n + 1")),
        Output("y", "bfloat16", None),
        Output("y", "int64", (), kind="sequence"),
        Output("y", "string", ("n",), kind="optional(sequence)"),
        Output("y", "int64", None, kind="map(float32)"),
        Output("y", "string", None, kind="sequence(map(float32))"),
    ],
)
def test_a_declaration_is_that_of_its_type(entry: Output) -> None:
    assert entry_of("y", declared_type(entry)) == entry


def test_what_forward_gives_may_be_plain_tensors(tmp_path: Path) -> None:
    constant: Tensor = default_recorder().constant(np.ones((3, 4), np.float32))
    burnx.export_onnx(module_of(lambda _, x: constant, ONE), {}, tmp_path / "m.onnx")
