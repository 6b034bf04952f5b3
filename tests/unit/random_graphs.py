"""Random small ONNX models, made node by node: onnxruntime says of each new node whether it is one.

A model has inputs with open dims, constants, and nodes over the common operators.  ``Maker`` holds
the values that there are so far, each with what onnxruntime computed for it, so that a node fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper
from onnx.helper import np_dtype_to_tensor_dtype as element_type

Array = np.ndarray[Any, Any]
Choice = Callable[["Maker"], None]

DIMS = {"n": (3, 1, 5, 0), "m": (2, 4, 1, 2)}
"""Open dims: the size a model is made with, and those it is also run with."""
FLOATS, INTEGERS = ("float32", "float64", "float16"), ("int64", "int32", "uint8", "int8")
NUMBERS = (*FLOATS, *INTEGERS)
LARGEST = {"float16": 60.0, "uint8": 250, "int8": 120}
CHOICES: list[Choice] = []


class Unfit(Exception):
    """There is no value that the node could take."""


def choice(function: Choice) -> Choice:
    CHOICES.append(function)
    return function


def run_ort(
    model: ModelProto | Path, feeds: dict[str, Array], optimised: bool = True
) -> list[Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = ort.InferenceSession(data, options, ["CPUExecutionProvider"])
    results: list[Array] = session.run(None, feeds)
    return results


@dataclass
class Maker:
    """A model in the making."""

    random: np.random.Generator
    opset: int
    values: dict[str, Array] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    @property
    def last(self) -> str:
        """The newest value."""
        return next(reversed(self.values))

    # ------------------------------------------------------------------------------ dice
    def pick(self, options: Sequence[Any]) -> Any:
        if not options:
            raise Unfit
        return options[int(self.random.integers(len(options)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def size(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def axis(self, array: Array) -> int:
        if array.ndim == 0:
            raise Unfit
        return self.size(-array.ndim, array.ndim - 1)

    def axes(self, array: Array) -> list[int]:
        count = self.size(0 if self.chance(0.2) else 1, array.ndim) if array.ndim else 0
        chosen = self.random.permutation(array.ndim)[:count]
        return [int(axis) - (array.ndim if self.chance(0.3) else 0) for axis in chosen]

    def fill(self, shape: Sequence[int], dtype: str) -> Array:
        if dtype == "bool":
            return self.random.random(tuple(shape)) > 0.5
        if dtype in INTEGERS:
            return self.random.integers(0 if dtype == "uint8" else -4, 5, tuple(shape)).astype(
                dtype
            )
        return self.random.standard_normal(tuple(shape)).astype(dtype)

    # ---------------------------------------------------------------------------- values
    def take(self, *dtypes: str, where: Callable[[Array], bool] = lambda _: True) -> str:
        """A value of one of these dtypes, late ones more often."""
        fitting = [
            name
            for name, array in self.values.items()
            if array.dtype.name in (dtypes or NUMBERS) and where(array)
        ]
        return str(self.pick(fitting[-4:] if self.chance(0.6) else fitting))

    def like(self, name: str, where: Callable[[Array], bool] = lambda _: True) -> str:
        return self.take(self.values[name].dtype.name, where=where)

    def constant(self, array: Any, at_run: float = 0.15) -> str:
        """A constant: an initializer, or now and then an input, known at run time only."""
        array = np.asarray(array)
        name = f"c{len(self.values)}"
        if self.chance(at_run):
            self.inputs.append((name, list(array.shape)))
        else:
            self.constants.append(numpy_helper.from_array(array, name))
        self.values[name] = array
        return name

    def integers(self, numbers: Sequence[int]) -> str:
        return self.constant(np.array(numbers, np.int64))

    def input(self, dtype: str) -> None:
        dims = [self.pick(["n", "m", 1, 2, 3, 4]) for _ in range(self.size(0, 4))]
        sizes = [DIMS[dim][0] if isinstance(dim, str) else dim for dim in dims]
        name = f"x{len(self.values)}"
        self.inputs.append((name, dims))
        self.values[name] = self.fill(sizes, dtype)

    # ----------------------------------------------------------------------------- nodes
    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> None:
        names = [f"v{len(self.values) + place}" for place in range(outputs)]
        node = helper.make_node(operator, list(inputs), names, **attributes)
        self.append(node, [each for each in inputs if each])

    def append(self, node: Any, inputs: Sequence[str]) -> None:
        """Take a node, if onnxruntime can run it and its values are sane."""
        feeds = {each: self.values[each] for each in inputs}
        infos = [_info(name, array.dtype, array.shape) for name, array in feeds.items()]
        model = _model([node], infos, list(node.output), [], self.opset)
        try:
            with np.errstate(all="ignore"):
                results = run_ort(model, feeds)
        except Exception as error:
            raise Unfit from error
        if not all(map(_sane, results)):
            raise Unfit
        self.nodes.append(node)
        self.used.update(inputs)
        self.values.update(zip(node.output, results, strict=True))

    def model(self) -> ModelProto:
        made = [name for node in self.nodes for name in node.output]
        outputs = [name for name in made if name not in self.used] or made[-1:]
        infos = [_info(name, self.values[name].dtype, dims) for name, dims in self.inputs]
        return _model(self.nodes, infos, outputs, self.constants, self.opset)

    def feeds(self, variant: int) -> dict[str, Array]:
        """Inputs at other sizes: those the model was made with, or others for its open dims."""
        result = {}
        for name, dims in self.inputs:
            array = self.values[name]
            if variant and any(isinstance(dim, str) for dim in dims):
                sizes = [DIMS[dim][variant] if isinstance(dim, str) else dim for dim in dims]
                array = self.fill(sizes, array.dtype.name)
            result[name] = array
        return result


def _info(name: str, dtype: Any, dims: Sequence[int | str] | None) -> Any:
    return helper.make_tensor_value_info(name, element_type(np.dtype(dtype)), dims)


def _model(
    nodes: list[Any], inputs: list[Any], outputs: list[str], constants: list[Any], opset: int
) -> ModelProto:
    graph = helper.make_graph(
        nodes, "g", inputs, [ValueInfoProto(name=name) for name in outputs], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _sane(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or array.size > 4000 or array.ndim > 5:
        return False
    if array.dtype.kind not in "fiu":
        return array.dtype.kind == "b"
    largest = LARGEST.get(array.dtype.name, 1e4)
    return bool(np.all(np.isfinite(array)) and np.all(np.abs(array.astype(float)) <= largest))


def random_model(seed: int, length: int = 14) -> Maker:
    random = np.random.default_rng(seed)
    maker = Maker(random, int(random.choice([13, 17, 18, 21, 22])))
    for dtype in ("float32", "float32", str(random.choice([*NUMBERS, "bool"]))):
        maker.input(dtype)
    for _ in range(length * 6):
        if len(maker.nodes) >= length:
            break
        attempt(maker, maker.pick(CHOICES))
    return maker


def attempt(maker: Maker, make: Choice) -> None:
    """One more node, or none; what a failed attempt made is taken away again."""
    before = dict(maker.values), list(maker.inputs), list(maker.constants), list(maker.nodes)
    used = set(maker.used)
    try:
        make(maker)
    except Unfit:
        maker.values, maker.inputs, maker.constants, maker.nodes = before
        maker.used = used
