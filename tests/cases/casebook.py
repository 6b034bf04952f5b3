"""What a case is, and the few words for writing one down.

A *case* is one behaviour, a *sub-case* one situation in which it has to show: a small ONNX model whose runs have
known answers (``expect``), a model that has to be refused (``refuse``), or a property to prove (``prove``).
Models are written in ONNX's text syntax and their tensors as NumPy arrays.  A tensor listed under ``consts`` is an
initializer, as exporters write axes, pads and sizes; the variant ``@live`` of the sub-case makes it an input, the
variant ``@const`` of a ``fold`` sub-case makes every tensor an initializer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

ROUTES = ("run", "source", "roundtrip")
OPSET, IR_VERSION = 21, 10


# ------------------------------------------------------------------------------------------ arrays
def _array(dtype: Any) -> Callable[..., np.ndarray]:
    return lambda values, *shape: np.array(values, dtype).reshape(shape or np.shape(values))


f16, f32, f64 = _array(np.float16), _array(np.float32), _array(np.float64)
i8, i32, i64 = _array(np.int8), _array(np.int32), _array(np.int64)
u8, b1, text = _array(np.uint8), _array(np.bool_), _array(object)
inf, nan = float("inf"), float("nan")


def ramp(*shape: int, start: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """start, start + 1, … in row-major order."""
    return (np.arange(np.prod(shape, dtype=int)) + start).reshape(shape).astype(dtype)


# ------------------------------------------------------------------------------------------ expected values
@dataclass(frozen=True)
class OneOf:
    """Each of these values is right."""

    values: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Such:
    """Any array of the example's dtype and shape for which ``holds`` is true."""

    example: np.ndarray
    holds: Callable[[np.ndarray], bool]
    meaning: str


def one_of(*values: np.ndarray) -> OneOf:
    return OneOf(values)


def _example(expected: Any) -> Any:
    """An array, or list of arrays, of the type that ``expected`` asks for."""
    if isinstance(expected, OneOf):
        return expected.values[0]
    return expected.example if isinstance(expected, Such) else expected


class Mismatch(AssertionError):
    """An output is not what the case expects."""


def _short(value: Any) -> str:
    return re.sub(
        r"\s+", " ", np.array2string(np.asarray(value), threshold=24, edgeitems=8, precision=7)
    )[:240]


def compare(
    name: str, expected: Any, actual: Any, *, rtol: float, atol: float, exact: bool
) -> None:
    """Raise ``Mismatch`` unless ``actual`` has the dtype, shape and values that are expected."""
    closeness = {"rtol": rtol, "atol": atol, "exact": exact}
    if isinstance(expected, OneOf):
        for value in expected.values:
            try:
                return compare(name, value, actual, **closeness)
            except Mismatch as mismatch:
                last = mismatch
        raise last
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            raise Mismatch(f"{name}: expected a list of {len(expected)}, got {_short(actual)}")
        for index, pair in enumerate(zip(expected, actual)):
            compare(f"{name}[{index}]", *pair, **closeness)
        return None
    like, actual = np.asarray(_example(expected)), np.asarray(actual)
    is_text = like.dtype.kind in "OU"
    if actual.dtype != like.dtype and not (is_text and actual.dtype.kind in "OU"):
        raise Mismatch(f"{name}: expected {like.dtype}, got {actual.dtype}")
    if actual.shape != like.shape:
        raise Mismatch(f"{name}: expected shape {like.shape}, got {actual.shape} {_short(actual)}")
    if isinstance(expected, Such):
        right, wanted = bool(expected.holds(actual)), expected.meaning
    else:
        right, wanted = _equal(like, actual, is_text, **closeness), _short(like)
    if not right:
        raise Mismatch(f"{name}: expected {wanted}, got {_short(actual)}")
    return None


def _equal(
    like: np.ndarray, actual: np.ndarray, is_text: bool, rtol: float, atol: float, exact: bool
) -> bool:
    if is_text or like.dtype.kind in "biu":
        return like.tolist() == actual.tolist()
    like, actual = like.astype(np.float64), actual.astype(np.float64)
    if exact:
        signs = (np.signbit(like) == np.signbit(actual)) | np.isnan(like)
        return np.array_equal(like, actual, equal_nan=True) and bool(signs.all())
    return np.allclose(actual, like, rtol=rtol, atol=atol, equal_nan=True)


# ------------------------------------------------------------------------------------------ models
def value_info(
    name: str, value: Any, shape: Iterable[int | str | None] | None
) -> onnx.ValueInfoProto:
    """Declare ``name`` with the element type of ``value``."""
    if isinstance(value, list):
        element = helper.np_dtype_to_tensor_dtype(np.asarray(value[0]).dtype)
        return helper.make_tensor_sequence_value_info(name, element, None)
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), shape
    )


def build(
    body: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    consts: Mapping[str, Any] | None = None,
    *,
    opset: int = OPSET,
    functions: Iterable[str] = (),
    dims: Mapping[str, list[int | str] | None] | None = None,
) -> onnx.ModelProto:
    """Make a model of ``body``, nodes in ONNX text syntax.

    Inputs are declared with the shapes of their arrays, outputs with their ranks; ``dims`` overrides either.
    """
    graph = parser.parse_graph(f"case () => () {{ {body} }}")
    for index, node in enumerate(graph.node):
        node.name = node.name or f"{node.op_type.lower()}_{index}"
    examples = {name: _example(value) for name, value in outputs.items()}
    shapes = {
        name: [None] * np.ndim(value)
        for name, value in examples.items()
        if not isinstance(value, list)
    }
    shapes |= {name: np.shape(value) for name, value in inputs.items()} | dict(dims or {})
    graph.input.extend(value_info(name, value, shapes[name]) for name, value in inputs.items())
    graph.output.extend(
        value_info(name, value, shapes.get(name)) for name, value in examples.items()
    )
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(v), name) for name, v in (consts or {}).items()
    )
    imports = [helper.make_opsetid("", opset)]
    locals_ = [parser.parse_function(text) for text in functions]
    if locals_:
        imports.append(helper.make_opsetid("local", 1))
    return helper.make_model(graph, opset_imports=imports, functions=locals_, ir_version=IR_VERSION)


# ------------------------------------------------------------------------------------------ cases
@dataclass(frozen=True)
class Run:
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


@dataclass(frozen=True)
class SubCase:
    """One situation.  ``wrong`` names the engines that are known not to give the right answer, each with how."""

    name: str
    model: Callable[[], onnx.ModelProto] | None = None
    runs: tuple[Run, ...] = ()
    rtol: float = 1e-5
    atol: float = 1e-5
    exact: bool = False  # equal bit for bit, the sign of zero included
    raises: bool = False  # a clear error is the right answer
    may_raise: bool = False  # a clear error is right as well
    wrong: Mapping[str, str] = field(default_factory=dict)
    exported: Callable[[onnx.ModelProto], None] | None = (
        None  # asserts about the file exported again
    )
    check: Callable[[Any], None] | None = None  # the property, given the runner's bench
    routes: tuple[str, ...] = ROUTES
    timeout: float = 30.0
    case: str = ""

    def __str__(self) -> str:
        return f"{self.case}.{self.name}"

    def compare(self, run: Run, outputs: Mapping[str, Any]) -> None:
        """Raise ``Mismatch`` unless ``outputs`` are those of ``run``."""
        if set(outputs) != set(run.outputs):
            raise Mismatch(f"expected outputs {sorted(run.outputs)}, got {sorted(outputs)}")
        for name, expected in run.outputs.items():
            compare(name, expected, outputs[name], rtol=self.rtol, atol=self.atol, exact=self.exact)


@dataclass(frozen=True)
class Case:
    id: str
    doc: str
    source: str
    subs: tuple[SubCase, ...]


class Casebook:
    """A registry of cases in the order in which they are written."""

    def __init__(self) -> None:
        self._makers: list[tuple[Callable[[], Iterator[list[SubCase]]], str]] = []

    def case(self, source: str) -> Callable:
        """Register a generator of sub-cases; its name becomes the id, its docstring the behaviour."""
        return lambda maker: self._makers.append((maker, source)) or maker

    def cases(self) -> list[Case]:
        return [self._case(maker, source) for maker, source in self._makers]

    @staticmethod
    def _case(maker: Callable[[], Iterator[list[SubCase]]], source: str) -> Case:
        id_ = maker.__name__.replace("bc", "BC", 1)
        subs = tuple(replace(sub, case=id_) for group in maker() for sub in group)
        assert len({sub.name for sub in subs}) == len(subs), f"{id_} has two sub-cases of one name"
        return Case(id_, maker.__doc__ or "", source, subs)


def expect(
    name: str,
    body: str | Callable[[], onnx.ModelProto],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    consts: Mapping[str, Any] | None = None,
    *,
    more: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]] = (),
    alter: Callable[[onnx.ModelProto], object] | None = None,
    live: bool = True,
    fold: bool = False,
    opset: int = OPSET,
    functions: Iterable[str] = (),
    dims: Mapping[str, list[int | str] | None] | None = None,
    **options: Any,
) -> list[SubCase]:
    """A model and its answers: one run, ``more`` of them, and the variants with other tensors constant."""
    consts, more = dict(consts or {}), list(more)

    def variant(suffix: str, inputs: Mapping[str, Any], consts: Mapping[str, Any]) -> SubCase:
        def model() -> onnx.ModelProto:
            if callable(body):
                return body()
            proto = build(
                body, inputs, outputs, consts, opset=opset, functions=functions, dims=dims
            )
            if alter is not None:
                alter(proto)
            return proto

        return SubCase(
            name + suffix, model, (Run(inputs, outputs), *(Run(*pair) for pair in more)), **options
        )

    subs = [variant("", inputs, consts)]
    if live and consts:
        subs.append(variant("@live", {**inputs, **consts}, {}))
    if fold:
        subs.append(variant("@const", {}, {**inputs, **consts}))
    return subs


def refuse(
    name: str,
    body: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    *args: Any,
    **options: Any,
):
    """A model for which a clear error is the right answer; ``outputs`` only give the declared types."""
    return expect(name, body, inputs, outputs, *args, **{"raises": True, **options})


def prove(
    name: str, check: Callable[[Any], None], *, routes: tuple[str, ...] = ROUTES, **options: Any
):
    """A property: ``check`` gets the runner's bench and raises AssertionError where it does not hold."""
    return [SubCase(name, check=check, routes=routes, **options)]


# ------------------------------------------------------------------------------------------ errors
def words_of(model: onnx.ModelProto) -> set[str]:
    """The names by which a message can point at a place in ``model``."""
    words: set[str] = set()
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        words |= {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
        for node in graph.node:
            words |= {node.name, node.op_type, *node.input, *node.output}
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    words |= {function.name for function in model.functions}
    return {word for word in words if len(word) > 1}


def assert_clear(error: BaseException, words: Iterable[str]) -> None:
    """Assert that ``error`` is a sentence that names the model's file, node, operator or tensor."""
    kind, message = getattr(error, "kind", type(error).__name__), str(error)
    assert kind not in {"MemoryError", "RecursionError", "SystemError", "AssertionError"}, (
        f"ended in {kind}: {message}"
    )
    named = any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message) for word in words)
    assert named, f"the message names no file, node, operator or tensor: {kind}: {message[:200]}"
