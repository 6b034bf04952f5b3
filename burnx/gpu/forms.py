"""Which form a kernel takes: by what its body is made of, and by how many turns there are of what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burnx.gpu.code import Form, Limits
from burnx.gpu.frame import chain_of, is_parallel, spread_of, uses_worker
from burnx.gpu.group import spread_nest
from burnx.gpu.ranges import Range, loops_in, range_of
from burnx.gpu.threads import divided_loops
from burnx.gpu.threads_neighbours import neighbours_of, width_of
from burnx.kernels.clike import Loops
from burnx.kernels.ir import Contract, Fold, Kernel, Loop, Statement, Store, walk

Sizes = Mapping[str, int]
LONG = 64  # turns that are worth being spread over a group
_FEW = 2048  # threads to a multiprocessor: with fewer of them a device is not busy
_X = 128  # turns along x that are worth not being flattened with others
_THREADS = 256
_WORKERS = 16  # groups of a multiprocessor, at most, where they have scratch memory
_TURNS = 32  # of a thread along a row, before several warps share it


def _ranges(kernel: Kernel, sizes: Sizes) -> dict[str, Range]:
    """How far sizes and variables go."""
    ranges: dict[str, Range] = {name: (number, number) for name, number in sizes.items()}
    for statement in walk(kernel.body):
        for name, extent in loops_in(statement):
            ranges[name] = (0, max(range_of(extent, ranges)[1] - 1, 0))
    return ranges


def _turns(loops: Sequence[tuple[str, object]], ranges: Mapping[str, Range]) -> int:
    total = 1
    for name, _ in loops:
        total *= ranges[name][1] + 1
    return total


def _power(number: int) -> int:
    """The least power of two that is not below."""
    return 1 << max(number - 1, 0).bit_length()


# --- threads --------------------------------------------------------------------------------------------------------


def fit_threads(kernel: Kernel, limits: Limits, sizes: Sizes) -> list[Form]:
    """Every kernel can be the work of threads; where they are many, each takes as many elements as a vector holds."""
    loops, inside = divided_loops(kernel)
    ranges = _ranges(kernel, sizes)
    plain = _fit_spread(loops, ranges, limits, 1)
    work = neighbours_of(loops, inside)
    width = width_of(work, sizes, limits.vector_bytes) if work is not None else 1
    if width == 1 or uses_worker(kernel):
        return plain
    vectors = _fit_spread(loops, ranges, limits, width)
    many = _turns(loops, ranges) // width >= limits.units * _FEW // 4
    return [*vectors, *plain] if many else [*plain, *vectors]


def _fit_spread(
    loops: Loops, ranges: Mapping[str, Range], limits: Limits, width: int
) -> list[Form]:
    """The forms in which threads take ``width`` elements each."""
    group = min(_THREADS, limits.threads)
    flat = Form("threads", group, (len(loops), width) if width > 1 else ())
    for inner in range(1, len(loops)):
        turns = _turns(loops[-inner:], ranges) // width
        fitting = _fitting_group(turns, group)
        if turns >= _X and fitting:
            return [Form("threads", fitting, (inner, width)), flat]
    return [flat]


def _fitting_group(turns: int, most: int) -> int:
    """The threads of a group so that few of the last one along x are idle; 0 if there are none."""
    for group in (most, most // 2, most // 4):
        if group and -(-turns // group) * group <= turns * 1.25:
            return group
    return 0


# --- groups ---------------------------------------------------------------------------------------------------------


def fit_group(kernel: Kernel, limits: Limits, sizes: Sizes) -> list[Form]:
    """Rows that are long enough for a group, or results that are too few to keep the device busy."""
    if len(kernel.body) != 1 and any(is_parallel(each) for each in kernel.body):
        return []
    ranges = _ranges(kernel, sizes)
    chain, inside = chain_of(kernel.body)
    spread, single = spread_of(kernel.body)
    if len(spread) > len(chain):
        long = _longest(single, ranges)
        few = _turns(spread, ranges) < limits.units * _FEW // 4
        if long >= 4 * LONG and few and _is_plain(single):
            return [Form("group", _group_for(long, limits), (1,))]
        return []
    long = _longest(inside, ranges)
    alone = len(inside) == 1 and isinstance(inside[0], Contract)
    if alone or long < LONG or not _is_common_work(inside):
        return []
    return [Form("group", group) for group in _groups(kernel, long, limits, _turns(chain, ranges))]


def _groups(kernel: Kernel, long: int, limits: Limits, rows: int) -> list[int]:
    most = min(limits.threads, 1024)
    least = 32 if limits.warp > 1 else 4 * 32  # a warp adds up without waiting for others
    if uses_worker(kernel):  # no more groups than there is scratch memory for
        rows = min(rows, limits.units * _WORKERS)
    first = min(max(_power(long // _TURNS), least), most)
    while rows * first < limits.units * _FEW // 2 and 2 * first <= min(_power(long // 2), most):
        first *= 2
    others = [first * 2, first // 2]
    return [first, *(each for each in others if 32 <= each <= most)]


def _group_for(long: int, limits: Limits) -> int:
    """Some turns for each thread, and groups that are not too large."""
    return max(min(_power(long // 4), _THREADS, limits.threads), min(32, limits.threads))


def _longest(body: Sequence[Statement], ranges: Mapping[str, Range]) -> int:
    """The most turns that a statement here spreads over a group."""
    longest = 1
    for statement in body:
        match statement:
            case Fold():
                longest = max(longest, _turns(statement.loops, ranges))
            case Contract():
                longest = max(longest, _turns([*statement.rows, statement.column], ranges))
            case Loop():
                loops, _ = spread_nest(statement)
                inner = _turns(loops, ranges) if loops else _longest(statement.body, ranges)
                longest = max(longest, inner)
            case _:
                pass
    return longest


def _is_plain(body: Sequence[Statement]) -> bool:
    """Whether only single elements are stored behind folds."""
    return all(not isinstance(each, Loop) for each in body) and _is_common_work(body)


def _is_common_work(body: Sequence[Statement]) -> bool:
    """Whether folds may be taken in any order: one that is not said to be free of order stores nothing."""
    for each in walk(tuple(body)):
        if isinstance(each, Fold) and not each.lanes:
            if any(isinstance(inner, Store) for inner in walk(each.body)):
                return False
    return True
