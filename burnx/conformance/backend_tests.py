"""The tests of ``onnx.backend.test`` as data: a model, its inputs and the expected outputs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper

from burnx.errors import ModelError

if TYPE_CHECKING:
    from onnx.backend.test.case.test_case import TestCase

Value: TypeAlias = Any
"""An array, a list for a sequence, a dict for a map, or None for an empty optional."""

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
_EXPANDED = re.compile(r"_expanded(_ver\d+)?$")
_STORED_AS = {"light": "real"}  # onnx files the light models under the kind "real"


@dataclass(frozen=True, slots=True)
class DataSet:
    """The inputs of one call, in the order of the model's inputs, and the outputs that are right.

    ``judge`` is who gave the outputs, where that was another engine; ``doubt`` says why there are none to compare.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    judge: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class BackendTest:
    """One test of the suite; its model and data are read when asked for.

    ``prepare`` are steps that come before the routes, and may crash as they may; their text is kept in the results.
    ``version`` and ``dtype`` say what a generated test is there for.
    """

    name: str
    kind: str
    operator: str
    rtol: float | None
    atol: float | None
    load_model: Callable[[], ModelProto]
    load_data: Callable[[ModelProto], tuple[DataSet, ...]]
    prepare: Mapping[str, Callable[[], str]] = field(default_factory=dict, compare=False)
    version: int = 0
    dtype: str = ""

    @property
    def group(self) -> str:
        """The kind, with the expanded function bodies of node tests as a kind of their own."""
        return "node-expanded" if self.kind == "node" and is_expanded(self.name) else self.kind


def is_expanded(name: str) -> bool:
    """Whether a node test runs the function body of its operator instead of the operator."""
    return _EXPANDED.search(name) is not None


@cache
def collect_tests() -> tuple[BackendTest, ...]:
    """Every backend test of the installed onnx, node tests first; takes seconds the first time."""
    return tuple(test for kind in KINDS for test in _tests_of_kind(kind))


def input_names(model: ModelProto) -> list[str]:
    """The inputs that a caller gives: those without an initializer of the same name."""
    defaults = {initializer.name for initializer in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in defaults]


def _tests_of_kind(kind: str) -> Iterator[BackendTest]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes overflows and 0/0 on purpose
        cases = load_model_tests(kind=_STORED_AS.get(kind, kind))
    if kind == "node":
        operators = {case.name: _operator_name(_model_of(case)) for case in cases}
        yield from (_node_test(case, operators) for case in cases)
        return
    read = _light_test if kind == "light" else _folder_test
    yield from (read(case) for case in sorted(cases, key=lambda case: case.name))


def _operator_name(model: ModelProto) -> str:
    node = model.graph.node[0]
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def _model_of(case: TestCase) -> ModelProto:
    if case.model is None:
        raise ModelError(f"a node test brings its model, found none, in {case.name}")
    return case.model


def _node_test(case: TestCase, operators: dict[str, str]) -> BackendTest:
    model, data_sets = _model_of(case), case.data_sets
    data = tuple(
        DataSet(tuple(map(_plain_value, inputs)), tuple(map(_plain_value, outputs)))
        for inputs, outputs in data_sets or ()
    )
    operator = operators[_EXPANDED.sub("", case.name)]
    return BackendTest(
        case.name, "node", operator, case.rtol, case.atol, lambda: model, lambda _: data
    )


def _folder_test(case: TestCase) -> BackendTest:
    folder = Path(str(case.model_dir))
    model = onnx.load(folder / "model.onnx")
    operators = {_operator_name(model)} if len(model.graph.node) == 1 else set()
    return BackendTest(
        case.name,
        case.kind,
        next(iter(operators), f"({case.kind})"),
        case.rtol,
        case.atol,
        lambda: model,
        lambda model: _read_data(model, folder),
    )


def _light_test(case: TestCase) -> BackendTest:
    path = Path(onnx.__file__).parent.parent / str(case.url)
    return BackendTest(
        case.name,
        "light",
        "(light)",
        case.rtol,
        case.atol,
        lambda: onnx.load(path),
        lambda model: (_light_data(model, path),),
    )


def _light_data(model: ModelProto, path: Path) -> DataSet:
    """A light model has expected outputs for one made-up input: k / n for element k of n."""
    free = set(input_names(model))
    inputs = tuple(_ramp(value.type) for value in model.graph.input if value.name in free)
    outputs = tuple(
        _read_value(path.with_name(f"{path.stem}_output_{number}.pb"), value.type)
        for number, value in enumerate(model.graph.output)
    )
    return DataSet(inputs, outputs)


def _ramp(type_proto: TypeProto) -> Value:
    shape = [dim.dim_value or 1 for dim in type_proto.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def _read_data(model: ModelProto, folder: Path) -> tuple[DataSet, ...]:
    free = set(input_names(model))
    inputs = [value.type for value in model.graph.input if value.name in free]
    outputs = [value.type for value in model.graph.output]
    return tuple(
        DataSet(_read_values(data, "input", inputs), _read_values(data, "output", outputs))
        for data in sorted(folder.glob("test_data_set_*"))
    )


def _read_values(folder: Path, role: str, types: list[TypeProto]) -> tuple[Value, ...]:
    paths = [folder / f"{role}_{number}.pb" for number in range(len(types))]
    return tuple(_read_value(path, kind) for path, kind in zip(paths, types, strict=True))


def _read_value(path: Path, type_proto: TypeProto) -> Value:
    kind = str(type_proto.WhichOneof("value"))
    if kind not in _STORED:
        raise ModelError(f"test data is a tensor, sequence, map or optional: {kind}, in {path}")
    proto_type, to_value = _STORED[kind]
    proto = proto_type()
    proto.ParseFromString(path.read_bytes())
    return _plain_value(to_value(proto))


_STORED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "map_type": (onnx.MapProto, numpy_helper.to_dict),
    "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
}


def _plain_value(value: Value) -> Value:
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)
