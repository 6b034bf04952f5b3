"""Products by cuBLASLt, through nvmath-python: with float32 sums only, whatever they are given and made of.

Source: NVIDIA cuBLAS 13.0, section "Using the cuBLASLt API".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from burnx.dtype import DTYPES
from burnx.errors import DeviceError
from burnx.runtime.devices.cuda.packages import find_versions
from burnx.runtime.devices.gpu.driver import Launch, Place
from burnx.runtime.devices.gpu.library import Gemm, Matrix

NAME = "cublaslt"
_TYPES = {"float32": "CUDA_R_32F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF"}
_ALIGNED = 256  # bytes; more is no better
_PACKAGES = ("nvmath-python", "nvidia-cublas", "nvidia-cublas-cu12")


def find_library() -> dict[str, str]:
    """The versions of the packages that products need, by name; none if nvmath-python is not here."""
    return find_versions(*_PACKAGES)


@dataclass(frozen=True, slots=True)
class _Library:
    """The bindings, a handle for a device, and the numbers of dtypes."""

    lt: Any
    blas: Any
    handle: int
    types: dict[str, int]


@cache
def _open(number: int) -> _Library:
    """The library for the device ``number``, which is the current one.

    Raises: DeviceError if it does not start.
    """
    try:
        from nvmath import CudaDataType
        from nvmath.bindings import cublas, cublasLt

        types = {dtype: int(getattr(CudaDataType, name)) for dtype, name in _TYPES.items()}
        return _Library(cublasLt, cublas, int(cublasLt.create()), types)
    except Exception as error:  # of several kinds, none of which nvmath promises
        raise DeviceError(f"cuda:{number}: cuBLASLt does not start: {error}") from error


@dataclass(slots=True, eq=False)
class _Call:
    """A product with the addresses of its matrices, and descriptors that go when nobody can launch it any more."""

    library: _Library
    gemm: Gemm
    places: Sequence[Place]
    made: list[tuple[Callable[[int], None], int]] = field(default_factory=list)

    def own(self, name: str, *given: Any) -> int:
        lt = self.library.lt
        handle = int(getattr(lt, f"{name}_create")(*given))
        self.made.append((getattr(lt, f"{name}_destroy"), handle))
        return handle

    def set(self, kind: str, what: int, name: Any, value: int) -> None:
        lt = self.library.lt
        array = np.array([value], getattr(lt, f"get_{kind}_attribute_dtype")(name))
        getattr(lt, f"{kind}_set_attribute")(what, name, array.ctypes.data, array.nbytes)

    def address(self, buffer: int, start: int, dtype: str) -> int:
        memory, offset = self.places[buffer]
        return int(memory.ptr) + offset + start * DTYPES[dtype].itemsize

    def __del__(self) -> None:
        for destroy, handle in self.made:
            destroy(handle)


def bind_gemm(
    device: tuple[int, Any],
    gemm: Gemm,
    places: Sequence[Place],
    workspace: Place,
    workspace_bytes: int,
) -> Launch:
    """A launch of a product on a device: its number, and what gives the stream that is used now.

    Raises: DeviceError if cuBLASLt does not do it, or knows fewer ways than the one that is asked for.
    """
    number, stream = device
    library = _open(number)
    try:
        return _bind(_Call(library, gemm, places), stream, workspace, workspace_bytes)
    except (library.lt.cuBLASLtError, LookupError) as error:
        raise DeviceError(f"cuda:{number}: cuBLASLt does not do a product: {error}") from error


def _bind(call: _Call, stream: Any, workspace: Place, workspace_bytes: int) -> Launch:
    gemm, handle, matmul = call.gemm, call.library.handle, call.library.lt.matmul
    first, second, result = _layout_operands(call)
    added = result if gemm.added is None else _layout_end(call, gemm.added)
    what = _describe(call)
    ways = _list_ways(call, what, (first, second, added, result), workspace_bytes)
    algorithm = ways.ctypes.data + gemm.rank * ways.itemsize + ways.dtype.fields["algo"][1]
    factors = np.array([gemm.factor, 1.0 if gemm.added is not None else 0.0], np.float32)
    alpha, beta = factors.ctypes.data, factors.ctypes.data + factors.itemsize
    scratch = int(workspace[0].ptr) + workspace[1]
    held = call, ways, factors, workspace

    def launch(_: object = held) -> None:
        matmul(
            handle, what, alpha, first[0], first[1], second[0], second[1], beta, added[0], added[1],
            result[0], result[1], algorithm, scratch, workspace_bytes, stream().ptr,
        )  # fmt: skip

    return launch


_Laid = tuple[int, int]  # an address, and a description of the matrix there


def _layout_operands(call: _Call) -> tuple[_Laid, _Laid, _Laid]:
    gemm = call.gemm
    sides = (gemm.first, gemm.rows, gemm.inner), (gemm.second, gemm.inner, gemm.columns)
    first, second = [_layout(call, matrix, gemm.given, *shape) for matrix, *shape in sides]
    return first, second, _layout_end(call, gemm.result)


def _layout_end(call: _Call, matrix: Matrix) -> _Laid:
    gemm = call.gemm
    return _layout(call, matrix, gemm.made, gemm.rows, gemm.columns)


def _layout(call: _Call, matrix: Matrix, dtype: str, rows: int, columns: int) -> _Laid:
    shape = (columns, rows) if matrix.turned else (rows, columns)
    made = call.own("matrix_layout", call.library.types[dtype], *shape, matrix.column)
    if call.gemm.batch > 1:
        names = call.library.lt.MatrixLayoutAttribute
        call.set("matrix_layout", made, names.BATCH_COUNT, call.gemm.batch)
        call.set("matrix_layout", made, names.STRIDED_BATCH_OFFSET, matrix.next)
    return call.address(matrix.buffer, matrix.start, dtype), made


def _describe(call: _Call) -> int:
    """What is multiplied how, and what is done with it."""
    lt, blas, types = call.library.lt, call.library.blas, call.library.types
    made = call.own("matmul_desc", int(blas.ComputeType.COMPUTE_32F), types["float32"])
    names, gemm = lt.MatmulDescAttribute, call.gemm
    for name, matrix in ((names.TRANSA, gemm.first), (names.TRANSB, gemm.second)):
        way = blas.Operation.T if matrix.turned else blas.Operation.N
        call.set("matmul_desc", made, name, int(way))
    if gemm.bias is not None:
        call.set("matmul_desc", made, names.EPILOGUE, int(lt.Epilogue.BIAS))
        call.set("matmul_desc", made, names.BIAS_POINTER, call.address(*gemm.bias, gemm.made))
        call.set("matmul_desc", made, names.BIAS_DATA_TYPE, types[gemm.made])
    return made


def _list_ways(call: _Call, what: int, laid: Sequence[_Laid], workspace_bytes: int) -> Any:
    """What cuBLASLt would do, the fastest first, as far as sums stay float32 to their end.

    Raises: LookupError if there are fewer than the one that is asked for.
    """
    lt, count = call.library.lt, call.gemm.rank + 1
    asked, names = call.own("matmul_preference"), lt.MatmulPreferenceAttribute
    wanted = {
        names.MAX_WORKSPACE_BYTES: workspace_bytes,
        names.REDUCTION_SCHEME_MASK: int(lt.ReductionScheme.COMPUTE_TYPE),
    }
    for name, (address, _) in zip("ABCD", laid, strict=True):
        aligned = min(address & -address, _ALIGNED)
        wanted[getattr(names, f"MIN_ALIGNMENT_{name}_BYTES")] = aligned
    for each, value in wanted.items():
        call.set("matmul_preference", asked, each, value)
    found, number = np.zeros(count, lt.matmul_heuristic_result_dtype), np.zeros(1, np.int32)
    layouts = [layout for _, layout in laid]
    ends = found.ctypes.data, number.ctypes.data
    lt.matmul_algo_get_heuristic(call.library.handle, what, *layouts, asked, count, *ends)
    if number[0] < count:
        raise LookupError(f"it knows {number[0]} ways, not {count}")
    return found
