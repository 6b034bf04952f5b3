"""The scalar functions of ``burnx.primitives.scalar`` as text, on values of float32, float64, integers and bool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burnx.dtype import DType, bool_, dtype_name, float32, float64, is_integer, packed_bits
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import NAMED, Unsupported, is_signed, literal, type_name, unsigned_name
from burnx.gpu.pieces import Piece, maker
from burnx.kernels.clike import bare

Needs = set[str]
_COMPARISONS = {"eq": "==", "lt": "<", "le": "<="}
_FLOAT_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", **_COMPARISONS}
_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_BOOL = {
    "and": "({0} & {1})", "or": "({0} | {1})", "xor": "({0} != {1})", "not": "(!{0})",
    "eq": "({0} == {1})", "lt": "({0} < {1})", "le": "({0} <= {1})",
    "min": "({0} & {1})", "max": "({0} | {1})", "add": "({0} | {1})", "mul": "({0} & {1})",
}  # fmt: skip
_LIBRARY = {
    "abs": "fabs", "round": "rint", "trunc_mod": "fmod",
    **{name: name for name in (
        "floor", "ceil", "trunc", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow", "atan2",
    )},
}  # fmt: skip


def apply(
    needs: Needs, dialect: Dialect, function: str, arguments: Sequence[str], dtype: DType
) -> str:
    """A scalar function of arguments of a dtype; the functions that it calls are added to ``needs``."""
    if function == "select":
        return f"({arguments[0]} ? {arguments[1]} : {arguments[2]})"
    if dtype == bool_:
        if function in _BOOL:
            return _BOOL[function].format(*arguments)
    elif dtype in (float32, float64):
        if function in _FLOAT_INFIX:
            return f"({arguments[0]} {_FLOAT_INFIX[function]} {arguments[1]})"
        if function == "neg":
            return f"(-{arguments[0]})"
        if function in _LIBRARY:
            end = dialect.single if dtype == float32 else ""
            return f"{_LIBRARY[function]}{end}({_joined(arguments)})"
        if function in _FLOAT_PIECES:
            return _call(needs, function, arguments, dtype)
    elif is_integer(dtype) and packed_bits(dtype) >= 8:
        return _of_integers(needs, function, arguments, dtype)
    raise Unsupported(f"kernels have no {function} of {dtype_name(dtype)}")


def _joined(arguments: Sequence[str]) -> str:
    return ", ".join(map(bare, arguments))


def _call(needs: Needs, function: str, arguments: Sequence[str], dtype: DType) -> str:
    name = f"{function}_{type_name(dtype)}"
    needs.add(name)
    return f"{name}({_joined(arguments)})"


def _of_integers(needs: Needs, function: str, arguments: Sequence[str], dtype: DType) -> str:
    """They wrap, which only unsigned ones do in C."""
    type_, unsigned = type_name(dtype), unsigned_name(dtype)
    if function in _COMPARISONS:
        return f"({arguments[0]} {_COMPARISONS[function]} {arguments[1]})"
    if function in _BITS:
        return f"({type_})({arguments[0]} {_BITS[function]} {arguments[1]})"
    if function == "bit_not":
        return f"({type_})(~{arguments[0]})"
    if function in ("add", "sub", "mul"):
        left, right = (f"({unsigned}){each}" for each in arguments)
        return f"({type_})({left} {_FLOAT_INFIX[function]} {right})"
    if function == "neg":
        return f"({type_})(0 - ({unsigned}){arguments[0]})"
    if function == "abs" and not is_signed(dtype):
        return arguments[0]
    if function in _INTEGER_PIECES:
        return _call(needs, function, arguments, dtype)
    raise Unsupported(f"kernels have no {function} of {dtype_name(dtype)}")


def neutral(function: str, dtype: DType, dialect: Dialect) -> str:
    """What combined with a value leaves it."""
    if function in ("and", "or"):
        return literal(function == "and", dtype, dialect)
    if function in ("add", "mul"):
        return literal(0 if function == "add" else 1, dtype, dialect)
    least = function == "max"
    if dtype == bool_:
        return literal(not least, dtype, dialect)
    if dtype in (float32, float64):
        return literal(float("-inf") if least else float("inf"), dtype, dialect)
    bits = packed_bits(dtype)
    low = -(1 << (bits - 1)) if is_signed(dtype) else 0
    high = (1 << (bits - is_signed(dtype))) - 1
    return literal(low if least else high, dtype, dialect)


# --- the functions that C lacks -------------------------------------------------------------------------------------

Formula = Callable[[DType, Dialect], str]


@maker
def _make(dialect: Dialect, name: str) -> Piece | None:
    function, _, type_ = name.rpartition("_")
    dtype = NAMED.get(type_)
    if dtype is None or dtype == bool_:
        return None
    known = _FLOAT_PIECES if dtype in (float32, float64) else _INTEGER_PIECES
    if function not in known:
        return None
    parameters, formula = known[function]
    result = "bool" if function.startswith("is_") else type_
    listed = ", ".join(f"{type_} {each}" for each in parameters)
    return Piece(f"FUNCTION {result} {name}({listed})\n{{\n{formula(dtype, dialect)}}}\n")


def _text(template: str) -> Formula:
    """A text in which T is the type, U its unsigned one, BITS its size, and F ends functions of floats."""

    def formula(dtype: DType, dialect: Dialect) -> str:
        text = template.replace("$T", type_name(dtype)).replace("$F", _end(dtype, dialect))
        if is_integer(dtype):
            text = text.replace("$U", unsigned_name(dtype)).replace(
                "$BITS", str(8 * dtype.itemsize)
            )
        return text

    return formula


def _end(dtype: DType, dialect: Dialect) -> str:
    return dialect.single if dtype == float32 else ""


def _extreme(function: str, sign: str) -> Formula:
    """NaN stays, as one instruction where there is one."""

    def formula(dtype: DType, dialect: Dialect) -> str:
        plain = f"    return x {sign} y || x != x ? x : y;\n"
        if dialect.name != "cuda" or dtype != float32:
            return plain
        quick = f'    f32 result;\n    asm("{function}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));\n'
        return f"#if __CUDA_ARCH__ >= 800\n{quick}    return result;\n#else\n{plain}#endif\n"

    return formula


_FLOAT_PIECES: dict[str, tuple[str, Formula]] = {
    "min": ("xy", _extreme("min", "<")),
    "max": ("xy", _extreme("max", ">")),
    "sign": ("x", _text("    return x != x ? x : ($T)((x > 0) - (x < 0));\n")),
    "is_nan": ("x", _text("    return x != x;\n")),
    "is_inf": ("x", _text("    return x == x && x - x != x - x;\n")),
    "floor_mod": (
        "xy",
        _text("""\
    $T rest = fmod$F(x, y);
    if ((y < 0) != (rest < 0)) rest = rest == 0 ? rest : rest + y;
    return rest == 0 ? copysign$F(($T)0, y) : rest;
"""),
    ),
    "softplus": (
        "x",
        _text("    return (x < 0 ? ($T)0 : x) + log1p$F(exp$F(-fabs$F(x)));\n"),
    ),
}


def _divide(body: str) -> Formula:
    """A text of which the lines with SIGNED are only for signed types."""

    def formula(dtype: DType, dialect: Dialect) -> str:
        lines = _text(body)(dtype, dialect).splitlines(keepends=True)
        kept = (line for line in lines if is_signed(dtype) or "SIGNED" not in line)
        return "".join(line.replace("SIGNED ", "") for line in kept)

    return formula


_INTEGER_PIECES: dict[str, tuple[str, Formula]] = {
    "min": ("xy", _text("    return x < y ? x : y;\n")),
    "max": ("xy", _text("    return x > y ? x : y;\n")),
    "abs": ("x", _text("    return x < 0 ? ($T)(0 - ($U)x) : x;\n")),
    "sign": ("x", _text("    return ($T)((x > 0) - (x < 0));\n")),
    "div": (
        "xy",
        _divide("""\
    if (y == 0) return 0;
    SIGNED if (y == -1) return ($T)(0 - ($U)x);
    return ($T)(x / y);
"""),
    ),
    "trunc_mod": (
        "xy",
        _divide("""\
    if (y == 0) return x;
    SIGNED if (y == -1) return 0;
    return ($T)(x % y);
"""),
    ),
    "floor_mod": (
        "xy",
        _divide("""\
    if (y == 0) return x;
    SIGNED if (y == -1) return 0;
    const $T rest = ($T)(x % y);
    SIGNED if (rest != 0 && (rest ^ y) < 0) return ($T)(rest + y);
    return rest;
"""),
    ),
    "pow": (
        "xy",
        _divide("""\
    SIGNED if (y < 0) return x == 1 ? 1 : x == -1 ? ((y & 1) ? -1 : 1) : 0;
    $U result = 1, square = ($U)x;
    for ($T rest = y; rest > 0; rest >>= 1) {
        if (rest & 1) result *= square;
        square *= square;
    }
    return ($T)result;
"""),
    ),
    "shift_left": (
        "xy",
        _text("    return y >= 0 && y < $BITS ? ($T)(($U)x << (i32)y) : ($T)0;\n"),
    ),
    "shift_right": (
        "xy",
        _text("    return y >= 0 && y < $BITS ? ($T)(x >> (i32)y) : ($T)0;\n"),
    ),
}
