"""Which thread works out which chunks of a contraction.

A thread's own chunks lie one behind the other: what it wrote for the step before, and what it will read in the next, are
in its own cache, from which another thread would get them several times slower.  The last third of everybody's is
taken as it comes, so that nobody waits for long.
"""

from __future__ import annotations

from collections.abc import Callable

from burnx.llvm.context import Context
from burnx.llvm.writer import Ssa, Writer, integer

COUNTER_BYTES = 192  # where in ``state`` the number of the next chunk that anybody may take is


def take_chunks(context: Context, chunks: Ssa, body: Callable[[Ssa], None]) -> None:
    """This thread's own chunks, then those that are free.

    The counter starts from 0 once for every call of the kernel: only for what is run once in it.
    """
    writer, workers = context.writer, context.workers
    free = _count_free(writer, chunks, workers)
    first, last = context.share(chunks)
    own = writer.binary("sub nsw", last, free)
    total = writer.binary("mul nsw", free, workers)
    counter = writer.pointer(context.state, integer(COUNTER_BYTES), "i8")
    names = ("take", "own", "ask", "free", "chunk", "taken")
    take, mine, ask, other, inside, after = map(writer.fresh, names)
    before, place = writer.block, Ssa("%" + writer.fresh("i"), "i64")
    writer.jump(take)
    writer.label(take)
    start = len(writer.lines)
    writer.branch(writer.compare("icmp slt", place, own), mine, ask)
    writer.label(mine)
    writer.jump(inside)
    writer.label(ask)
    number = writer.value("i64", f"atomicrmw add ptr {counter.name}, i64 1 monotonic")
    writer.branch(writer.compare("icmp slt", number, total), other, after)
    writer.label(other)
    found = _free_chunk(context, chunks, free, number)
    writer.jump(inside)
    writer.label(inside)
    chunk = writer.value("i64", f"phi i64 [{place.name}, %{mine}], [{found.name}, %{other}]")
    with context.scope():
        body(chunk)
    following = writer.binary("add nsw", place, integer(1))
    phi = f"  {place.name} = phi i64 [{first.name}, %{before}], [{following.name}, %{writer.block}]"
    writer.lines.insert(start, phi)
    writer.jump(take)
    writer.label(after)


def _count_free(writer: Writer, chunks: Ssa, workers: Ssa) -> Ssa:
    """How many chunks of every thread anybody may take: about a third, of one thread none."""
    raised = writer.binary("add nsw", chunks, workers)
    free = writer.binary("udiv", raised, writer.binary("mul nsw", workers, integer(3)))
    alone = writer.compare("icmp eq", workers, integer(1))
    return writer.select(alone, integer(0), free)


def _free_chunk(context: Context, chunks: Ssa, free: Ssa, number: Ssa) -> Ssa:
    """The chunk of a number: first one of each thread's, then the one behind it."""
    writer = context.writer
    owner = writer.binary("urem", number, context.workers)
    place = writer.binary("udiv", number, context.workers)
    _, last = context.share(chunks, owner)
    return writer.binary("add nsw", writer.binary("sub nsw", last, free), place)
