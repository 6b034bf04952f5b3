"""Calls on tensors: worked out when asked for in plain code, recorded while a model is captured."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import Tensor, nn, ops
from burnx.errors import BurnxError, DTypeError, InputError, ShapeError, TraceError

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def tensor(array: Any) -> Tensor:
    result: Tensor = ops.identity(array)
    return result


# ------------------------------------------------------------------------------------ plain calls
def test_plain_call_is_worked_out_when_asked_for() -> None:
    y = tensor(X) * 2 + 1
    assert y.ref.array is None
    np.testing.assert_array_equal(y.numpy(), X * 2 + 1)
    assert y.ref.array is not None


def test_operators_work_without_anything_else_imported() -> None:
    code = "from burnx import ops; import numpy; print(ops.neg(numpy.ones(1)).numpy())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[-1.]\n", done.stderr


def test_size_that_depends_on_data_is_a_number() -> None:
    assert ops.non_zero(tensor(X) > 3).shape == (2, 8)


def test_what_the_caller_writes_later_changes_nothing() -> None:
    given = X.copy()
    before, module = ops.identity(given) + 1, nn.Linear(4, 2)
    result = module(given)
    expected = given @ module.weight.data.T
    given[:] = -7
    np.testing.assert_array_equal(before.numpy(), X + 1)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)


def test_output_shares_no_memory_with_an_input() -> None:
    given = X.copy()
    ways: list[Callable[[Any], Any]] = [
        lambda x: ops.identity(x),
        lambda x: ops.reshape(x, [4, 3]),
        lambda x: ops.identity(x)[1:],
    ]
    for function in ways:
        assert not np.shares_memory(function(given).numpy(), given)
        assert not np.shares_memory(burnx.compile(function)(given).numpy(), given)


def test_python_decides_on_values() -> None:
    x, turns = tensor(X), 0
    chosen = x + 1 if x.sum() > 3 else x - 1
    while x.max() > 1:
        x, turns = x / 2, turns + 1
    np.testing.assert_array_equal(chosen.numpy(), X + 1)
    assert turns == 4
    assert [row.numpy().tolist() for row in tensor(X)] == X.tolist()
    assert (int(tensor(X).sum()), float(tensor(X).mean()), len(tensor(X))) == (66, 5.5, 3)
    assert tensor(X).max().item() == 11.0
    assert [5, 6, 7][tensor(np.array(1))] == 6


def test_truth_of_several_elements_is_an_error() -> None:
    for kind in (ValueError, BurnxError):
        with pytest.raises(kind, match="ambiguous"):
            bool(tensor(X) > 3)


def test_numpy_takes_tensors_and_gives_them() -> None:
    x = tensor(X)
    np.testing.assert_array_equal(np.from_dlpack(x), X)
    np.testing.assert_array_equal(np.asarray(x), X)
    for sum_of in (X + x, x + X):
        assert isinstance(sum_of, Tensor)
        np.testing.assert_array_equal(sum_of.numpy(), X + X)


# ------------------------------------------------------------------------------------ indexing and methods
INDICES: dict[str, Callable[[Any], Any]] = {
    "int": lambda x: x[0],
    "negative int": lambda x: x[-2],
    "slice": lambda x: x[:, 1:3],
    "past the end": lambda x: x[1:100],
    "last": lambda x: x[-1:],
    "ellipsis": lambda x: x[..., -1],
    "new axis": lambda x: x[None],
    "new last axis": lambda x: x[..., None],
    "new axis between": lambda x: x[:, None, 1],
    "backwards": lambda x: x[::-1],
    "backwards by two": lambda x: x[:, ::-2],
    "backwards between": lambda x: x[2:0:-1],
    "element": lambda x: x[1, 2],
    "list": lambda x: x[[2, 0]],
    "list behind a slice": lambda x: x[:, [1, -1]],
    "array of two axes": lambda x: x[np.array([[0, 1], [2, 2]])],
    "NumPy number": lambda x: x[np.int64(1)],
    "everything": lambda x: x[...],
}


@pytest.mark.parametrize("name", INDICES)
def test_index_means_what_it_means_in_numpy(name: str) -> None:
    expected = INDICES[name](X)
    plain, compiled = INDICES[name](tensor(X)), burnx.compile(INDICES[name])(X)
    for found in (plain.numpy(), compiled.numpy()):
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


def test_index_may_be_a_tensor() -> None:
    rows = tensor(np.array([[2, 0]]))
    np.testing.assert_array_equal(tensor(X)[rows].numpy(), X[[[2, 0]]])
    np.testing.assert_array_equal(tensor(X)[:, rows].numpy(), X[:, [[2, 0]]])


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (5, ShapeError),
        (-4, ShapeError),
        ((0, 0, 0), ShapeError),
        ((..., ...), ShapeError),
        (([0, 1], [1, 2]), ShapeError),
        (1.5, DTypeError),
        (True, DTypeError),
        ("a", DTypeError),
        (np.array([True, False, True]), DTypeError),
    ],
    ids=str,
)
def test_index_that_would_be_misread_is_an_error(index: Any, error: type[BurnxError]) -> None:
    with pytest.raises(error, match=r"test_capture\.py:\d+"):
        tensor(X)[index]


METHODS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "sum of axes": lambda x: x.sum((0, 1)),
    "mean": lambda x: x.mean(axis=-1, keepdims=True),
    "max": lambda x: x.max(0),
    "min": lambda x: x.min(),
    "prod": lambda x: x.prod(1),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(0),
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(1, 0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "reshape": lambda x: x.reshape(2, -1),
    "reshape to a tuple": lambda x: x.reshape((4, 3)),
    "astype": lambda x: x.astype("int32"),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x[None].squeeze(0),
    "clip": lambda x: x.clip(2, 5),
    "negative": lambda x: -x,
    "abs": lambda x: abs(x - 5),
    "from a number": lambda x: 1 - x,
    "divided": lambda x: 1 / (x + 1),
    "power": lambda x: x**2,
    "power of a number": lambda x: 2**x,
    "remainder": lambda x: x % 5,
    "matmul": lambda x: x @ x.T,
    "comparison": lambda x: (x > 3) & ~(x >= 8) | (x == 0),
    "unequal": lambda x: x != 3,
}


@pytest.mark.parametrize("name", METHODS)
def test_method_means_what_it_means_in_numpy(name: str) -> None:
    expected, found = np.asarray(METHODS[name](X)), METHODS[name](tensor(X)).numpy()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool"])
def test_dtypes_are_never_mixed(dtype: str) -> None:
    other = np.ones(X.shape, dtype)
    for wrong in (lambda: tensor(X) + other, lambda: tensor(X) + tensor(other)):
        with pytest.raises(DTypeError, match="one dtype"):
            wrong()


def test_number_takes_the_dtype_of_its_operand() -> None:
    whole = tensor(np.arange(3, dtype=np.int32))
    assert (whole + 1).dtype == np.int32
    assert (tensor(X.astype(np.float16)) * 2.5).dtype == np.float16
    for kind in (TypeError, BurnxError):
        with pytest.raises(kind, match="does not fit"):
            whole + 1.5


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.relu(X, X),
        lambda: ops.relu(X, beta=1),
        lambda: ops.relu(None),
        lambda: ops.concat(X, X),
        lambda: ops.relu([1.0, [2.0]]),
        lambda: len(ops.neg(np.float32(1))),
        lambda: ops.neg(X).item(),
        lambda: int(ops.neg(X)),
        lambda: [1, 2, 3][ops.neg(np.float32(-1))],
        lambda: ops.neg(X).transpose(0, 3),
        lambda: ops.neg(X).swapaxes(0, 2),
        lambda: nn.Module()(X),
        lambda: burnx.scan(lambda s, t: (s,), [X], [X], axes=[2]),
        lambda: burnx.scan(lambda s, t: (s,), [X], [X], axes=[0, 1]),
        lambda: burnx.loop(lambda i, going, s: (going, None), X, trips=2),
        lambda: burnx.load(3),
        lambda: burnx.load("none.onnx", device=""),
    ],
)
def test_a_wrong_call_is_an_error_of_burnx(call: Callable[[], Any]) -> None:
    with pytest.raises(BurnxError):
        call()


# ------------------------------------------------------------------------------------ captured code
def decides(x: Tensor) -> Tensor:
    return x + 1 if x.sum() > 3 else x


def counts(x: Tensor) -> Tensor:
    while x.max() > 1:
        x = x / 2
    return x


def asks(x: Tensor) -> Tensor:
    return x * x.sum().item()


def converts(x: Tensor) -> Tensor:
    return x + np.asarray(x)


def writes(x: Tensor) -> Tensor:
    x[0] = 1
    return x


@pytest.mark.parametrize("function", [decides, counts, asks, converts, writes])
def test_decision_while_capturing_names_its_line(
    function: Callable[..., Any], tmp_path: Path
) -> None:
    first = function.__code__.co_firstlineno
    ways: list[Callable[[], Any]] = [
        lambda: burnx.trace(function, X),
        lambda: burnx.compile(function)(X),
        lambda: burnx.export_onnx(function, {"x": X}, tmp_path / "x.onnx"),
    ]
    for way in ways:
        with pytest.raises(TraceError) as caught:
            way()
        found = re.search(r"test_capture\.py:(\d+)", str(caught.value))
        assert found is not None
        assert first < int(found.group(1)) <= first + 3


def chosen(x: Tensor) -> Any:
    return burnx.cond(x.sum() > 3, lambda: x + 1, lambda: x - 1)


def looped(x: Tensor) -> Any:
    return burnx.loop(lambda i, going, s: (s.sum() < 100, s * 2, s[0]), x, trips=5, condition=True)


def scanned(x: Tensor) -> Any:
    zero = np.zeros(4, np.float32)
    return burnx.scan(lambda total, row: (total + row, total * row), [zero], [x])


def all_of(result: Any) -> list[Any]:
    return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]


def expected_of(function: Callable[..., Any], x: Any) -> list[Any]:
    if function is chosen:
        return [x + 1 if x.sum() > 3 else x - 1]
    items, state = [], x if function is looped else np.zeros(4, np.float32)
    if function is looped:
        going = True
        while len(items) < 5 and going:
            items.append(state[0])
            state, going = state * 2, state.sum() < 100
        return [state, np.stack(items)]
    for row in x:
        items.append(state * row)
        state = state + row
    return [state, np.stack(items)]


@pytest.mark.parametrize("function", [chosen, looped, scanned])
@pytest.mark.parametrize("scale", [1, -1])
def test_control_flow_plain_captured_and_exported(
    function: Callable[..., Any], scale: int, tmp_path: Path
) -> None:
    x = X * np.float32(scale)
    burnx.export_onnx(function, {"x": X}, tmp_path / "flow.onnx")
    loaded = burnx.load(tmp_path / "flow.onnx").run({"x": x})
    ways = [all_of(function(tensor(x))), all_of(burnx.compile(function)(x)), list(loaded.values())]
    expected = expected_of(function, x)
    for found in ways:
        assert len(found) == len(expected)
        for right, got in zip(expected, found, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-6)


# ------------------------------------------------------------------------------------ parameters
class Tied(nn.Module):
    """One table, looked up at the start and multiplied with at the end."""

    def __init__(self) -> None:
        self.table = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.table.weight
        self.scale = nn.Parameter(3, init="ones")

    def forward(self, indices: Tensor) -> Any:
        return self.head(self.table(indices) * (1 + self.scale) - self.scale[0])


def test_parameter_computes_like_a_tensor() -> None:
    weight = nn.Parameter(2, 3)
    data = weight.data
    np.testing.assert_array_equal((weight * 2 + 1).numpy(), data * 2 + 1)
    np.testing.assert_array_equal((1 - weight.T)[0].numpy(), (1 - data.T)[0])
    assert (weight.shape, weight.dtype) == ((2, 3), np.float32)


def test_tied_parameter_is_exported_once(tmp_path: Path) -> None:
    import onnx

    model, indices = Tied(), np.array([[0, 4]])
    burnx.export_onnx(model, {"indices": indices}, tmp_path / "tied.onnx")
    stored = onnx.load(tmp_path / "tied.onnx").graph.initializer
    assert [list(each.dims) for each in stored].count([5, 3]) == 1
    found = burnx.load(tmp_path / "tied.onnx")(indices)
    table = model.table.weight.data
    np.testing.assert_allclose(found, (table[indices] * 2 - 1) @ table.T, rtol=1e-5)
    np.testing.assert_allclose(model(indices).numpy(), found, rtol=1e-5)


# ------------------------------------------------------------------------------------ compile and run
def test_second_call_does_not_capture_again() -> None:
    seen: list[Any] = []

    def doubled(x: Tensor) -> Tensor:
        seen.append(x.shape)
        return x * 2

    compiled = burnx.compile(doubled)
    for array in (X, X + 1, X[:2], X[:2] + 1, X.astype(np.float64)):
        np.testing.assert_array_equal(compiled(array).numpy(), array * 2)
    assert seen == [(3, 4), (2, 4), (3, 4)]


def test_loaded_model_runs_in_several_threads(tmp_path: Path) -> None:
    def steps(x: Tensor) -> Any:
        return burnx.loop(lambda i, going, s: (True, s * 2 + 1), x, trips=6)

    burnx.export_onnx(steps, {"x": X}, tmp_path / "steps.onnx", dynamic={"x": {0: "batch"}})
    model = burnx.load(tmp_path / "steps.onnx")
    wrong: list[Any] = []

    def work(number: int) -> None:
        for size in range(1, 12):
            x = np.full((size, 4), number, np.float32)
            (found,) = model.run({"x": x}).values()
            if not np.array_equal(found, x * 64 + 63):
                wrong.append((number, size))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_strided_and_read_only_inputs_are_taken(tmp_path: Path) -> None:
    burnx.export_onnx(lambda x: x + 1, {"x": X}, tmp_path / "x.onnx")
    model = burnx.load(tmp_path / "x.onnx")
    frozen = X.copy()
    frozen.flags.writeable = False
    for given in (X.T.copy().T, frozen, np.repeat(X, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(model(given), given + 1)
    with pytest.raises(InputError, match="never casts"):
        model(X.astype(np.float64))


def test_an_empty_optional_is_worth_none_each_time() -> None:
    empty = ops.optional(type=ops.tensor_type("float32"))
    assert empty.numpy() is None
    assert empty.numpy() is None


def test_an_operator_is_a_function_to_compile() -> None:
    result = burnx.compile(ops.exp, "reference")(np.zeros(3, np.float32))
    np.testing.assert_array_equal(result.numpy(), np.ones(3, np.float32))
