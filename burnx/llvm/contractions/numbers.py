"""The numbers of a contraction: how elements are loaded, widened, multiplied and added."""

from __future__ import annotations

from dataclasses import dataclass

from burnx.dtype import DTYPES, DType, bfloat16, dtype_name, float16, float32, float64
from burnx.llvm.context import Unsupported
from burnx.llvm.writer import Ssa, Writer

_INTEGERS = [DTYPES[f"{sign}int{bits}"] for sign in ("", "u") for bits in (8, 16, 32, 64)]
_WHOLE: dict[DType, str] = {dtype: f"i{8 * dtype.itemsize}" for dtype in _INTEGERS}
TYPES: dict[DType, str] = {
    float32: "float",
    float64: "double",
    **{dtype: name for dtype, name in _WHOLE.items() if dtype.itemsize >= 4},
}
_STORED: dict[DType, str] = {**TYPES, **_WHOLE, float16: "half", bfloat16: "i16"}


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a contraction multiplies: elements ``left`` and ``right``, summed in ``total``.

    ``together``: how many k are multiplied at once, see ``int8``; ``spills``, ``squares``: see ``burnx.kernels.packing``.
    """

    left: DType
    right: DType
    total: DType
    together: int = 1
    spills: bool = False
    squares: bool = False

    @property
    def type(self) -> str:
        """The LLVM type of a sum."""
        return TYPES[self.total]

    @property
    def right_bytes(self) -> int:
        """The size of what is multiplied at once, of one column."""
        return self.right.itemsize * self.together


def check_numbers(numbers: Numbers) -> None:
    """Raises: Unsupported if such numbers are not contracted."""
    if numbers.total not in TYPES or not {numbers.left, numbers.right} <= set(_STORED):
        names = [dtype_name(each) for each in (numbers.left, numbers.right, numbers.total)]
        raise Unsupported(
            f"a contraction on the cpu takes {', '.join(map(dtype_name, _STORED))} and sums in "
            f"{', '.join(map(dtype_name, TYPES))}; found {names[0]} * {names[1]} in {names[2]}"
        )


def stored_type(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    return _STORED[dtype]


def vector(lanes: int, element: str) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def load(writer: Writer, pointer: Ssa, dtype: DType, total: DType, lanes: int) -> Ssa:
    """Neighbouring elements, converted to the dtype of the sum."""
    stored = vector(lanes, _STORED[dtype])
    raw = writer.load(stored, pointer, dtype.itemsize)
    if dtype == total:
        return raw
    return convert(writer, raw, dtype, total, lanes)


def convert(writer: Writer, value: Ssa, dtype: DType, total: DType, lanes: int) -> Ssa:
    wanted = vector(lanes, TYPES[total])
    if dtype == bfloat16:
        value = _widen_bfloat16(writer, value, lanes)
        return value if total == float32 else writer.convert("fpext", value, wanted)
    if dtype.kind in "iu" and total.kind in "iu":
        narrows = dtype.itemsize > total.itemsize
        return writer.convert(
            "trunc" if narrows else "sext" if dtype.kind == "i" else "zext", value, wanted
        )
    if dtype.kind in "iu":
        return writer.convert("sitofp" if dtype.kind == "i" else "uitofp", value, wanted)
    return writer.convert("fptrunc" if dtype.itemsize > total.itemsize else "fpext", value, wanted)


def _widen_bfloat16(writer: Writer, value: Ssa, lanes: int) -> Ssa:
    wide = writer.convert("zext", value, vector(lanes, "i32"))
    sixteen = writer.splat(Ssa("16", "i32"), lanes)
    return writer.convert("bitcast", writer.binary("shl", wide, sixteen), vector(lanes, "float"))


def multiply_add(writer: Writer, left: Ssa, right: Ssa, total: Ssa) -> Ssa:
    """left * right + total, rounded once where the processor can."""
    if "float" not in total.type and "double" not in total.type:
        return writer.binary("add", writer.binary("mul", left, right), total)
    return writer.call(total.type, f"llvm.fmuladd.{_suffix(total.type)}", left, right, total)


def _suffix(type_: str) -> str:
    """``v8f32`` for ``<8 x float>``."""
    for name, short in (("float", "f32"), ("double", "f64")):
        if type_.startswith("<"):
            lanes, _, element = type_[1:-1].partition(" x ")
            if element == name:
                return f"v{lanes}{short}"
        elif type_ == name:
            return short
    return type_
