"""A kernel as C: what it computes, in plain loops, for people who read C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from burnx.dtype import DType, dtype_name, float32, is_float
from burnx.kernels.ir import (
    Apply,
    Carry,
    Cast,
    Constant,
    Contract,
    Fold,
    Inside,
    Kernel,
    Let,
    Load,
    Local,
    Lookup,
    Loop,
    Position,
    Statement,
    Store,
    Value,
    walk,
)
from burnx.kernels.spelling import spell
from burnx.shape import Dim

_TYPES = {"float32": "float", "float64": "double", "bool": "bool"}
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "lt": "<", "le": "<=",
    "and": "&&", "or": "||", "xor": "!=", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
    "trunc_mod": "%", "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip
_PREFIX = {"neg": "-", "not": "!", "bit_not": "~"}
_NEUTRAL = {"add": "0", "mul": "1", "and": "true", "or": "false"}


def clike(kernel: Kernel) -> str:
    """The text of a C function; helpers such as ``max`` and dtypes that C lacks are named as in burnx."""
    writer = _Writer()
    written = {id(each.buffer) for each in walk(kernel.body) if isinstance(each, Store)}
    arguments = [
        f"{'' if id(buffer) in written else 'const '}{c_type(buffer.dtype)} *{buffer.name}"
        for buffer in kernel.buffers
    ]
    arguments += [f"int64_t {name}" for name in kernel.sizes]
    writer.line(f"void kernel({', '.join(arguments)})")
    with writer.block():
        writer.body(kernel.body)
    return "\n".join(writer.lines) + "\n"


def c_type(dtype: DType) -> str:
    name = dtype_name(dtype)
    is_standard = name.lstrip("u").startswith("int") and name.lstrip("uint") in (
        "8",
        "16",
        "32",
        "64",
    )
    return f"{name}_t" if is_standard else _TYPES.get(name, name)


@dataclass(slots=True)
class _Writer:
    """The lines so far, and how many values were given names."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0
    count: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            _STATEMENTS[type(statement)](self, statement)

    def values(self, values: Sequence[Value]) -> list[str]:
        def name(value: Value, text: str) -> str:
            self.count += 1
            self.line(f"{c_type(value.dtype)} t{self.count} = {bare(text)};")
            return f"t{self.count}"

        return spell(values, lambda value, parts: _VALUES[type(value)](value, parts), name)

    def value(self, value: Value) -> str:
        return bare(self.values([value])[0])

    @contextmanager
    def loops(self, loops: Sequence[tuple[str, Dim]]) -> Iterator[None]:
        """Nested loops around what is written inside."""
        if not loops:
            yield
            return
        (variable, extent), *inner = loops
        head = f"for (int64_t {variable} = 0; {variable} < {c_dim(extent)}; {variable}++)"
        with self.block(head), self.loops(inner):
            yield


def bare(text: str) -> str:
    """Without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def c_dim(dim: Dim) -> str:
    return str(dim).replace(" // ", " / ")


# --- values ---------------------------------------------------------------------------------------------------------


def _load(value: Load, parts: list[str]) -> str:
    return f"{value.buffer.name}[{c_dim(value.index)}]"


def _constant(value: Constant, parts: list[str]) -> str:
    if isinstance(value.value, bool):
        return "true" if value.value else "false"
    number = float(value.value)
    if number != number or abs(number) == float("inf"):
        return "NAN" if number != number else "INFINITY" if number > 0 else "-INFINITY"
    return f"{value.value}{'f' if value.dtype == float32 else ''}"


def _apply(value: Apply, parts: list[str]) -> str:
    if value.function in _INFIX:
        return f"({parts[0]} {_INFIX[value.function]} {parts[1]})"
    if value.function in _PREFIX:
        return f"({_PREFIX[value.function]}{parts[0]})"
    if value.function == "select":
        return f"({parts[0]} ? {parts[1]} : {parts[2]})"
    return f"{value.function}({', '.join(map(bare, parts))})"


def _cast(value: Cast, parts: list[str]) -> str:
    if value.bits:
        return f"bits_as_{dtype_name(value.dtype)}({bare(parts[0])})"
    return f"({c_type(value.dtype)}){parts[0]}"


def _position(value: Position, parts: list[str]) -> str:
    return f"({c_type(value.dtype)})({c_dim(value.index)})"


def _inside(value: Inside, parts: list[str]) -> str:
    checks = " && ".join(
        f"{c_dim(low)} <= {c_dim(index)} && {c_dim(index)} < {c_dim(high)}"
        for low, index, high in value.checks
    )
    return f"({checks} ? {parts[0]} : {parts[1]})"


_VALUES: dict[type, Callable[..., str]] = {
    Load: _load,
    Constant: _constant,
    Apply: _apply,
    Cast: _cast,
    Position: _position,
    Inside: _inside,
    Local: lambda value, parts: value.name,
}

# --- statements -----------------------------------------------------------------------------------------------------


def _combined(function: str, place: str, value: str) -> str:
    """``place`` combined with a value: ``x += y`` or ``x = max(x, y)``."""
    if function in ("add", "mul"):
        return f"{place} {_INFIX[function]}= {value};"
    if function in _INFIX:
        return f"{place} = {place} {_INFIX[function]} {value};"
    return f"{place} = {function}({place}, {value});"


def _store(writer: _Writer, statement: Store) -> None:
    value = writer.value(statement.value)
    place = f"{statement.buffer.name}[{c_dim(statement.index)}]"
    function = statement.combine
    writer.line(_combined(function, place, value) if function else f"{place} = {value};")


def _let(writer: _Writer, statement: Let) -> None:
    value = writer.value(statement.value)
    writer.line(f"{c_type(statement.value.dtype)} {statement.name} = {value};")


def _lookup(writer: _Writer, statement: Lookup) -> None:
    value, name = writer.value(statement.value), statement.name
    writer.line(f"int64_t {name} = checked_index({value}, {c_dim(statement.limit)});")


def _loop(writer: _Writer, loop: Loop) -> None:
    notes = [note for note in ("parallel", "lanes") if getattr(loop, note)]
    if notes:
        writer.line(f"// {', '.join(notes)}")
    with writer.loops([(loop.variable, loop.extent)]):
        writer.body(loop.body)


def _neutral(function: str, dtype: DType) -> str:
    if function not in ("min", "max"):
        return _NEUTRAL[function]
    if is_float(dtype):
        return "INFINITY" if function == "min" else "-INFINITY"
    return f"{dtype_name(dtype).upper()}_{'MAX' if function == 'min' else 'MIN'}"


def _fold(writer: _Writer, fold: Fold) -> None:
    for each in fold.accumulators:
        dtype = each.value.dtype
        writer.line(f"{c_type(dtype)} {each.name} = {_neutral(each.function, dtype)};")
    with writer.loops(fold.loops):
        writer.body(fold.body)
        texts = writer.values([each.value for each in fold.accumulators])
        for each, text in zip(fold.accumulators, texts, strict=True):
            writer.line(_combined(each.function, each.name, bare(text)))


def _carry(writer: _Writer, carry: Carry) -> None:
    for name, first, _ in carry.carried:
        writer.line(f"{c_type(first.dtype)} {name} = {writer.value(first)};")
    with writer.loops([(carry.variable, carry.extent)]):
        writer.body(carry.body)
        texts = writer.values([following for _, _, following in carry.carried])
        for (name, first, _), text in zip(carry.carried, texts, strict=True):
            writer.line(f"{c_type(first.dtype)} next_{name} = {bare(text)};")
        for name, _, _ in carry.carried:
            writer.line(f"{name} = next_{name};")


def _contract(writer: _Writer, contract: Contract) -> None:
    type_ = c_type(contract.dtype)
    if contract.packing:
        writer.line(f"// {contract.right.buffer.name} is packed: {contract.packing}")
    with writer.loops([*contract.rows, contract.column]):
        writer.line(f"{type_} {contract.name} = 0;")
        with writer.loops(contract.inner):
            left, right = writer.values([contract.left, contract.right])
            writer.line(f"{contract.name} += ({type_}){left} * ({type_}){right};")
        writer.body(contract.body)


_STATEMENTS: dict[type, Callable[..., None]] = {
    Store: _store,
    Let: _let,
    Lookup: _lookup,
    Loop: _loop,
    Fold: _fold,
    Carry: _carry,
    Contract: _contract,
}
