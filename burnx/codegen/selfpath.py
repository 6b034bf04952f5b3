"""``self.encoder.layer[0].query``: an attribute path as a class sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnx.codegen.nodes import Attr, Expr, Index, Text, constant
from burnx.codegen.scopes import Path

if TYPE_CHECKING:
    from burnx.codegen.block import Context


def self_path(context: Context, path: Path) -> Expr:
    """The attribute at ``path``, from the ``self`` of the class at ``context.owner``."""
    expr: Expr = Text("self")
    legal = context.places.legal(path)
    for length in range(len(context.owner), len(path)):
        if path[:length] in context.places.lists:
            expr = Index(expr, (constant(int(legal[length])),))
        else:
            expr = Attr(expr, legal[length])
    return expr
