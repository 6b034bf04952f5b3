"""Shapes and symbolic dimensions.

Enters: integers and names.  Leaves: dimensions, and answers about them that hold for all sizes.
May import: errors.  Start reading at ``expr.py``.
"""

from burnx.shape.broadcasting import (
    broadcast_dim,
    broadcast_shapes,
    has_symbols,
    product,
    settled,
    shape_text,
    substitute,
)
from burnx.shape.expr import (
    Atom,
    Call,
    Dim,
    Expr,
    Shape,
    Symbol,
    Undecided,
    evaluate,
    floordiv,
    mod,
    symbol,
    symbol_name,
    symbols,
)
from burnx.shape.order import at_least, bounds, maximum, may_equal, minimum, same

__all__ = [
    "Atom",
    "Call",
    "Dim",
    "Expr",
    "Shape",
    "Symbol",
    "Undecided",
    "at_least",
    "bounds",
    "broadcast_dim",
    "broadcast_shapes",
    "evaluate",
    "floordiv",
    "has_symbols",
    "maximum",
    "may_equal",
    "minimum",
    "mod",
    "product",
    "same",
    "settled",
    "shape_text",
    "substitute",
    "symbol",
    "symbol_name",
    "symbols",
]
