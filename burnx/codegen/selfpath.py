"""``self.encoder.layer[0].query``: an attribute path as a class sees it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from burnx.codegen.expressions import attribute, index, name
from burnx.codegen.literal import constant
from burnx.structure.scopes import Path

if TYPE_CHECKING:
    from burnx.codegen.block import Context


def self_path(context: Context, path: Path) -> ast.expr:
    """The attribute at ``path``, from the ``self`` of the class at ``context.owner``."""
    expr = name("self")
    legal = context.places.legal(path)
    for length in range(len(context.owner), len(path)):
        if path[:length] in context.places.lists:
            expr = index(expr, constant(int(legal[length])))
        else:
            expr = attribute(expr, legal[length])
    return expr
