"""Nodes of com.microsoft as data: how they are run by burnx and by onnxruntime, and how alike the results are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import ValueInfoProto, helper

import burnx

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One node.

    An input of None is left out; ``constants`` are initializers; ``fixed`` inputs have known sizes
    for onnxruntime.  Integer results may be ``steps`` apart, in at most ``off`` of the elements;
    ``checked`` says which outputs onnxruntime fills.
    """

    op: str
    inputs: Mapping[str, Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    constants: Sequence[str] = ()
    fixed: Sequence[str] = ()
    checked: Sequence[int] | None = None
    steps: int = 0
    off: float = 0.0
    rtol: float = 1e-4
    atol: float = 1e-5
    output_type: Any = None
    label: str = ""

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    @property
    def feeds(self) -> dict[str, Array]:
        return {
            name: array
            for name, array in self.inputs.items()
            if array is not None and name not in self.constants
        }


def one(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


def model_of(case: Case) -> onnx.ModelProto:
    """The model of one node; sizes of inputs are symbols unless they have to be known."""
    names = [f"y{place}" for place in range(case.outputs)]
    given = [name if array is not None else "" for name, array in case.inputs.items()]
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            array.shape if name in case.fixed else [f"{name}_{n}" for n in range(array.ndim)],
        )
        for name, array in case.feeds.items()
    ]
    made = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in case.inputs.items()
        if name in case.constants and array is not None
    ]
    node = helper.make_node(case.op, given, names, domain="com.microsoft", **case.attributes)
    results = [ValueInfoProto(name=name) for name in names]
    if case.output_type is not None:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(case.output_type))
        results = [helper.make_tensor_value_info(name, code, None) for name in names]
    graph = helper.make_graph([node], "one_node", infos, results, made)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run_burnx(case: Case, device: str = "reference") -> list[Array]:
    return list(burnx.load(model_of(case), device=device).run(case.feeds).values())


def run_onnxruntime(case: Case, model: onnx.ModelProto | None = None) -> list[Array]:
    """The case, or another model of it.  One thread, since how work is split decides what some operators quantize together."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        (model or model_of(case)).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    small = (ml_dtypes.bfloat16,)
    feeds = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            array, helper.np_dtype_to_tensor_dtype(array.dtype)
        )
        if array.dtype in small
        else array
        for name, array in case.feeds.items()
    }
    return list(session.run(None, feeds))


def assert_alike(case: Case, found: Sequence[Array], wanted: Sequence[Array]) -> None:
    """Raises: AssertionError where dtypes, shapes or values differ by more than the case allows."""
    places = range(len(wanted)) if case.checked is None else case.checked
    for place in places:
        got, want = found[place], wanted[place]
        assert (got.dtype, got.shape) == (want.dtype, want.shape), f"output {place}"
        if want.dtype.kind in "iu":
            apart = np.abs(got.astype(np.int64) - want.astype(np.int64))
            assert apart.max(initial=0) <= case.steps, f"{got.tolist()} is not {want.tolist()}"
            assert np.count_nonzero(apart) <= case.off * apart.size
        else:
            np.testing.assert_allclose(
                got.astype(np.float64),
                want.astype(np.float64),
                rtol=case.rtol,
                atol=case.atol,
                err_msg=f"output {place}",
            )
