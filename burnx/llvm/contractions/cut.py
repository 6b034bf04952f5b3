"""float32 numbers cut into three of bfloat16, which processors with a matrix unit multiply many at a time.

Three times 8 bits hold the 24 of a float32.  Of the nine products of two numbers' parts six are taken; what is left out
is less than what float32 loses when it rounds a product once.  The highest part is cut off, so that nothing overflows,
the others are rounded, so that what is left out is of either sign.  NaN, infinity and very large numbers are wild:
whoever cuts notes the largest numbers that were met, and sums that wild ones are part of are worked out otherwise.  So
are rows and columns of nothing but tiny numbers; beside larger ones these lose what is below the least normal number,
which the matrix unit takes for 0, as are products and sums that small.

Source: Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burnx.kernels.packing import SQUARE_BYTES, SQUARE_ROWS
from burnx.llvm.contractions.rows import Run, count_loop
from burnx.llvm.writer import Ssa, Writer, integer

PARTS = 3  # that a number is cut into
Load = Callable[[Run, Ssa, Ssa], Ssa]
LANES = 16
FLOAT_BYTES, PART_BYTES = 4, 2
MOST_EXPONENT = 60  # products of parts of numbers below 2 to the power of this do not overflow
_WILD = (127 + MOST_EXPONENT) << 24  # the bits without the sign, which is shifted out
_TINY = (127 - 100) << 24  # parts of smaller numbers are below the least normal one
_VECTOR, _BITS = f"<{LANES} x float>", f"<{LANES} x i32>"
_HIGH = -0x10000  # the bits of a float32 that a bfloat16 has
_HALF = 0x8000  # of the last of them
NONE = Ssa("zeroinitializer", _BITS)


def cut_run(run: Run, source: Ssa, target: Ssa, part_bytes: Ssa, peak: Ssa) -> None:
    """Copy neighbouring k of a left row as parts, each ``part_bytes`` behind the one before."""
    writer, some = run.writer, integer(2 * LANES)
    start, largest = integer(0), [writer.load(_BITS, peak, SQUARE_BYTES)]
    whole = writer.binary("and", run.extent, integer(-2 * LANES))
    for stop, load in ((whole, _load), (run.extent, _load_rest)):

        def turn(place: Ssa, largest: list[Ssa], load: Load = load) -> list[Ssa]:
            following = writer.binary("add nsw", place, integer(LANES))
            numbers = [load(run, source, place), load(run, source, following)]
            here = writer.binary("mul nsw", place, integer(PART_BYTES))
            here = writer.pointer(target, here, "i8")
            parts = zip(*(_cut(writer, each) for each in numbers), strict=True)
            for part, halves in enumerate(parts):
                here = writer.pointer(here, part_bytes, "i8") if part else here
                writer.store(_side_by_side(writer, *halves), here, PART_BYTES)
            return [_larger(writer, largest[0], numbers)]

        largest = count_loop(writer, stop, turn, largest, (start, some))
        start = whole
    writer.store(largest[0], peak, SQUARE_BYTES)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A packed panel that is cut into squares, two rows at a time: for every 32 k part after part, two k of a column
    together.  Of a square's rows those behind the last of ``depth`` are like it: they meet zeros of the left side.

    ``peak`` is where the largest numbers of every column so far are, without sign.
    """

    writer: Writer
    vectors: int
    source: Ssa
    depth: Ssa
    target: Ssa
    peak: Ssa

    @property
    def count(self) -> Ssa:
        raised = self.writer.binary("add nsw", self.depth, integer(2 * SQUARE_ROWS - 1))
        steps = self.writer.binary("lshr", raised, integer(5))
        return self.writer.binary("shl", steps, integer(4))

    def reset(self) -> None:
        """Nothing was met so far."""
        for vector in range(self.vectors):
            place = self.writer.pointer(self.peak, integer(vector * SQUARE_BYTES), "i8")
            self.writer.store(NONE, place, SQUARE_BYTES)

    def cut(self, start: Ssa, stop: Ssa) -> None:
        """Cut some pairs, by a function: it is called at many places."""
        writer, name = self.writer, f"cut_pairs_{self.vectors}"
        given = (self.source, self.depth, self.target, self.peak, start, stop)
        if name not in writer.declarations:
            writer.declarations[name] = ""  # its place: before what it needs itself
            names = ("source", "depth", "target", "peak", "start", "stop")
            inside = [Ssa(f"%{n}", each.type) for n, each in zip(names, given, strict=True)]
            pairs = Pairs(Writer(declarations=writer.declarations), self.vectors, *inside[:4])
            pairs._emit_loop(*inside[4:])
            head = f"define internal void @{name}({', '.join(map(str, inside))})"
            lines = [f"{head} noinline nounwind {{", "entry:", *pairs.writer.lines]
            writer.declarations[name] = "\n".join([*lines, "  ret void", "}"])
        writer.line(f"call void @{name}({', '.join(map(str, given))})")

    def _emit_loop(self, start: Ssa, stop: Ssa) -> None:
        writer = self.writer
        last = writer.binary("sub nsw", self.depth, integer(1))

        def turn(pair: Ssa, largest: list[Ssa]) -> list[Ssa]:
            return self._cut_pair(pair, last, largest)

        places = [
            writer.pointer(self.peak, integer(vector * SQUARE_BYTES), "i8")
            for vector in range(self.vectors)
        ]
        before = [writer.load(_BITS, place, SQUARE_BYTES) for place in places]
        after = count_loop(writer, stop, turn, before, (start, integer(1)))
        for place, largest in zip(places, after, strict=True):
            writer.store(largest, place, SQUARE_BYTES)

    def _cut_pair(self, pair: Ssa, last: Ssa, before: list[Ssa]) -> list[Ssa]:
        """Two rows; the largest numbers so far."""
        writer, row_bytes = self.writer, self.vectors * SQUARE_BYTES
        rows = []
        for odd in range(2):
            row = writer.binary("add nsw", writer.binary("shl", pair, integer(1)), integer(odd))
            row = writer.call("i64", "llvm.smin.i64", row, last)
            offset = writer.binary("mul nsw", row, integer(row_bytes))
            rows.append(writer.pointer(self.source, offset, "i8"))
        there, after = self._place(pair), []
        for vector, largest in enumerate(before):
            offset = integer(vector * SQUARE_BYTES)
            numbers = [
                writer.load(_VECTOR, writer.pointer(row, offset, "i8"), FLOAT_BYTES) for row in rows
            ]
            after.append(_larger(writer, largest, numbers))
            sixteen = writer.splat(integer(16, "i32"), LANES)
            parts = zip(*(_cut(writer, each) for each in numbers), strict=True)
            for part, (low, high) in enumerate(parts):
                both = writer.binary("lshr", low, sixteen)
                both = writer.binary("or", both, _only_high(writer, high))
                offset = integer(part * SQUARE_ROWS * row_bytes + vector * SQUARE_BYTES)
                writer.store(both, writer.pointer(there, offset, "i8"), SQUARE_BYTES)
        return after

    def _place(self, pair: Ssa) -> Ssa:
        writer, row_bytes = self.writer, self.vectors * SQUARE_BYTES
        step = writer.binary("udiv", pair, integer(SQUARE_ROWS))
        inside = writer.binary("urem", pair, integer(SQUARE_ROWS))
        offset = writer.binary("mul nsw", step, integer(PARTS * SQUARE_ROWS * row_bytes))
        inside = writer.binary("mul nsw", inside, integer(row_bytes))
        return writer.pointer(self.target, writer.binary("add nsw", offset, inside), "i8")


def _load(run: Run, source: Ssa, place: Ssa) -> Ssa:
    """A vector from a place of a run on."""
    writer = run.writer
    if not run.is_dense:
        return _load_rest(run, source, place)
    return writer.load(_VECTOR, writer.pointer(source, place, "float"), FLOAT_BYTES)


def _load_rest(run: Run, source: Ssa, place: Ssa) -> Ssa:
    """A vector from a place of a run on, zeros past its last."""
    writer = run.writer
    rest = writer.splat(writer.binary("sub nsw", run.extent, place), LANES)
    counted = Ssa(f"<{', '.join(f'i64 {lane}' for lane in range(LANES))}>", rest.type)
    there = writer.compare("icmp slt", counted, rest)
    none, align = Ssa("zeroinitializer", _VECTOR), integer(FLOAT_BYTES, "i32")
    here = writer.pointer(source, writer.binary("mul nsw", place, run.step), "float")
    if run.is_dense:
        name = f"llvm.masked.load.v{LANES}f32.p0"
        return writer.call(_VECTOR, name, here, align, there, none)
    offsets = writer.binary("mul nsw", counted, writer.splat(run.step, LANES))
    spread = f"getelementptr float, ptr {here.name}, {offsets}"
    places = writer.value(f"<{LANES} x ptr>", spread)
    name = f"llvm.masked.gather.v{LANES}f32.v{LANES}p0"
    return writer.call(_VECTOR, name, places, align, there, none)


def _cut(writer: Writer, number: Ssa) -> list[Ssa]:
    """The bits of the parts of numbers, in the upper halves; what is in the lower ones does not count."""
    found = [writer.convert("bitcast", number, _BITS)]
    rest = number
    for part in range(1, PARTS):
        rest = writer.binary("fsub", rest, _as_floats(writer, _only_high(writer, found[-1])))
        bits = writer.convert("bitcast", rest, _BITS)
        if part < PARTS - 1:
            bits = writer.binary("add", bits, writer.splat(integer(_HALF, "i32"), LANES))
        found.append(bits)
    return found


def _only_high(writer: Writer, bits: Ssa) -> Ssa:
    return writer.binary("and", bits, writer.splat(integer(_HIGH, "i32"), LANES))


def _as_floats(writer: Writer, bits: Ssa) -> Ssa:
    return writer.convert("bitcast", bits, _VECTOR)


def _side_by_side(writer: Writer, one: Ssa, two: Ssa) -> Ssa:
    """The upper halves of two vectors, one behind the other."""
    halves = f"<{2 * LANES} x i16>"
    one, two = (writer.convert("bitcast", each, halves) for each in (one, two))
    odd = ", ".join(f"i32 {place}" for place in range(1, 4 * LANES, 2))
    return writer.value(halves, f"shufflevector {one}, {two}, <{2 * LANES} x i32> <{odd}>")


# --- wild numbers ---------------------------------------------------------------------------------------------------


def _larger(writer: Writer, largest: Ssa, numbers: list[Ssa]) -> Ssa:
    """The largest numbers so far, without their signs."""
    for number in numbers:
        bits = writer.convert("bitcast", number, _BITS)
        doubled = writer.binary("add", bits, bits)
        largest = writer.call(_BITS, f"llvm.umax.v{LANES}i32", largest, doubled)
    return largest


def larger_peak(writer: Writer, largest: Ssa, peak: Ssa) -> Ssa:
    """The larger of the largest numbers of two."""
    other = writer.load(_BITS, peak, SQUARE_BYTES)
    return writer.call(_BITS, f"llvm.umax.v{LANES}i32", largest, other)


def is_wild(writer: Writer, peak: Ssa) -> Ssa:
    """Whether there were numbers that parts do not stand for."""
    found = writer.load(_BITS, peak, SQUARE_BYTES)
    most = writer.call("i32", f"llvm.vector.reduce.umax.v{LANES}i32", found)
    return writer.compare("icmp uge", most, integer(_WILD, "i32"))


def note_tiny(writer: Writer, peak: Ssa) -> None:
    """Have what was met count as wild if all of it is so small that its parts are lost."""
    found = writer.load(_BITS, peak, SQUARE_BYTES)
    most = writer.call("i32", f"llvm.vector.reduce.umax.v{LANES}i32", found)
    with writer.when(_is_tiny(writer, most, 1)):
        writer.store(writer.splat(integer(_WILD, "i32"), LANES), peak, SQUARE_BYTES)


def is_panel_wild(writer: Writer, peak: Ssa, vectors: int) -> Ssa:
    """Whether a panel has wild numbers, or a column of which all are so small."""
    found = Ssa("false", "i1")
    for vector in range(vectors):
        place = writer.pointer(peak, integer(vector * SQUARE_BYTES), "i8")
        tiny = _is_tiny(writer, writer.load(_BITS, place, SQUARE_BYTES), LANES)
        tiny = writer.call("i1", f"llvm.vector.reduce.or.v{LANES}i1", tiny)
        found = writer.binary("or", found, writer.binary("or", tiny, is_wild(writer, place)))
    return found


def _is_tiny(writer: Writer, largest: Ssa, count: int) -> Ssa:
    """Whether the largest number, without its sign, is tiny but not 0."""
    one, most = integer(1, "i32"), integer(_TINY - 1, "i32")
    if count > 1:
        one, most = writer.splat(one, count), writer.splat(most, count)
    return writer.compare("icmp ult", writer.binary("sub", largest, one), most)
