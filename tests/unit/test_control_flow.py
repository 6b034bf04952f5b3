"""``@burnx.script``: a function's own if, while and for, captured as If, Loop and Scan."""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import burnx
from burnx import nn, ops

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 1
N = np.array(3, np.int64)


@burnx.script
def branches(x, n):
    if x.sum() > 100:
        y = x * 2
    elif x.sum() > 5 and not x.min() < -3:
        y, scale = x + 1, 3.0
        y = y * scale
    else:
        y = -x
    return y


@burnx.script
def ternary(x, n):
    return x * 2 if 0 < x.sum() < 100 or x.max() > 1000 else x


@burnx.script
def all_return(x, n):
    if x.sum() > 100:
        return x * 2
    x = x + 1
    if x.max() > 3:
        return x
    return -x


@burnx.script
def counting(x, n):
    total, rows = 0.0, []
    for i in range(n):
        total = total + x.sum() * ops.cast(i, to="float32")
        rows.append(total)
    return total, burnx.stack(rows)


@burnx.script
def from_to_by(x, n):
    seen = 0
    for i in range(1, n * 4, 3):
        seen = seen * 10 + i
    return seen


@burnx.script
def while_less(x, n):
    turns = 0
    while x.sum() < 100:
        x, turns = x * 2, turns + 1
    return x, turns


@burnx.script
def guarded_index(x, n):
    i = 0
    while i < n and x[0][i] < 1:
        i += 1
    return i


@burnx.script
def until(x, n):
    while True:
        x = x * 2
        if x.sum() > 50:
            break
    return x


@burnx.script
def ends_early(x, n):
    for _ in range(20):
        x = x * 2
        if x.sum() > 50:
            break
    return x


@burnx.script
def skips(x, n):
    total = 0
    for i in range(n * 5):
        if i % 2 == 0:
            continue
        if i > 7:
            break
        total = total + i
    return total


@burnx.script
def rows_of(x, n):
    last, rows = x[0] * 0, []
    for row in x:
        last = last + row
        rows.append(last * 2 if row[0] > 0 else last)
    return last, burnx.stack(rows, axis=1)


@burnx.script
def nested(x, n):
    out = []
    for i, (a, b) in enumerate(zip(x, reversed(x))):
        inner = []
        for value in a:
            if value > 0 and n > 1:
                value = value * 10
            inner.append(value + b[0])
        out.append(burnx.stack(inner) * ops.cast(i, to="float32"))
    return burnx.stack(out)


@burnx.script
def swaps(x, n):
    a, b = x, x * 2
    for _ in range(n):
        a, b = b, a + b
    return a, b


@burnx.script
def stays_python(x, n, layers=(1, 2), mask=None):
    if mask is None and len(layers) == 2:
        mask = 1
    found = []
    for place, layer in enumerate(layers):
        found += [x * layer]
        if place == 5 or mask is None:
            return x
    return found[0] + found[-1] * mask


FORMS = [branches, ternary, all_return, counting, from_to_by, while_less, guarded_index, until]
FORMS += [ends_early, skips, rows_of, nested, swaps, stays_python]


def arrays(results: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for each in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("function", FORMS, ids=lambda each: each.__name__)
def test_every_way_gives_what_python_does(function: Callable[..., Any], tmp_path: Path) -> None:
    expected = arrays(function.__wrapped__(X, N))  # type: ignore[attr-defined]
    path = tmp_path / "model.onnx"
    burnx.export_onnx(function, {"x": X, "n": N}, path)
    session = onnxruntime.InferenceSession(path)
    kept = {each.name: {"x": X, "n": N}[each.name] for each in session.get_inputs()}
    ways = {
        "arrays": arrays(function(X, N)),
        "tensors": arrays(function(ops.identity(X), ops.identity(N))),
        "compiled": arrays(burnx.compile(function)(X, N)),
        "exported": session.run(None, kept),
    }
    for way, results in ways.items():
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-6, err_msg=way)


def operators(function: Callable[..., Any], *inputs: Any) -> set[str]:
    found, graphs = set(), [burnx.trace(function, *inputs)]
    for graph in graphs:
        found |= {node.operator for node in graph.nodes}
        graphs += [inner for node in graph.nodes for inner in node.subgraphs()]
    return found & {"If", "Loop", "Scan"}


@pytest.mark.parametrize(
    "function, expected",
    [
        (branches, {"If"}),
        (counting, {"Loop"}),
        (until, {"Loop"}),
        (rows_of, {"Scan", "If"}),
        (stays_python, set()),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_decides_on_tensors_is_captured(function: Any, expected: set[str]) -> None:
    assert operators(function, X, N) == expected


# ------------------------------------------------------------------------------- what is refused
@burnx.script
def one_side(x, n):
    if x.sum() > 0:
        y = x
    return y


@burnx.script
def no_return(x, n):
    if x.sum() > 0:
        return x


@burnx.script
def return_in_loop(x, n):
    for row in x:
        if row.sum() > 0:
            return row
    return x[0]


@burnx.script
def changes_in_place(x, n):
    found = {}
    if x.sum() > 0:
        found["x"] = x
    return x


@burnx.script
def appends_sometimes(x, n):
    found = []
    for _ in range(n):
        x = x + 1
        if x.sum() > 0:
            found.append(x)
    return burnx.stack(found)


@burnx.script
def appends_twice(x, n):
    found = []
    for _ in range(n):
        found.append(x)
        found.append(x)
    return burnx.stack(found)


@burnx.script
def reads_the_list(x, n):
    found = []
    for _ in range(n):
        found.append(x)
        x = found[-1]
    return burnx.stack(found)


@burnx.script
def no_start(x, n):
    for _ in range(n):
        y = x * 2
    return y


@burnx.script
def none_or_tensor(x, n):
    y = None
    if x.sum() > 0:
        y = x
    return y


@burnx.script
def two_dtypes(x, n):
    return x if x.sum() > 0 else x.astype("int64")


@burnx.script
def many_elements(x, n):
    if x > 0:
        x = -x
    return x


@burnx.script
def grows_a_tuple(x, n):
    found = ()
    for _ in range(n):
        found = (*found, x)
    return found


@burnx.script
def uses_del(x, n):
    if x.sum() > 0:
        del n
    return x


REFUSED = [
    (one_side, 2, "'y' gets a value on one side"),
    (no_return, 2, "let both return one"),
    (return_in_loop, 2, "leave by break"),
    (changes_in_place, 3, "changes 'found' in place"),
    (appends_sometimes, 5, "changes 'found' in place"),
    (appends_twice, 3, "once in each turn, not 2 times"),
    (reads_the_list, 0, "cannot be read inside of it"),
    (no_start, 2, "give it a value before the loop"),
    (none_or_tensor, 3, "both sides give a tensor"),
    (two_dtypes, 2, "float32 and int64"),
    (many_elements, 2, "one element"),
    (grows_a_tuple, 3, "lists grow by .append"),
    (uses_del, 2, "it holds a del"),
]


@pytest.mark.parametrize(
    "function, line, said", REFUSED, ids=lambda each: getattr(each, "__name__", "")
)
def test_what_cannot_be_captured_is_told(function: Any, line: int, said: str) -> None:
    where = f"{Path(__file__).name}:{function.__code__.co_firstlineno + line}: " if line else ""
    for call in (
        lambda: burnx.trace(function, X, N),
        lambda: function(ops.identity(X), N + ops.identity(N)),
    ):
        with pytest.raises(burnx.BurnxError, match=re.escape(said)) as caught:
            call()
        assert str(caught.value).startswith(where)


def test_without_the_decorator_the_way_out_is_named() -> None:
    with pytest.raises(burnx.BurnxError, match="@burnx.script"):
        burnx.trace(lambda x: x if x.sum() > 0 else -x, X)


def test_only_functions_of_files_are_taken() -> None:
    with pytest.raises(burnx.BurnxError, match="written with def"):
        burnx.script(len)
    names: dict[str, Any] = {"burnx": burnx}
    with pytest.raises(burnx.BurnxError, match="is not there"):
        exec("@burnx.script\ndef f(x):\n    return x\n", names)


# ------------------------------------------------------------------------------- functions stay what they are
def test_a_function_keeps_what_is_known_of_it() -> None:
    factor = 2.0

    @burnx.script
    def scaled(x: Any, by: float = 3.0, *, sign: int = 1) -> Any:
        """Scale."""
        if x.sum() > 0:
            x = x * factor * by
        return x * sign

    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Scale.")
    assert scaled.__qualname__.endswith("known_of_it.<locals>.scaled")
    assert scaled.__kwdefaults__ == {"sign": 1}
    np.testing.assert_allclose(scaled(ops.identity(X)).numpy(), X * 6)
    factor = 1.0  # a closure sees what changes around it
    np.testing.assert_allclose(scaled(X, sign=-1), X * -3)


class Base(nn.Module):
    def forward(self, x):
        return x + 1


class Derived(Base):
    def __init__(self):
        self.weight = nn.Parameter(3)
        self.__factor = 2.0

    @burnx.script
    def forward(self, x):
        if x.sum() > 0:
            y = super().forward(x) * self.__factor
        else:
            y = self.weight
        return y


def test_methods_see_super_private_names_and_parameters() -> None:
    net = Derived()
    np.testing.assert_allclose(net(X).numpy(), (X + 1) * 2)
    np.testing.assert_allclose(burnx.compile(net)(X), (X + 1) * 2)
    np.testing.assert_allclose(net(-X).numpy(), net.weight.numpy())


def test_tracebacks_have_the_lines_of_the_file() -> None:
    @burnx.script
    def fails(x):
        for row in x:
            if row.sum() > 0:
                x = x.ndim.no_such_method()
        return x

    with pytest.raises(AttributeError) as caught:
        fails(ops.identity(X))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.line) == (__file__, "x = x.ndim.no_such_method()")


def test_a_variable_without_a_value_is_pythons_error() -> None:
    @burnx.script
    def unbound(x, wanted):
        if wanted:
            y = x
        return y

    with pytest.raises(UnboundLocalError, match="'y'"):
        unbound(X, False)


def test_lists_stack_along_an_axis_and_know_no_length() -> None:
    assert burnx.stack([X, X], axis=1).shape == (2, 2, 3)
    with pytest.raises(burnx.BurnxError, match="one tensor"):
        burnx.stack([])

    @burnx.script
    def counted(x):
        rows, last = [x[0]], x[0]
        for row in x:
            last = last + row
            rows.append(last)
        return burnx.stack(rows), len(rows)

    with pytest.raises(burnx.BurnxError, match="no length"):
        counted(ops.identity(X))


def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(burnx.__file__).parent.parent / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.S)
    (block,) = [each for each in blocks if "@burnx.script" in each]
    (tmp_path / "example_of_the_readme.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    net = importlib.import_module("example_of_the_readme").Decoder()
    x, turns = np.ones((4, 8), np.float32), np.array(5, np.int64)
    assert burnx.compile(net)(x, turns).shape == (5, 4, 8)
    assert operators(net, x, turns) == {"Loop", "If"}


@burnx.script
def drops_an_axis(x, flag):
    if flag:
        x = x.squeeze(1)
        if x.sum() > 0:
            x = x.squeeze(1)
    return x


def test_in_a_plain_call_the_side_that_is_not_taken_need_not_fit() -> None:
    wide, narrow = np.ones((2, 3), np.float32), np.ones((2, 1), np.float32)
    for x, flag, shape in ((wide, False, (2, 3)), (-narrow, True, (2,))):
        result = drops_an_axis(ops.identity(x), ops.identity(np.array(flag)))
        assert result.numpy().shape == shape
    with pytest.raises(burnx.BurnxError, match="Squeeze removes axes of size 1"):
        drops_an_axis(ops.identity(wide), ops.identity(np.array(True))).numpy()
