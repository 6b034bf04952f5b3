"""A kernel as LLVM text: its frame, and one function per kind of statement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from burnx.kernels.ir import (
    WORKER,
    WORKERS,
    Carry,
    Contract,
    Fold,
    Kernel,
    Let,
    Load,
    Lookup,
    Loop,
    Statement,
    Store,
    walk,
)
from burnx.llvm.calculator import Calculator
from burnx.llvm.context import Context, Unsupported
from burnx.llvm.dtypes import is_signed, lanes_of
from burnx.llvm.folds import emit_carry, emit_fold
from burnx.llvm.literals import widen
from burnx.llvm.loops import emit_loop, is_parallel
from burnx.llvm.memory import store
from burnx.llvm.numbers import resize_integer
from burnx.llvm.target import Target
from burnx.llvm.uses import nodes, statement_values, written_buffers
from burnx.llvm.writer import Ssa, Writer, integer

__all__ = ["Unsupported", "emit", "emit_statement"]


def emit(kernel: Kernel, target: Target) -> str:
    """The text of a module with the function ``kernel``.

    Raises: Unsupported if the kernel holds dtypes or functions that there is no code for.
    """
    context = Context(Writer(), target, rewritten=_rewritten(kernel))
    _load_arguments(context, kernel)
    with _deep_recursion():
        _emit_shared(context, kernel.body)
    context.writer.line("ret void")
    return _module(context.writer)


def _module(writer: Writer) -> str:
    head = "define void @kernel(ptr noalias %args, i64 %worker, i64 %workers, ptr noalias %state)"
    text = "\n".join(writer.lines)
    return "\n".join([*writer.declarations.values(), f"{head} {{", "entry:", text, "}", ""])


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Loops within loops within branches: some ten Python frames each."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 20_000))
    yield
    sys.setrecursionlimit(before)


def _rewritten(kernel: Kernel) -> frozenset[int]:
    """The ids of buffers that the kernel both reads and writes."""
    statements = list(walk(kernel.body))
    values = [value for each in statements for value in statement_values(each)]
    loads = [node for node in nodes(values) if isinstance(node, Load)]
    loads += [
        load
        for each in statements
        if isinstance(each, Contract)
        for load in (each.left, each.right)
    ]
    return frozenset(written_buffers(kernel.body) & {id(load.buffer) for load in loads})


def _load_arguments(context: Context, kernel: Kernel) -> None:
    writer = context.writer
    args = Ssa("%args", "ptr")
    for position, buffer in enumerate(kernel.buffers):
        place = writer.pointer(args, integer(position), "i64")
        context.bases[id(buffer)] = writer.load("ptr", place, 8)
    for position, name in enumerate(kernel.sizes, len(kernel.buffers)):
        place = writer.pointer(args, integer(position), "i64")
        context.bind(name, writer.load("i64", place, 8))
    context.bind(WORKER, context.worker)
    context.bind(WORKERS, context.workers)


def _emit_shared(context: Context, body: Sequence[Statement]) -> None:
    """Statements that all workers meet: parallel ones are divided, what only stores is worker 0's."""
    divided = any(is_parallel(statement) for statement in body)
    if not divided:
        first = context.writer.compare("icmp eq", context.worker, integer(0))
        with context.writer.when(first), context.scope():
            context.divided = True
            context.statements(body, 1)
            context.divided = False
        return
    for statement in body:
        if isinstance(statement, Loop) and is_parallel(statement) and not statement.parallel:
            _emit_around(context, statement)
        elif is_parallel(statement) or not _stores(statement):
            context.statements((statement,), 1)
        else:
            _emit_shared(context, (statement,))


def _stores(statement: Statement) -> bool:
    return any(isinstance(each, (Store, Contract)) for each in walk((statement,)))


def _emit_around(context: Context, loop: Loop) -> None:
    """A serial loop around parallel ones: every worker runs it."""

    def turn(index: Ssa, _: list[Ssa]) -> list[Ssa]:
        with context.scope():
            context.bind(loop.variable, index)
            _emit_shared(context, loop.body)
        return []

    stop = context.index(loop.extent)
    context.prepare(loop.body)
    context.writer.loop(integer(0), stop, integer(1), turn)


# --- statements -----------------------------------------------------------------------------------------------------


def emit_statement(context: Context, statement: Statement, lanes: int) -> None:
    """The code of one statement; ``lanes`` says how many turns of the lanes loop around it run at once."""
    _STATEMENTS[type(statement)](context, statement, lanes)


def _emit_store(context: Context, statement: Store, lanes: int) -> None:
    value = context.value(statement.value, 1)
    store(context, statement.buffer, statement.index, value, statement.combine)
    context.forget_values((id(statement.buffer),))


def _emit_let(context: Context, statement: Let, lanes: int) -> None:
    context.bind(statement.name, context.value(statement.value, 1))


def _emit_lookup(context: Context, statement: Lookup, lanes: int) -> None:
    """An index from memory: wrapped where negative, 0 and an error where it is out of range."""
    calc = Calculator(context.writer)
    raw = context.value(statement.value, 1)
    index = resize_integer(context, raw, "i64", is_signed(statement.value.dtype))
    if statement.sure:
        context.bind(statement.name, index)
        return
    limit = widen(context.writer, context.index(statement.limit), lanes_of(index.type))
    wrapped = calc.do("add", index, limit)
    index = calc.select(calc.compare("icmp slt", index, 0), wrapped, index)
    bad = calc.compare("icmp uge", index, limit)
    with context.writer.when(calc.some(bad)):
        context.writer.store(integer(1), context.state, 8)
    context.bind(statement.name, calc.select(bad, 0, index))


def _emit_contract(context: Context, statement: Contract, lanes: int) -> None:
    try:
        from burnx.llvm.contractions.contract import emit_contract
    except ImportError:
        raise Unsupported("this emitter has no code for Contract") from None
    emit_contract(context, statement)


_STATEMENTS: dict[type, Callable[..., None]] = {
    Store: _emit_store,
    Let: _emit_let,
    Lookup: _emit_lookup,
    Loop: emit_loop,
    Fold: emit_fold,
    Carry: emit_carry,
    Contract: _emit_contract,
}
