"""Models of one node of com.microsoft, as cases that burnx and onnxruntime run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

import burnx

MICROSOFT = "com.microsoft"
Array = np.ndarray[Any, Any]
_RNG = np.random.default_rng(5)


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return _RNG.normal(size=shape).astype(dtype)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


@dataclass(frozen=True)
class Case:
    """One node: inputs (None: left out), attributes, how many outputs, and which of them are compared.

    ``typed``: the dtype of all outputs, where onnxruntime cannot infer it.
    """

    op: str
    inputs: Mapping[str, Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    compared: tuple[int, ...] | None = None
    domain: str = MICROSOFT
    rtol: float = 1e-4
    atol: float = 1e-5
    sized: bool = True
    typed: Any = None
    name: str = ""

    @property
    def feeds(self) -> dict[str, Array]:
        return {name: array for name, array in self.inputs.items() if array is not None}

    @property
    def places(self) -> tuple[int, ...]:
        return self.compared if self.compared is not None else tuple(range(self.outputs))

    def __str__(self) -> str:
        given = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.op}-{self.name or given}".replace(" ", "")


def model_of(case: Case, opset: int = 21) -> onnx.ModelProto:
    """The model of a case; its sizes are open unless the case is ``sized``."""
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            array.shape if case.sized else [f"{name}_{axis}" for axis in range(array.ndim)],
        )
        for name, array in case.feeds.items()
    ]
    names = [f"y{place}" if place in case.places else "" for place in range(case.outputs)]
    given = [name if array is not None else "" for name, array in case.inputs.items()]
    node = helper.make_node(case.op, given, names, domain=case.domain, **case.attributes)
    outputs = [_output(name, case.typed) for name in names if name]
    graph = helper.make_graph([node], "one_node", infos, outputs)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _output(name: str, dtype: Any) -> onnx.ValueInfoProto:
    if dtype is None:
        return onnx.ValueInfoProto(name=name)
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None
    )


def run_burnx(case: Case, device: str = "reference") -> list[Array]:
    return list(burnx.load(model_of(case), device=device).run(case.feeds).values())


def run_onnxruntime(case: Case) -> list[Array]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model_of(case).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, case.feeds))


def assert_same(found: list[Array], wanted: list[Array], case: Case) -> None:
    assert len(found) == len(wanted) and found
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if got.dtype == object or got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
            continue
        wide = np.float64
        np.testing.assert_allclose(
            got.astype(wide), want.astype(wide), rtol=case.rtol, atol=case.atol
        )
