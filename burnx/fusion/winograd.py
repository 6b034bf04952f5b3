"""Convolutions with 3 × 3 kernels as many small products: see ``burnx.kernels.winograd``.

Three kernels: transform tiles of the data, multiply, transform the sums back with what follows the convolution.
The last tile of a row or column that does not divide evenly begins earlier, and keeps only the results still missing.
Sizes may be open.  An image with fewer results than a tile is one tile, that reads the last row or column again where
there are no more; what comes of those is not kept.

An Inf or NaN of the data spreads over the results of all tiles that read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burnx.dtype import DType, float32
from burnx.fusion.behind import write_behind
from burnx.fusion.clusters import Cluster
from burnx.fusion.expressions import Expressions
from burnx.fusion.orders import channels_last
from burnx.fusion.scheduler import Scheduler
from burnx.fusion.storage import Storage
from burnx.fusion.weights import lay_out_tiles
from burnx.kernels.ir import Contract, Load, Local, Loop, Statement, Store, in_loops
from burnx.kernels.winograd import Scheme, choose_scheme
from burnx.shape import Dim, bounds, floordiv, maximum, minimum, product

if TYPE_CHECKING:
    from burnx.fusion.geometry import Geometry

APART = 16  # elements
LIKELY = 28  # what an open height or width is taken for where a scheme is chosen


@dataclass(frozen=True, slots=True)
class Tiles:
    """How results are cut: ``counts`` tiles along height and width, of images of ``sizes``."""

    scheme: Scheme
    batch: Dim
    sizes: tuple[Dim, ...]

    @property
    def counts(self) -> tuple[Dim, ...]:
        step = self.scheme.step
        return tuple(floordiv(size + (step - 1), step) for size in self.sizes)

    def shape(self, channels: Dim) -> tuple[Dim, ...]:
        """The transformed tiles: number in a tile, image, row and column of tiles, channel."""
        return (self.scheme.tile**2, self.batch, *self.counts, channels)


def write_winograd(
    scheduler: Scheduler, cluster: Cluster, made: Geometry, source: Storage, sums: DType
) -> bool:
    """The steps of a convolution that is worth it; False, and nothing written, for others."""
    scheme = None
    if scheduler.traits.winograd:
        scheme = _find_scheme(scheduler, cluster, made, sums)
    if scheme is None:
        return False
    tiles = Tiles(scheme, made.result[0], made.result[2:])
    data = _write_forward(scheduler, made, source, tiles)
    products = _write_products(scheduler, cluster, data, tiles)
    _write_backward(scheduler, cluster, made, products, tiles)
    return True


def _find_scheme(
    scheduler: Scheduler, cluster: Cluster, made: Geometry, sums: DType
) -> Scheme | None:
    weight = cluster.seed.inputs[1]
    plain = (made.strides, made.dilations, made.spread, made.groups) == ((1, 1), (1, 1), (1, 1), 1)
    if weight is None or weight.array is None or not plain or made.kernel != (3, 3):
        return None
    if sums != float32 or any(low < 0 for low, _ in made.pads):
        return None
    outputs, channels = weight.array.shape[:2]
    height, width = (_likely(size) for size in made.result[2:])
    choose = scheduler.traits.scheme or choose_scheme
    return choose(height, width, channels, outputs)


def _likely(size: Dim) -> int:
    """A size, or what an open one is taken for."""
    return size if isinstance(size, int) else max(LIKELY, int(bounds(size)[0]))


def _starts(tiles: Tiles, rows: Sequence[Dim]) -> list[Dim]:
    """The first result of a tile along each axis."""
    step = tiles.scheme.step
    return [
        each * step if size % step == 0 else maximum(minimum(each * step, size - step), 0)
        for each, size in zip(rows, tiles.sizes, strict=True)
    ]


def _fills_a_tile(size: Dim, tile: int) -> bool:
    """Whether so many results are surely read from at least a tile of elements."""
    return bool(bounds(size)[0] + 2 >= tile)


def _variables(at: Expressions, tiles: Tiles) -> list[Dim]:
    return [at.variable(tiles.batch), *(at.variable(count) for count in tiles.counts)]


def _around(at: Expressions, rows: Sequence[Dim], body: Sequence[Statement]) -> list[Statement]:
    """Loops over tiles."""
    return in_loops([(str(each), at.ranges[str(each)]) for each in rows], body, parallel=True)


def _lanes(at: Expressions, channel: Dim, *body: Statement) -> Loop:
    return Loop(str(channel), at.ranges[str(channel)], body, lanes=True)


def _scratch(scheduler: Scheduler, dtype: DType, sizes: tuple[int, int], channels: int) -> Storage:
    """A worker's memory for a tile; lines are apart by no power of two, which would meet in few places of a cache."""
    return scheduler.scratch(dtype, (*sizes, channels + APART))


def _write_forward(scheduler: Scheduler, made: Geometry, source: Storage, tiles: Tiles) -> Storage:
    at, size = scheduler.expressions(), range(tiles.scheme.tile)
    channels = made.weight[1]
    assert isinstance(channels, int)
    target = Storage(source.dtype, tiles.shape(channels))
    between = _scratch(scheduler, source.dtype, (len(size), len(size)), channels)
    rows, channel = _variables(at, tiles), at.variable(channels)
    line, column = at.variable(len(size)), at.variable(len(size))
    lines = _read(at, made, source, tiles, (rows, channel, line))
    across = [
        Store(at.buffer(between), at.place(between, (line, j, channel)), value)
        for j, value in enumerate(tiles.scheme.forward(lines))
    ]
    columns = [at.load(between, (i, column, channel)) for i in size]
    along = [
        Store(at.buffer(target), at.place(target, (i * len(size) + column, *rows, channel)), value)
        for i, value in enumerate(tiles.scheme.forward(columns))
    ]
    body = _lanes(
        at,
        channel,
        Loop(str(line), len(size), tuple(across)),
        Loop(str(column), len(size), tuple(along)),
    )
    work = product(target.shape) * 5
    scheduler.step(at, _around(at, rows, [body]), [target], work)
    return target


def _read(
    at: Expressions,
    made: Geometry,
    source: Storage,
    tiles: Tiles,
    index: tuple[Sequence[Dim], Dim, Dim],  # image and tile, channel, line
) -> list[Load]:
    """A line of a tile of the data; its last element again where the image has no more."""
    rows, channel, line = index
    strides, (height, width) = source.strides(), tiles.sizes
    base = source.offset() + rows[0] * strides[0] + channel * strides[1]
    for start, (low, _), step in zip(_starts(tiles, rows[1:]), made.pads, strides[2:], strict=True):
        base = base + (start - low) * step
    buffer, tile = at.buffer(source), tiles.scheme.tile
    base = base + (line if _fills_a_tile(height, tile) else minimum(line, height + 1)) * strides[2]
    return [Load(buffer, base + minimum(j, width + 1) * strides[3]) for j in range(tile)]


def _write_products(scheduler: Scheduler, cluster: Cluster, data: Storage, tiles: Tiles) -> Storage:
    """For each number of a tile: all tiles times its weights."""
    weight = cluster.seed.inputs[1]
    assert weight is not None and weight.array is not None
    outputs, channels = weight.array.shape[:2]
    packing = scheduler.traits.packing(*(data.dtype,) * 3, outputs)
    packed, size = lay_out_tiles(
        tiles.scheme, weight.array, packing, data.dtype, scheduler.traits.derive
    )
    target = Storage(data.dtype, tiles.shape(outputs))
    at, count = scheduler.expressions(), product(tiles.shape(1)[1:])
    number, row = at.variable(tiles.scheme.tile**2), at.variable(count)
    column, inner = at.variable(outputs), at.variable(channels)
    right = number * size
    if not packing:
        right = right + inner * outputs + column
    total = Local(at.name("p"), data.dtype)
    statement = Contract(
        total.name,
        ((str(row), count),),
        (str(column), outputs),
        ((str(inner), channels),),
        Load(at.buffer(data), (number * count + row) * channels + inner),
        Load(at.buffer(packed), right),
        data.dtype,
        (Store(at.buffer(target), (number * count + row) * outputs + column, total),),
        packing,
    )
    body = [Loop(str(number), tiles.scheme.tile**2, (statement,), parallel=True)]
    work = product((*tiles.shape(channels), outputs))
    scheduler.step(at, body, [target], work)
    return target


def _write_backward(
    scheduler: Scheduler, cluster: Cluster, made: Geometry, products: Storage, tiles: Tiles
) -> None:
    """Results of a tile by a worker in its own memory, then, one by one, what follows."""
    at, outputs = scheduler.expressions(cluster.members), made.weight[0]
    assert isinstance(outputs, int)
    rows, step = _variables(at, tiles), tiles.scheme.step
    found = _scratch(scheduler, products.dtype, (step, step), outputs)
    transform = _results(scheduler, at, tiles, rows, (products, found))
    starts, channel = _starts(tiles, rows[1:]), at.variable(outputs)
    loops, inside, spot = [], [], []
    for row, start, size in zip(rows[1:], starts, tiles.sizes, strict=True):
        missing = minimum(size - row * step, step) if size % step else step
        place = at.variable(step)
        loops.append((str(place), missing))
        inside.append(place + (row * step - start))
        spot.append(place + row * step)
    value = at.load(found, (*inside, channel))
    index = (rows[0], channel, *spot)
    behind = write_behind(scheduler, at, cluster, value, index, channels_last(len(made.result)))
    body = in_loops(loops, [_lanes(at, channel, *behind.body)])
    around = _around(at, rows, [transform, *body])
    scheduler.step(at, around, behind.writes, product((*made.result, 12)))


def _results(
    scheduler: Scheduler,
    at: Expressions,
    tiles: Tiles,
    rows: Sequence[Dim],
    storages: tuple[Storage, Storage],
) -> Loop:
    """The sums of a tile, transformed back."""
    (products, found), scheme = storages, tiles.scheme
    outputs = products.shape[-1]
    assert isinstance(outputs, int)
    between = _scratch(scheduler, products.dtype, (scheme.tile, scheme.step), outputs)
    channel, line = at.variable(outputs), at.variable(scheme.tile)
    column = at.variable(scheme.step)
    sums = [at.load(products, (line * scheme.tile + j, *rows, channel)) for j in range(scheme.tile)]
    across = [
        Store(at.buffer(between), at.place(between, (line, j, channel)), value)
        for j, value in enumerate(scheme.backward(sums))
    ]
    columns = [at.load(between, (i, column, channel)) for i in range(scheme.tile)]
    along = [
        Store(at.buffer(found), at.place(found, (i, column, channel)), value)
        for i, value in enumerate(scheme.backward(columns))
    ]
    return _lanes(
        at,
        channel,
        Loop(str(line), scheme.tile, tuple(across)),
        Loop(str(column), scheme.step, tuple(along)),
    )
