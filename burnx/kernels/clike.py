"""A kernel as C: what it computes, in plain loops, for people who read C.

``Writer`` is also what the emitter of OpenCL C and CUDA C++ writes the work of one thread with: it replaces the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from burnx.dtype import DType, dtype_name, float32, is_float
from burnx.kernels.ir import (
    Apply,
    Buffer,
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
    operands,
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
Loops = Sequence[tuple[str, Dim]]
Tables = Mapping[type, Callable[..., Any]]


def clike(kernel: Kernel) -> str:
    """The text of a C function; functions such as ``max`` and dtypes that C lacks are named as in burnx."""
    writer = Writer()
    written = {id(each.buffer) for each in walk(kernel.body) if isinstance(each, Store)}
    arguments = [
        f"{'' if id(buffer) in written else 'const '}{writer.type_of(buffer.dtype)} *{buffer.name}"
        for buffer in kernel.buffers
    ]
    arguments += [f"int64_t {name}" for name in kernel.sizes]
    writer.line(f"void kernel({', '.join(arguments)})")
    with writer.block():
        writer.body(kernel.body)
    return "\n".join(writer.lines) + "\n"


@dataclass(slots=True)
class Writer:
    """The lines so far, and how many values were given names.  The methods below ``loops`` are its words."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0
    count: int = 0
    value_words: ClassVar[Tables]
    statement_words: ClassVar[Tables]

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
        with self.sharing(body):
            for statement in body:
                self.statement(statement)

    def statement(self, statement: Statement) -> None:
        self.statement_words[type(statement)](self, statement)

    def values(self, values: Sequence[Value]) -> list[str]:
        return spell(values, self.write_value, self.name_value, self.parts)

    def value(self, value: Value) -> str:
        return bare(self.values([value])[0])

    def write_value(self, value: Value, parts: list[str]) -> str:
        return self.value_words[type(value)](self, value, parts)

    def name_value(self, value: Value, text: str) -> str:
        self.count += 1
        self.line(f"{self.type_of(value.dtype)} _{self.count} = {bare(text)};")
        return f"_{self.count}"

    @contextmanager
    def loops(self, loops: Loops) -> Iterator[None]:
        """Nested loops around what is written inside."""
        if not loops:
            yield
            return
        (variable, extent), *inner = loops
        end = self.dim(extent)
        name = self.declare(variable, "i")
        head = f"for ({self.index_type} {name} = 0; {name} < {end}; {name}++)"
        with self.block(head), self.loops(inner):
            yield

    # --- words ------------------------------------------------------------------------------------------------------

    @property
    def index_type(self) -> str:
        return "int64_t"

    @contextmanager
    def sharing(self, body: Sequence[Statement], values: Sequence[Value] = ()) -> Iterator[None]:
        """Around statements and then values that may have parts in common."""
        yield

    def type_of(self, dtype: DType) -> str:
        return c_type(dtype)

    def dim(self, dim: Dim) -> str:
        return str(dim).replace(" // ", " / ")

    def declare(self, name: str, stem: str) -> str:
        """What a name is called from here on."""
        return name

    def called(self, name: str) -> str:
        return name

    def parts(self, value: Value) -> tuple[Value, ...]:
        """The values whose texts are needed before that of ``value``."""
        return operands(value)

    def place(self, buffer: Buffer, index: Dim) -> str:
        return f"{buffer.name}[{self.dim(index)}]"

    def apply(self, function: str, arguments: Sequence[str], dtype: DType) -> str:
        """A scalar function of arguments of a dtype."""
        if function in _INFIX:
            return f"({arguments[0]} {_INFIX[function]} {arguments[1]})"
        if function in _PREFIX:
            return f"({_PREFIX[function]}{arguments[0]})"
        if function == "select":
            return f"({arguments[0]} ? {arguments[1]} : {arguments[2]})"
        return f"{function}({', '.join(map(bare, arguments))})"

    def cast(self, text: str, source: DType, target: DType, saturate: bool = True) -> str:
        return f"({self.type_of(target)}){text}"

    def constant(self, number: float | int | bool, dtype: DType) -> str:
        return _constant(number, dtype)

    def neutral(self, function: str, dtype: DType) -> str:
        return _neutral(function, dtype)

    def combined(self, function: str, place: str, value: str, dtype: DType) -> str:
        """A place combined with a value: ``x += y;`` or ``x = max(x, y);``"""
        if function in ("add", "mul") and is_float(dtype):
            return f"{place} {_INFIX[function]}= {bare(value)};"
        return f"{place} = {bare(self.apply(function, [place, value], dtype))};"


def c_type(dtype: DType) -> str:
    name = dtype_name(dtype)
    is_standard = name.lstrip("u").startswith("int") and name.lstrip("uint") in (
        "8",
        "16",
        "32",
        "64",
    )
    return f"{name}_t" if is_standard else _TYPES.get(name, name)


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


# --- values ---------------------------------------------------------------------------------------------------------


def _constant(number: float | int | bool, dtype: DType) -> str:
    if isinstance(number, bool):
        return "true" if number else "false"
    wide = float(number)
    if wide != wide or abs(wide) == float("inf"):
        return "NAN" if wide != wide else "INFINITY" if wide > 0 else "-INFINITY"
    if not is_float(dtype):
        return str(number)
    return f"{wide}{'f' if dtype == float32 else ''}"


def _neutral(function: str, dtype: DType) -> str:
    if function not in ("min", "max"):
        return _NEUTRAL[function]
    if is_float(dtype):
        return "INFINITY" if function == "min" else "-INFINITY"
    return f"{dtype_name(dtype).upper()}_{'MAX' if function == 'min' else 'MIN'}"


def _cast(writer: Writer, value: Cast, parts: list[str]) -> str:
    if value.bits:
        return f"bits_as_{dtype_name(value.dtype)}({bare(parts[0])})"
    return writer.cast(parts[0], value.value.dtype, value.dtype, value.saturate)


def _inside(writer: Writer, value: Inside, parts: list[str]) -> str:
    checks = " && ".join(
        f"{writer.dim(low)} <= {writer.dim(index)} && {writer.dim(index)} < {writer.dim(high)}"
        for low, index, high in value.checks
    )
    return f"({checks} ? {parts[0]} : {parts[1]})"


def _apply(writer: Writer, value: Apply, parts: list[str]) -> str:
    return writer.apply(value.function, parts, value.arguments[-1].dtype)


def _position(writer: Writer, value: Position, parts: list[str]) -> str:
    return f"({writer.type_of(value.dtype)})({writer.dim(value.index)})"


Writer.value_words = {
    Load: lambda writer, value, parts: writer.place(value.buffer, value.index),
    Constant: lambda writer, value, parts: writer.constant(value.value, value.dtype),
    Apply: _apply,
    Cast: _cast,
    Position: _position,
    Inside: _inside,
    Local: lambda writer, value, parts: writer.called(value.name),
}

# --- statements -----------------------------------------------------------------------------------------------------


def write_store(writer: Writer, statement: Store) -> None:
    (value,) = writer.values([statement.value])
    place, function = writer.place(statement.buffer, statement.index), statement.combine
    if function:
        writer.line(writer.combined(function, place, value, statement.buffer.dtype))
    else:
        writer.line(f"{place} = {bare(value)};")


def _let(writer: Writer, statement: Let) -> None:
    value = writer.value(statement.value)
    name = writer.declare(statement.name, "v")
    writer.line(f"{writer.type_of(statement.value.dtype)} {name} = {value};")


def _lookup(writer: Writer, statement: Lookup) -> None:
    value, limit = writer.value(statement.value), writer.dim(statement.limit)
    name = writer.declare(statement.name, "k")
    found = value if statement.sure else f"checked_index({value}, {limit})"
    writer.line(f"{writer.index_type} {name} = {found};")


def _loop(writer: Writer, loop: Loop) -> None:
    notes = [note for note in ("parallel", "lanes") if getattr(loop, note)]
    if notes:
        writer.line(f"// {', '.join(notes)}")
    with writer.loops([(loop.variable, loop.extent)]):
        writer.body(loop.body)


def write_totals(writer: Writer, fold: Fold) -> list[str]:
    """Declare what a fold adds up to; returns what the accumulators are called."""
    names = []
    for each in fold.accumulators:
        dtype = each.value.dtype
        names.append(writer.declare(each.name, "v"))
        start = writer.neutral(each.function, dtype)
        writer.line(f"{writer.type_of(dtype)} {names[-1]} = {start};")
    return names


def write_turn(writer: Writer, fold: Fold, names: Sequence[str]) -> None:
    """One turn of a fold."""
    values = [each.value for each in fold.accumulators]
    with writer.sharing(fold.body, values):
        for statement in fold.body:
            writer.statement(statement)
        texts = writer.values(values)
        for each, name, text in zip(fold.accumulators, names, texts, strict=True):
            writer.line(writer.combined(each.function, name, text, each.value.dtype))


def _fold(writer: Writer, fold: Fold) -> None:
    names = write_totals(writer, fold)
    with writer.loops(fold.loops):
        write_turn(writer, fold, names)


def write_carry(
    writer: Writer, carry: Carry, write_body: Callable[[Sequence[Statement]], None]
) -> None:
    """A serial loop that carries values; ``write_body`` writes what is inside."""
    firsts = writer.values([first for _, first, _ in carry.carried])
    types = [writer.type_of(first.dtype) for _, first, _ in carry.carried]
    names = [writer.declare(name, "v") for name, _, _ in carry.carried]
    for type_, name, first in zip(types, names, firsts, strict=True):
        writer.line(f"{type_} {name} = {bare(first)};")
    with writer.loops([(carry.variable, carry.extent)]):
        write_body(carry.body)
        texts = writer.values([following for _, _, following in carry.carried])
        for type_, name, text in zip(types, names, texts, strict=True):
            writer.line(f"{type_} next_{name} = {bare(text)};")
        for name in names:
            writer.line(f"{name} = next_{name};")


def _carry(writer: Writer, carry: Carry) -> None:
    write_carry(writer, carry, writer.body)


def write_sum(writer: Writer, contract: Contract) -> None:
    """The sum of one row and column, and what is done with it."""
    dtype, name = contract.dtype, writer.declare(contract.name, "v")
    writer.line(f"{writer.type_of(dtype)} {name} = {writer.constant(0, dtype)};")
    with writer.loops(contract.inner):
        sides = (contract.left, contract.right)
        parts = [
            writer.cast(text, side.dtype, dtype) if side.dtype != dtype else text
            for side, text in zip(sides, writer.values(sides), strict=True)
        ]
        product = writer.apply("mul", parts, dtype)
        writer.line(writer.combined("add", name, product, dtype))
    writer.body(contract.body)


def _contract(writer: Writer, contract: Contract) -> None:
    if contract.packing:
        writer.line(f"// {contract.right.buffer.name} is packed: {contract.packing}")
    with writer.loops([*contract.rows, contract.column]):
        write_sum(writer, contract)


Writer.statement_words = {
    Store: write_store,
    Let: _let,
    Lookup: _lookup,
    Loop: _loop,
    Fold: _fold,
    Carry: _carry,
    Contract: _contract,
}
