"""Several neighbouring elements for each thread of the form "threads", read and written as a vector.

That takes a body without loops in which whatever moves with the innermost loop does so element by element, from places
that are multiples of the width: then what a thread reads of a buffer is one vector, and so is what it stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import NAMED, memory_type
from burnx.gpu.pieces import Piece, maker
from burnx.gpu.ranges import values_in
from burnx.gpu.writer import Writer, unguarded
from burnx.kernels.affine import coefficient, terms
from burnx.kernels.ir import Buffer, Inside, Let, Load, Local, Lookup, Position, Statement, Store
from burnx.kernels.spelling import every_node
from burnx.shape import Dim, Expr, Symbol, symbol, symbols

WIDEST = 8  # elements
_MOST_NODES = 256  # of all elements' values together: text that is worth compiling
Loops = Sequence[tuple[str, Dim]]
Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """What moves with the innermost loop; ``before`` are the statements that do not, ``inside`` the others."""

    before: tuple[Statement, ...]
    inside: tuple[Statement, ...]
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def vector_width(loops: Loops, body: Sequence[Statement], sizes: Sizes, most_bytes: int) -> int:
    """The elements that a thread may take at once, for loops around a body; 1 if it is to take them one by one."""
    moves = find_moves(loops[-1][0], body) if loops else None
    if moves is None:
        return 1
    width = WIDEST
    accesses = [(load.buffer, load.index) for load in moves.loads]
    accesses += [(store.buffer, store.index) for store in moves.stores]
    nodes = len(list(every_node([value for each in moves.inside for value in values_in(each)])))
    extent, alone = loops[-1][1], len(loops) == 1
    while width > 1:
        fits = all(width * buffer.dtype.itemsize <= most_bytes for buffer, _ in accesses)
        whole = alone or _is_multiple(extent, width, sizes)
        rests = (coefficient(index, _of(loops[-1][0]))[1] for _, index in accesses)
        if fits and whole and nodes * width <= _MOST_NODES:
            if all(_is_multiple(rest, width, sizes) for rest in rests):
                return width
        width //= 2
    return 1


def find_moves(variable: str, body: Sequence[Statement]) -> Moves | None:
    """What moves with a loop's variable, if all of it is read and stored element by element."""
    if not all(isinstance(each, (Store, Let, Lookup)) for each in body):
        return None
    before, inside = _divide(variable, body)
    stores = tuple(each for each in body if isinstance(each, Store))
    if not stores or any(isinstance(each, Lookup) for each in inside):
        return None
    values = [value for each in body for value in values_in(each)]
    read = [each for each in every_node(values) if isinstance(each, Load)]
    loads = [each for each in read if variable in symbols(each.index)]
    certain = {key for value in values for key in unguarded(value)}
    places = [load.index for load in loads] + [store.index for store in stores]
    steady = all(_steps_by_one(place, variable) for place in places)
    written = {id(each.buffer) for each in stores}
    if not steady or any(each.combine for each in stores):
        return None
    if any(id(each) not in certain for each in loads) or any(id(e.buffer) in written for e in read):
        return None
    return Moves(before, inside, tuple(loads), stores)


def _divide(
    variable: str, body: Sequence[Statement]
) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """The statements before any that depends on a variable, which may be worked out once, and the rest."""
    moving = {variable}
    before: list[Statement] = []
    inside: list[Statement] = []
    for each in body:
        if not isinstance(each, Store) and moving.isdisjoint(_names_in(each)):
            before.append(each)
            continue
        inside.append(each)
        if isinstance(each, (Let, Lookup)):
            moving.add(each.name)
    return tuple(before), tuple(inside)


def _names_in(statement: Statement) -> set[str]:
    found: set[str] = set()
    for node in every_node(values_in(statement)):
        if isinstance(node, (Load, Position)):
            found |= symbols(node.index)
        elif isinstance(node, Inside):
            found |= {name for check in node.checks for dim in check for name in symbols(dim)}
        elif isinstance(node, Local):
            found.add(node.name)
    return found


def _steps_by_one(index: Dim, variable: str) -> bool:
    factor, rest = coefficient(index, _of(variable))
    return factor == 1 and variable not in symbols(rest)


def _is_multiple(dim: Dim, width: int, sizes: Sizes) -> bool:
    """Whether a dimension is a multiple of the width whatever the names in it are that are no sizes."""
    for monomial, factor in terms(dim):
        for atom in monomial:
            if isinstance(atom, Symbol):
                factor *= sizes.get(atom.name, 1)
        if factor % width:
            return False
    return True


def _of(name: str) -> Expr:
    result = symbol(name)
    assert isinstance(result, Expr)
    return result


# --- text -----------------------------------------------------------------------------------------------------------


def write_vectors(
    writer: Writer, loop: tuple[str, Dim], moves: Moves, width: int, ends: bool
) -> None:
    """The work of a thread on the vector that its loop's variable counts.

    ``ends``: the loop's extent may be no multiple of the width, and what is left there is taken one by one.
    """
    variable, extent = loop
    base = writer.fresh("i")
    writer.line(f"const {writer.index_type} {base} = {writer.called(variable)} * {width};")
    writer.names[variable] = base
    writer.body(moves.before)
    if not ends:
        _write_whole(writer, variable, moves, width)
        return
    end = writer.dim(extent)
    with writer.block(f"if ({base} + {width} <= {end})"):
        _write_whole(writer, variable, moves, width)
    one = writer.fresh("i")
    head = f"for ({writer.index_type} {one} = {base}; {one} < {end}; {one}++)"
    with writer.block("else"), writer.block(head):
        writer.names[variable] = one
        writer.body(moves.inside)


def _write_whole(writer: Writer, variable: str, moves: Moves, width: int) -> None:
    base, read = writer.names[variable], _read(writer, moves.loads, width)
    made = [writer.fresh("a") for _ in moves.stores]
    for store, name in zip(moves.stores, made, strict=True):
        writer.line(f"{_type(writer, store.buffer, width)} {name};")
    for lane in range(width):
        writer.names[variable] = f"({base} + {lane})" if lane else base
        names = [*read.items(), *((id(s), n) for s, n in zip(moves.stores, made, strict=True))]
        writer.given |= {key: f"{name}.s{lane}" for key, name in names}
        writer.body(moves.inside)
    writer.names[variable] = base
    for store, name in zip(moves.stores, made, strict=True):
        type_ = _type(writer, store.buffer, width)
        writer.line(f"*(GLOBAL {type_} *)&{writer.place(store.buffer, store.index)} = {name};")
    for key in (*read, *map(id, moves.stores)):
        writer.given.pop(key)


def _read(writer: Writer, loads: Sequence[Load], width: int) -> dict[int, str]:
    """What the vectors are called that loads find their elements in, by the loads' identity."""
    found: dict[int, str] = {}
    named: dict[str, str] = {}
    for load in loads:
        place = writer.place(load.buffer, load.index)
        if place not in named:
            named[place] = writer.fresh("a")
            type_ = _type(writer, load.buffer, width)
            writer.line(f"const {type_} {named[place]} = *(GLOBAL const {type_} *)&{place};")
        found[id(load)] = named[place]
    return found


def _type(writer: Writer, buffer: Buffer, width: int) -> str:
    name = f"vector_{memory_type(buffer.dtype)}_{width}"
    writer.needs.add(name)
    return name


@maker
def _make(dialect: Dialect, name: str) -> Piece | None:
    """A vector of numbers with parts s0, s1, …: the language's own in OpenCL C."""
    word, _, rest = name.partition("_")
    type_, _, width = rest.partition("_")
    if word != "vector" or type_ not in NAMED or not width.isdigit():
        return None
    if dialect.name == "opencl":
        return Piece(f"typedef {_element_word(type_)}{width} {name};\n")
    size = NAMED[type_].itemsize * int(width)
    parts = ", ".join(f"s{lane}" for lane in range(int(width)))
    return Piece(f"struct __align__({size}) {name} {{ {type_} {parts}; }};\n")


def _element_word(type_: str) -> str:
    if type_[0] == "f":
        return "float" if type_ == "f32" else "double"
    word = {8: "char", 16: "short", 32: "int", 64: "long"}[int(type_[1:])]
    return f"u{word}" if type_[0] == "u" else word
