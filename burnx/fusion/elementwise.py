"""Kernels that write every element of a value by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burnx.fusion.expressions import VIRTUAL, Expressions, Index, as_stored, dtype_of, shape_of
from burnx.fusion.finishing import dims_of, substituted
from burnx.fusion.scheduler import Scheduler, writer
from burnx.fusion.storage import Storage
from burnx.kernels.affine import coefficient
from burnx.kernels.ir import Fold, Loop, Statement, Store, Value, in_loops, operands, walk
from burnx.program import Instruction
from burnx.shape import Call, Dim, Expr, Shape, product, symbol, symbols

Loops = list[tuple[str, Dim]]
Element = Callable[[Expressions, Index], Value]
CHUNK = 4096  # turns of an innermost loop that are worth a thread's while


@writer(
    "map",
    "cast",
    "bitcast",
    "broadcast",
    "reshape",
    "transpose",
    "slice",
    "flip",
    "iota",
    "sizes",
    "take",
    "take_along",
    "gather_nd",
)
def write_elementwise(scheduler: Scheduler, instruction: Instruction) -> None:
    """The step that puts the value of a virtual instruction into memory."""
    (var,) = instruction.outputs
    storage = scheduler.allocate(var)

    def element(at: Expressions, index: Index) -> Value:
        value = VIRTUAL[instruction.primitive](at, instruction, index)
        return as_stored(value, dtype_of(var))

    fill(scheduler, storage, shape_of(var), element)


def fill(
    scheduler: Scheduler,
    storage: Storage,
    shape: Shape,
    element: Element,
    shift: Index | None = None,
) -> None:
    """A step that stores ``element(index)`` for every index of a shape, ``shift`` further in each axis."""
    splits: dict[int, list[int]] = {}
    while True:
        at = scheduler.expressions()
        loops, index = _open(at, storage, shape, splits)
        target = tuple(a + b for a, b in zip(index, shift, strict=True)) if shift else index
        value = element(at, index)
        store = Store(at.buffer(storage), at.place(storage, target), value)
        found = _division(at, [store], loops)
        if found is None or not _split(splits, storage, shape, found):
            break
    body = nest(merge(loops, [store], at))
    scheduler.step(at, body, [storage], product(shape) * weight(value))


def _open(
    at: Expressions, storage: Storage, shape: Shape, splits: dict[int, list[int]]
) -> tuple[Loops, Index]:
    """Loops over a shape in the order of memory, and the index that they give."""
    index: list[Dim] = [0] * len(shape)
    loops: Loops = []
    for axis in storage.order:
        inner = splits.get(axis, [])
        sizes: list[Dim] = [shape[axis], *inner]
        for divisor in inner:
            sizes[0] = sizes[0] // divisor
        place: Dim = 0
        for size in sizes:
            place = place * size
            if size != 1:
                variable = at.variable(size)
                loops.append((str(variable), size))
                place = place + variable
        index[axis] = place
    return loops, tuple(index)


def all_dims(at: Expressions, body: Sequence[Statement]) -> list[Dim]:
    """Every index that statements, and the lookups they use, are made with."""
    found: list[Dim] = []
    seen: set[Value] = set()
    stack: list[Value] = [lookup.value for lookup in at.lookups]
    for each in walk(tuple(body)):
        if isinstance(each, Store):
            found.append(each.index)
            stack.append(each.value)
        elif isinstance(each, Fold):
            stack.extend(one.value for one in each.accumulators)
    while stack:
        top = stack.pop()
        if top not in seen:
            seen.add(top)
            found.extend(dims_of(top))
            stack.extend(operands(top))
    return found


@dataclass(frozen=True, slots=True)
class _Division:
    variable: str
    by: int


def _division(at: Expressions, body: Sequence[Statement], loops: Loops) -> _Division | None:
    """A division by a number of an index with one loop variable in it that its extent is a multiple of."""
    extents = dict(loops)
    for dim in all_dims(at, body):
        for call in calls_in(dim):
            names = symbols(call.left) & extents.keys()
            if len(names) != 1 or not isinstance(call.right, int) or call.kind == "min":
                continue
            (name,) = names
            extent = extents[name]
            if isinstance(extent, int) and extent % call.right == 0 and extent > call.right > 1:
                return _Division(name, call.right)
    return None


def calls_in(dim: Dim) -> list[Call]:
    if not isinstance(dim, Expr):
        return []
    found = []
    for monomial in dim.terms:
        for atom in monomial:
            if isinstance(atom, Call):
                found += [atom, *calls_in(atom.left)]
    return found


def _split(splits: dict[int, list[int]], storage: Storage, shape: Shape, found: _Division) -> bool:
    """Note that the axis of a variable is to be two loops; False if that was tried before."""
    count = 0
    for axis in storage.order:
        sizes: list[Dim] = [shape[axis], *splits.get(axis, [])]
        for divisor in splits.get(axis, []):
            sizes[0] = sizes[0] // divisor
        for part, size in enumerate(sizes):
            if size == 1:
                continue
            count += 1
            if f"${count}" != found.variable:
                continue
            inner = splits.setdefault(axis, [])
            if len(inner) > 3:
                return False
            inner.insert(part, found.by)
            if part > 0:
                inner[part - 1] //= found.by
            return True
    return False


def merge(
    loops: Loops, body: Sequence[Statement], at: Expressions
) -> tuple[Loops, list[Statement]]:
    """Neighbouring loops that step through memory as one become one."""
    statements, merged = list(body), loops[:]
    if at.lookups:
        return merged, statements
    place = len(merged) - 2
    while place >= 0:
        (outer, _), (inner, extent) = merged[place], merged[place + 1]
        dims = all_dims(at, statements)
        if all(steps_as_one(dim, outer, inner, extent) for dim in dims):
            statements = list(substituted(statements, {outer: 0}))
            size = merged[place][1] * extent
            merged[place : place + 2] = [(inner, size)]
            at.ranges[inner] = size
        place -= 1
    return merged, statements


def steps_as_one(dim: Dim, outer: str, inner: str, extent: Dim) -> bool:
    names = symbols(dim)
    if outer not in names and inner not in names:
        return True
    if any({outer, inner} & symbols(call.left) for call in calls_in(dim)):
        return False
    far, rest = coefficient(dim, _symbol(outer))
    near, rest = coefficient(rest, _symbol(inner))
    return bool(far == near * extent) and not {outer, inner} & (symbols(far) | symbols(near))


def _symbol(name: str) -> Expr:
    result = symbol(name)
    assert isinstance(result, Expr)
    return result


def nest(opened: tuple[Loops, list[Statement]]) -> list[Statement]:
    """Statements inside loops: the innermost in lanes, those around it parallel."""
    loops, body = opened
    if not loops:
        return body
    (variable, extent) = loops[-1]
    outer = product(tuple(size for _, size in loops[:-1]))
    if isinstance(outer, int) and outer == 1:
        return [Loop(variable, extent, tuple(body), parallel=True, lanes=True)]
    inner = Loop(variable, extent, tuple(body), lanes=True)
    return in_loops(loops[:-1], [inner], parallel=True)


_HEAVY = frozenset(("exp", "log", "tanh", "erf", "pow", "sin", "cos", "softplus", "div", "sqrt"))


def weight(value: Value) -> int:
    """About how many cheap operations an element takes."""
    seen: set[Value] = set()
    stack, total = [value], 1
    while stack:
        top = stack.pop()
        if top in seen:
            continue
        seen.add(top)
        total += 8 if getattr(top, "function", "") in _HEAVY else 1
        stack.extend(operands(top))
    return total
