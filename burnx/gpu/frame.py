"""What stands around a kernel's work: its parameters, pointers and guards, and the turns of its parallel loops."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from burnx.gpu import values  # noqa: F401  (the writer's words)
from burnx.gpu.code import Code, Form
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import memory_type
from burnx.gpu.pieces import DOUBLES
from burnx.gpu.ranges import used_dims
from burnx.gpu.writer import Writer
from burnx.kernels.clike import Loops
from burnx.kernels.ir import WORKER, WORKERS, Contract, Kernel, Loop, Statement, Store, walk
from burnx.shape import Dim, product, symbols

_NAME = "KERNEL_NAME"
THREAD, GROUP_X, GROUP_Y, GROUP_Z, GROUPS_X, GROUPS_Y, GROUPS_Z = range(7)


def open_kernel(kernel: Kernel, dialect: Dialect, form: Form, cluster: int = 1) -> Writer:
    """A writer that has written all up to the kernel's work, which is to be indented by one block.

    ``cluster``: groups that run at the same time and read each other's local memory.
    """
    writer = Writer(dialect=dialect, form=form, kernel=kernel)
    writer.line(f"{_head(dialect, form.group, cluster)}{_NAME}({', '.join(_parameters(writer))})")
    writer.line("{")
    writer.depth = 1
    _point(writer)
    for place, value in enumerate(form.guards):
        writer.line(f"if ((g{place}[0] != 0) != {int(value)}) return;")
    return writer


def close_kernel(writer: Writer, grid: tuple[Dim, Dim, Dim], scratch: bool = False) -> Code:
    """The finished function; its name says what is in it."""
    writer.depth = 0
    writer.line("}")
    text = "\n".join(writer.lines) + "\n"
    if any(DOUBLES in each for each in (text, *writer.needs)):
        writer.needs.add(DOUBLES)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    name = f"{writer.form.kind}_{digest}"
    return Code(
        name,
        text.replace(_NAME, name),
        writer.form,
        grid,
        frozenset(writer.needs),
        scratch,
        kernel=writer.kernel,
    )


def _head(dialect: Dialect, group: int, cluster: int) -> str:
    if dialect.name == "cuda":
        together = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
        return f'extern "C" __global__ void {together}__launch_bounds__({group}) '
    return f"__kernel __attribute__((reqd_work_group_size({group}, 1, 1))) void "


def _parameters(writer: Writer) -> list[str]:
    kernel, fixed = writer.kernel, dict(writer.form.fixed)
    stored = _stored(kernel)
    listed = []
    for place, buffer in enumerate(kernel.buffers):
        writer.buffers[id(buffer)] = f"b{place}"
        listed += _pointer(writer, f"b{place}", memory_type(buffer.dtype), id(buffer) in stored)
    for place, name in enumerate(kernel.sizes):
        if name in fixed:
            number = fixed[name]
            writer.names[name] = str(number) if number >= 0 else f"({number})"
            if number >= 0:
                writer.natural.add(name)
            continue
        writer.names[name] = f"n{place}"
        listed.append(f"const {writer.index_type} n{place}")
    for place in range(len(writer.form.guards)):
        listed += _pointer(writer, f"g{place}", "u8", False)
    return [*listed, *_pointer(writer, "error", "i32", True)]


def _stored(kernel: Kernel) -> set[int]:
    return {id(each.buffer) for each in walk(kernel.body) if isinstance(each, Store)}


def _pointer(writer: Writer, name: str, type_: str, stored: bool) -> list[str]:
    if writer.dialect.name == "cuda":
        return [f"{'' if stored else 'const '}{type_} *__restrict__ {name}"]
    return [f"__global uchar *{name}_from", f"const ulong {name}_at"]


def _point(writer: Writer) -> None:
    """In OpenCL C a buffer is memory and a place in it."""
    if writer.dialect.name == "cuda":
        return
    kernel, stored = writer.kernel, _stored(writer.kernel)
    named = [
        (f"b{place}", memory_type(buffer.dtype), id(buffer) in stored)
        for place, buffer in enumerate(kernel.buffers)
    ]
    named += [(f"g{place}", "u8", False) for place in range(len(writer.form.guards))]
    named.append(("error", "i32", True))
    for name, type_, is_stored in named:
        pointer = f"__global {'' if is_stored else 'const '}{type_} *"
        writer.line(f"{pointer}{name} = ({pointer})({name}_from + {name}_at);")


# --- parallel loops -------------------------------------------------------------------------------------------------


def chain_of(body: Sequence[Statement]) -> tuple[list[tuple[str, Dim]], tuple[Statement, ...]]:
    """The directly nested parallel loops at the start of a body, and what is inside of them."""
    loops: list[tuple[str, Dim]] = []
    inside = tuple(body)
    while len(inside) == 1 and isinstance(inside[0], Loop) and inside[0].parallel:
        loops.append((inside[0].variable, inside[0].extent))
        inside = inside[0].body
    return loops, inside


def spread_of(body: Sequence[Statement]) -> tuple[list[tuple[str, Dim]], tuple[Statement, ...]]:
    """As ``chain_of``, with a loop of lanes that follows directly."""
    loops, inside = chain_of(body)
    if len(inside) == 1 and isinstance(inside[0], Loop) and inside[0].lanes:
        loops.append((inside[0].variable, inside[0].extent))
        inside = inside[0].body
    return loops, inside


def is_independent(loops: Loops) -> bool:
    """Whether no loop's extent depends on another's variable: only then one number counts the turns of all."""
    names = {name for name, _ in loops}
    return all(symbols(extent).isdisjoint(names) for _, extent in loops)


def is_parallel(statement: Statement) -> bool:
    return any(isinstance(each, (Loop, Contract)) and each.parallel for each in walk((statement,)))


def extent_of(loops: Loops) -> Dim:
    """The turns of nested loops together."""
    return product(extent for _, extent in loops)


def blocks_of(turns: Dim, group: int) -> Dim:
    """The groups that take a turn with each thread."""
    return turns if group == 1 else (turns + (group - 1)) // group


def uses_worker(kernel: Kernel) -> bool:
    return any(symbols(dim) & {WORKER, WORKERS} for dim in used_dims(kernel))


def name_turns(writer: Writer, flat: str, loops: Loops) -> None:
    """Declare the variables of nested loops from one flat turn, the last variable counting fastest."""
    type_ = writer.index_type
    unsigned = type_.replace("i", "u")
    for place, (variable, extent) in reversed(list(enumerate(loops))):
        size = writer.dim(extent)
        name = writer.declare(variable, "i")
        if isinstance(extent, int) and extent <= 1:
            writer.line(f"const {type_} {name} = 0;")
            continue
        if place == 0:
            writer.line(f"const {type_} {name} = {flat};")
            continue
        rest = writer.fresh("r")
        writer.line(f"const {type_} {rest} = ({unsigned}){flat} / ({unsigned})({size});")
        writer.line(f"const {type_} {name} = {flat} - {rest} * ({size});")
        flat = rest


@contextmanager
def in_turns(
    writer: Writer, place: str, step: str, loops: Loops, once: bool = False
) -> Iterator[None]:
    """What is inside runs for the turns place, place + step, … of nested loops; ``once``: for the first at most."""
    flat = writer.fresh("x")
    type_, total = writer.index_type, writer.dim(extent_of(loops))
    if once:
        writer.line(f"const {type_} {flat} = {place};")
        head = f"if ({flat} < {total})"
    else:
        head = f"for ({type_} {flat} = {place}; {flat} < {total}; {flat} += {step})"
    with writer.block(head):
        name_turns(writer, flat, loops)
        yield
