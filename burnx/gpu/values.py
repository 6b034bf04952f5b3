"""Values and statements that these languages say in other words than C: bounds, casts, loads, stores, lookups."""

from __future__ import annotations

from burnx.dtype import bool_, int32, int64
from burnx.gpu import numbers
from burnx.gpu.writer import Writer
from burnx.kernels.clike import Writer as CWriter
from burnx.kernels.clike import write_store
from burnx.kernels.ir import Cast, Inside, Load, Lookup, Position, Store


def _inside(writer: Writer, value: Inside, parts: list[str]) -> str:
    """An expression where neither way needs lines of its own, else a name that is given a value on either way."""
    for part, text in zip(writer.always_needed(value), parts, strict=True):
        if not writer.known(part):
            writer.name_value(part, text)
    condition = write_checks(writer, value)
    yes, no = writer.captured(value.value), writer.captured(value.otherwise)
    if not yes[0] and not no[0]:
        return f"({condition} ? {_operand(yes[1])} : {_operand(no[1])})"
    name = writer.fresh("t")
    writer.line(f"{writer.type_of(value.dtype)} {name};")
    for head, (lines, text) in ((f"if ({condition})", yes), ("else", no)):
        with writer.block(head):
            writer.lines += lines
            writer.line(f"{name} = {text};")
    writer.remember(value, name)
    return name


def _operand(text: str) -> str:
    return text if text.replace("_", "a").isalnum() else f"({text})"


def write_checks(writer: Writer, value: Inside) -> str:
    """The condition of an ``Inside``."""
    checks = []
    for low, index, high in value.checks:
        if not (low == 0 and writer.is_natural(index)):
            checks.append(f"{writer.dim(low)} <= {writer.dim(index)}")
        checks.append(f"{writer.dim(index)} < {writer.dim(high)}")
    return " && ".join(checks) or "true"


def _cast(writer: Writer, value: Cast, parts: list[str]) -> str:
    source = value.value.dtype
    if value.bits:
        return numbers.reinterpret(writer.needs, parts[0], source, value.dtype)
    return writer.cast(parts[0], source, value.dtype, value.saturate)


def _position(writer: Writer, value: Position, parts: list[str]) -> str:
    index = int64 if writer.form.wide else int32
    return writer.cast(f"({writer.dim(value.index)})", index, value.dtype)


def _load(writer: Writer, value: Load, parts: list[str]) -> str:
    text = writer.given.get(id(value)) or writer.place(value.buffer, value.index)
    return f"({text} != 0)" if value.dtype == bool_ else text


def _store(writer: Writer, statement: Store) -> None:
    if id(statement) in writer.given:
        writer.line(f"{writer.given[id(statement)]} = {writer.value(statement.value)};")
        return
    if not writer.owns:
        write_store(writer, statement)
        return
    mine = f"if (({writer.dim(statement.index)}) % owners == own)"
    with writer.block(mine), writer.on_a_branch():
        write_store(writer, statement)


def _lookup(writer: Writer, statement: Lookup) -> None:
    """An index from memory: wrapped where negative, 0 and an error where it is out of range."""
    value, limit = writer.value(statement.value), writer.dim(statement.limit)
    name, type_ = writer.declare(statement.name, "k"), writer.index_type
    found = f"({value})" if statement.sure else f"lookup((i64)({value}), {limit}, error)"
    if not statement.sure:
        writer.needs.add("lookup")
    writer.line(f"const {type_} {name} = ({type_}){found};")


Writer.value_words = {
    **CWriter.value_words,
    Load: _load,
    Cast: _cast,
    Position: _position,
    Inside: _inside,
}
Writer.statement_words = {**CWriter.statement_words, Store: _store, Lookup: _lookup}
