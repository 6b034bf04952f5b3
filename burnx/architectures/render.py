"""A family's template as the text of a module."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from burnx.architectures.config import ACTIVATIONS
from burnx.architectures.family import Family, family_text
from burnx.architectures.shapes import functions
from burnx.codegen.expressions import text as expression_text
from burnx.codegen.layout import docstring, formatted, with_notes
from burnx.codegen.literal import constant

if TYPE_CHECKING:
    from jinja2 import Environment

IMPORTED: Final = frozenset({"BurnxError", "Input", "Output", "Tensor", "nn", "ops", "scan"})
# Modules that are made with a dtype.
_WITH_DTYPE: Final = frozenset(
    {"BatchNorm", "Conv1d", "Conv2d", "Embedding", "GroupNorm", "LayerNorm", "Linear", "Parameter"}
    | {"RMSNorm"}
)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: family_text(name)[1]),
        undefined=StrictUndefined,
        extensions=["jinja2.ext.do"],
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["act"] = lambda argument, name: ACTIVATIONS[name].format(argument)
    environment.filters["literal"] = lambda value: expression_text(constant(value))
    return environment


def render(
    family: Family,
    settings: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    dtype: str,
) -> str:
    """The classes of a model as its family's template writes them, not laid out yet.

    Raises: UnsupportedError where the template has no words for it.
    """
    names = {**functions(shapes), **settings, "tables": family.tables, "title": family.title}
    code = _environment().get_template(family.template).render(names, dtype=dtype)
    return code if dtype == "float32" else _with_dtype(code)


def _with_dtype(code: str) -> str:
    """The same code, in which every layer is made with ``dtype=DTYPE``."""
    lines = code.split("\n")
    calls: list[Any] = [node for node in ast.walk(ast.parse(code)) if _takes_dtype(node)]
    ends = sorted(((node.end_lineno, node.end_col_offset) for node in calls), reverse=True)
    for line, column in ends:
        before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        comma = "" if before.endswith("(") else ", "
        lines[line - 1] = f"{before}{comma}dtype=DTYPE{after}"
    return "\n".join(lines)


def _takes_dtype(node: Any) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "nn"
        and node.func.attr in _WITH_DTYPE
    )


def module_text(words: str, code: str, constants: Sequence[tuple[str, Any]]) -> str:
    """A whole module: docstring, imports, constants and classes, laid out."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    imports = f"from burnx import {', '.join(sorted(used & IMPORTED))}\n\n"
    heads = "".join(f"{name} = {expression_text(constant(value))}\n" for name, value in constants)
    return formatted(docstring(words) + imports + heads + "\n\n" + with_notes(code))
