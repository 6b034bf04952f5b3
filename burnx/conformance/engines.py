"""Other engines that run an ONNX file: onnxruntime, and the reference evaluator of onnx.

Both take and give what burnx does: arrays by name, lists for sequences, None for empty optionals, and the arrays of
``ml_dtypes`` that onnxruntime knows no NumPy dtype for.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.dtype import DType, as_array, code_of_dtype, dtype_name, dtype_of_code
from burnx.errors import DeviceError, VerifyError
from burnx.packing import pack_elements, packed_size_bytes, unpack_elements

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Any]], dict[str, Any]]
_PACKED = ("int4", "uint4", "int2", "uint2", "float4")
_NOT_NUMPY = tuple(f"tensor({name}" for name in ("bfloat16", "float8", *_PACKED))
_RAW: dict[int, DType] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


@dataclass(frozen=True, slots=True)
class Judge:
    """An engine with a model loaded; ``why`` says why it is not onnxruntime, empty if it is."""

    name: str
    run: Run
    why: str = ""

    @property
    def optimises(self) -> bool:
        """Whether it rewrites a graph before it runs it."""
        return not self.why


def has_onnxruntime() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None


def open_onnxruntime(path: str | bytes, threads: int = 1, optimised: bool = True) -> Run:
    """``path``, or the bytes of a model, loaded in onnxruntime on the CPU; with or without its optimiser.

    Raises: DeviceError if onnxruntime is not installed; its own errors if it refuses the model.
    """
    if not has_onnxruntime():
        raise DeviceError("onnxruntime is not installed: pip install onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    gives_plain = _gives_plain(session)

    def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in inputs.items() if value is not None}
        if gives_plain and all(_is_plain(value) for value in given.values()):
            return dict(zip(names, session.run(None, given), strict=True))
        wrapped = {name: _as_ort_value(onnxruntime, value) for name, value in given.items()}
        results = session.run_with_ort_values(None, wrapped)
        return {name: _from_ort_value(v) for name, v in zip(names, results, strict=True)}

    return run


def open_reference(path: str | bytes) -> Run:
    """``path``, or the bytes of a model, loaded in the reference evaluator of onnx."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(path)

    def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in inputs.items() if value is not None}
        return dict(zip(evaluator.output_names, evaluator.run(None, given), strict=True))

    return run


def unboxed(kind: Any, value: Any) -> Any:
    """An optional as its content; the reference evaluator gives a list of one."""
    boxed = kind.HasField("optional_type") and isinstance(value, list) and len(value) == 1
    if boxed and (value[0] is None or not _holds_sequence(kind) or isinstance(value[0], list)):
        return value[0]
    return value


def _holds_sequence(kind: Any) -> bool:
    return kind.optional_type.elem_type.HasField("sequence_type")


def judge_model(
    path: str, inputs: Mapping[str, Any], threads: int = 1
) -> tuple[Judge, dict[str, Any]]:
    """An engine that can run this file, and its outputs: onnxruntime, else the reference evaluator.

    Raises: VerifyError if neither can.
    """
    why = "onnxruntime is not installed"
    if has_onnxruntime():
        try:
            run = open_onnxruntime(path, threads)
            return Judge(f"onnxruntime {_version('onnxruntime')}", run), run(inputs)
        except Exception as error:  # its error types are not public
            why = f"onnxruntime refuses: {first_line(error)}"
    try:
        run = open_reference(path)
        return Judge(f"onnx {_version('onnx')} reference evaluator", run, why), run(inputs)
    except Exception as error:  # it raises whatever its operators do
        raise VerifyError(
            f"no other engine runs {path}: {why}; the reference evaluator: {first_line(error)}"
        ) from error


def plain_outputs(
    path: str, inputs: Mapping[str, Any], threads: int = 1
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(name, what is different without it, outputs) of engines that take the nodes of a file as they stand there.

    One that does not run the file gives nothing.
    """
    for name, (why, opened) in _PLAIN.items():
        try:
            outputs = opened(path, threads)(inputs)
        except Exception:  # their error types are not public; the next one is asked
            continue
        yield name, why, outputs


def _open_exact(path: str, threads: int) -> Run:
    """onnxruntime on a copy of a file in which no node lets it round what it multiplies.

    Raises: VerifyError if none does in the file.
    """
    import onnx

    model = onnx.load(path)
    nodes = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    given = [(n.attribute, a) for n in nodes for a in n.attribute if a.name == "accuracy_level"]
    if not given:
        raise VerifyError(f"{path} has no accuracy_level")
    for attributes, each in given:
        attributes.remove(each)
    return open_onnxruntime(model.SerializeToString(), threads, optimised=False)


_PLAIN: Mapping[str, tuple[str, Callable[[str, int], Run]]] = {
    "onnxruntime without its optimiser": (
        "its optimised levels differ",
        lambda path, threads: open_onnxruntime(path, threads, optimised=False),
    ),
    "onnxruntime without accuracy_level": (
        "with it, it rounds what MatMulNBits multiplies, and differs",
        _open_exact,
    ),
    "the reference evaluator of onnx": (
        "onnxruntime differs, with its optimiser and without it",
        lambda path, _: open_reference(path),
    ),
}


def is_numpy_dtype(dtype: DType) -> bool:
    """Whether a dtype is NumPy's own, and not one of ml_dtypes."""
    return dtype.type.__module__ == "numpy"


def first_line(error: BaseException) -> str:
    """What an error of another library says, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}…"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(unknown version)"


def _is_plain(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or is_numpy_dtype(value.dtype)


def _gives_plain(session: Any) -> bool:
    return not any(output.type.startswith(_NOT_NUMPY) for output in session.get_outputs())


def _as_ort_value(onnxruntime: Any, value: Any) -> Any:
    array = np.ascontiguousarray(as_array(value)).reshape(np.shape(value))
    if _is_plain(array):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    code = code_of_dtype(array.dtype)
    make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
    if _is_packed(array.dtype):
        return _packed_ort_value(make, array, code)
    return make(array.view(_RAW[array.dtype.itemsize]), code)


def _packed_ort_value(make: Callable[..., Any], array: Array, code: int) -> Any:
    """A value of fewer than 8 bits an element: onnxruntime packs as ONNX does, at the front of a byte for each element."""
    raw = np.zeros(array.size, np.uint8)
    packed = pack_elements(array)
    raw[: packed.size] = packed
    return make(raw.reshape(array.shape), code)


def _is_packed(dtype: DType) -> bool:
    return dtype_name(dtype).startswith(_PACKED)


def _from_ort_value(value: Any) -> Any:
    if not value.is_tensor() or value.data_type() == "tensor(string)":
        return value.numpy()
    dtype = dtype_of_code(value.element_type())
    if is_numpy_dtype(dtype):
        return value.numpy()
    # onnxruntime has no NumPy dtype for these, so that the bytes are read where they lie
    count = math.prod(value.shape())
    if _is_packed(dtype):
        data = ctypes.string_at(value.data_ptr(), packed_size_bytes(dtype, count))
        return unpack_elements(np.frombuffer(data, np.uint8), dtype, tuple(value.shape()))
    data = ctypes.string_at(value.data_ptr(), count * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(value.shape()).copy()
