"""The form "tiles": a product of which each group of threads takes a tile, its operands in local memory.

``tile`` holds the numbers of a ``tiles_form.Tile``; ``matrices`` says on which units: "" for none, the operands' dtype, or
"float32x3" for float32 in three products of tfloat32; with "wgmma_" in front on those of warpgroups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from burnx.dtype import float32, is_integer
from burnx.gpu import tiles_matrix, tiles_plain, tiles_wgmma, tiles_wgmma_single
from burnx.gpu.code import Code, Form, Limits
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import Unsupported, type_name, unsigned_name
from burnx.gpu.frame import close_kernel, open_kernel, uses_worker
from burnx.gpu.tiles_choice import ranked
from burnx.gpu.tiles_form import is_wgmma, tile_of
from burnx.gpu.tiles_frame import STATIC_BYTES, Frame, grid
from burnx.gpu.tiles_product import Product, product_of
from burnx.gpu.tiles_units import UNITS
from burnx.gpu.writer import Writer
from burnx.kernels.ir import Kernel

MOST = 6  # forms that are worth a try


def fit_tiles(kernel: Kernel, limits: Limits, sizes: Mapping[str, int]) -> list[Form]:
    """The forms of a product, the one that should be fastest first; none where tiles would not help."""
    product = product_of(kernel)
    if product is None or uses_worker(kernel):
        return []
    forms = []
    for units, tile in ranked(product, limits, sizes):
        forms.append(Form("tiles", tile.threads(units), tile.numbers(), units))
    return forms[:MOST]


def write_tiles(kernel: Kernel, dialect: Dialect, form: Form) -> Code:
    """The kernel as a function whose groups each take a tile."""
    product = product_of(kernel)
    if product is None:
        raise Unsupported(
            "tiles are of products alone in their loops: this kernel is something else"
        )
    writer = open_kernel(kernel, dialect, form, tile_of(form.tile).spread)
    frame = frame_of(writer, product, form)
    if is_wgmma(form.matrices) and product.left.buffer.dtype == float32:
        tiles_wgmma_single.write_single(frame)
        size = tiles_wgmma_single.local_bytes(frame)
    elif is_wgmma(form.matrices):
        tiles_wgmma.write_wgmma(frame)
        size = tiles_wgmma.local_bytes(frame)
    elif form.matrices:
        writer.needs.add(UNITS)
        tiles_matrix.write_matrix(frame)
        size = tiles_matrix.local_bytes(frame)
    else:
        tiles_plain.write_plain(frame)
        size = tiles_plain.local_bytes(frame)
    code = close_kernel(writer, grid(product, frame.tile))
    asked = is_wgmma(form.matrices) or (dialect.name == "cuda" and size > STATIC_BYTES)
    return replace(code, local_bytes=size) if asked else code


def frame_of(writer: Writer, product: Product, form: Form) -> Frame:
    sums = product.contract.dtype
    type_ = unsigned_name(sums) if is_integer(sums) else type_name(sums)
    return Frame(writer, product, tile_of(form.tile), form.group, type_, form.matrices)
