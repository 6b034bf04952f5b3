"""The source tree as text: what ``ruff format --line-length 100`` would make of it, at once.

``render(module)`` is the whole interface; the tree is in ``nodes.py``. A statement that fits prints
flat. A trailing comment follows two spaces, after the closing bracket where the statement takes
several lines, and is dropped where the line would grow past the width. Blank lines are the style's;
``Blank`` asks for one more between statements.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from textwrap import wrap
from typing import Any, Final

from burnx.codegen.breaking import (
    INSIDE,
    bare_tuple,
    broken,
    expr_doc,
    sequence,
    value_doc,
)
from burnx.codegen.doc import (
    LINE,
    SOFT,
    Doc,
    Group,
    Indent,
    Variants,
    print_doc,
    text_width,
)
from burnx.codegen.flat import bare, flat_text
from burnx.codegen.literal import comment as safe_comment
from burnx.codegen.literal import docstring_text
from burnx.codegen.nodes import (
    Assign,
    Attr,
    Blank,
    Call,
    ClassDef,
    Comment,
    Do,
    Docstring,
    Expr,
    For,
    FunctionDef,
    If,
    Import,
    Index,
    Module,
    Param,
    Return,
    Stmt,
    Text,
    Tuple,
    While,
)
from burnx.codegen.omission import Need, need_of

WIDTH: Final = 100
"""The longest line that is printed where there is a choice."""


def render(module: Module) -> str:
    """The text of ``module``, ending in a newline."""
    lines: list[str] = []
    _write_body(module.body, 0, lines)
    return "\n".join(lines) + "\n" if lines else ""


def _write_body(body: tuple[Stmt, ...], indent: int, lines: list[str]) -> None:
    previous: Stmt | None = None
    asked = False
    statements = [stmt for stmt in body if not isinstance(stmt, Docstring) or stmt.text.strip()]
    for position, stmt in enumerate(statements):
        if isinstance(stmt, Blank):
            asked = True
            continue
        if previous is not None:
            head = _head(statements, position)
            gap = max(_gap(previous, head, indent), 1 if asked else 0)
            lines.extend([""] * gap)
        _WRITERS[type(stmt)](stmt, indent, lines)
        previous, asked = stmt, False


def _head(statements: list[Stmt], position: int) -> Stmt:
    """The statement that a run of comments at ``position`` belongs to."""
    for stmt in statements[position:]:
        if not isinstance(stmt, Comment):
            return statements[position] if isinstance(stmt, Blank) else stmt
    return statements[position]


def _gap(previous: Stmt, stmt: Stmt, indent: int) -> int:
    """Blank lines that the style wants between two statements of one block."""
    if isinstance(previous, Comment):
        return 0
    definition = 1 if indent else 2
    if isinstance(stmt, FunctionDef | ClassDef) or isinstance(previous, FunctionDef | ClassDef):
        return definition
    if isinstance(previous, Docstring):
        return 0 if indent else 1
    return 1 if isinstance(previous, Import) and not isinstance(stmt, Import) else 0


def _write_lines(text: str, indent: int, lines: list[str]) -> None:
    first, *rest = text.split("\n")
    lines.append(" " * indent + first)
    lines.extend(rest)


def _place(one_line: str, doc: Callable[[str], Doc], indent: int, note: str) -> str:
    """One line where it fits, else the doc; the note where there is room for it."""
    room = WIDTH - indent
    width = text_width(one_line)
    words = safe_comment(note, WIDTH) if note else ""
    suffix = f"  # {words}" if words else ""
    if width <= room:
        return one_line + suffix if width + text_width(suffix) <= room else one_line
    if suffix:
        text = print_doc(doc(suffix), indent, WIDTH)
        last = text.rpartition("\n")[2]
        if text_width(last) <= WIDTH and "\n" in text:
            return text
    return print_doc(doc(""), indent, WIDTH)


def _write_assign(stmt: Assign, indent: int, lines: list[str]) -> None:
    pair = isinstance(stmt.target, Tuple)
    value = bare(stmt.value) if pair else flat_text(stmt.value)
    one_line = f"{bare(stmt.target)} = {value}"
    text = _place(one_line, lambda suffix: _assign_doc(stmt, suffix), indent, stmt.comment)
    _write_lines(text, indent, lines)


def _assign_doc(stmt: Assign, suffix: str) -> Doc:
    target, value = stmt.target, stmt.value
    if isinstance(value, Text):
        suffix = ""  # the formatter would move it inside the parentheses
    if not isinstance(target, Tuple | Index):
        return (expr_doc(target, None), " = ", value_doc(value), suffix)
    pair = isinstance(target, Tuple)
    left = bare_tuple(target) if isinstance(target, Tuple) else expr_doc(target, None)
    if pair and isinstance(value, Tuple):
        return (left, " = ", bare_tuple(value), suffix)
    if need_of(value) is Need.BEST_FIT and isinstance(value, Text | Attr | Call | Index):
        return (_split_value_first(left, value), suffix)
    return (left, " = ", value_doc(value), suffix)


def _split_value_first(left: Doc, value: Expr) -> Doc:
    """A target with brackets of its own: the value breaks before the target does."""
    right = expr_doc(value, None)
    wrapped: Doc = (left, " = (", Group((Indent((SOFT, right)), SOFT), expand=True), ")")
    choices: list[Doc] = [(left, " = ", right)]
    if not isinstance(value, Text):
        choices.append((left, " = ", Group(right, expand=True)))
    choices += [wrapped, (Group(left, expand=True), " = ", right)]
    return Variants(tuple(choices))


def _write_return(stmt: Return, indent: int, lines: list[str]) -> None:
    value = stmt.value
    if value is None:
        _write_lines(_place("return", lambda suffix: "return", indent, stmt.comment), indent, lines)
        return
    body = bare_tuple(value, pair_may_lean=True) if isinstance(value, Tuple) else value_doc(value)
    keeps = not isinstance(value, Text)
    text = _place(
        f"return {bare(value)}",
        lambda suffix: ("return ", body, suffix if keeps else ""),
        indent,
        stmt.comment,
    )
    _write_lines(text, indent, lines)


def _write_do(stmt: Do, indent: int, lines: list[str]) -> None:
    text = _place(
        flat_text(stmt.value), lambda suffix: (value_doc(stmt.value), suffix), indent, stmt.comment
    )
    _write_lines(text, indent, lines)


def _write_clause(word: str, value: Expr, note: str, indent: int, lines: list[str]) -> None:
    text = _place(
        f"{word} {flat_text(value)}:",
        lambda suffix: (f"{word} ", value_doc(value), f":{suffix}"),
        indent,
        note,
    )
    _write_lines(text, indent, lines)


def _write_block(body: tuple[Stmt, ...], indent: int, lines: list[str]) -> None:
    before = len(lines)
    _write_body(body, indent + 4, lines)
    code = [stmt for stmt in body if not isinstance(stmt, Comment | Blank)]
    if len(lines) == before or not code:
        lines.append(" " * (indent + 4) + "pass")


def _write_for(stmt: For, indent: int, lines: list[str]) -> None:
    _write_clause(f"for {bare(stmt.target)} in", stmt.iterable, stmt.comment, indent, lines)
    _write_block(stmt.body, indent, lines)


def _write_while(stmt: While, indent: int, lines: list[str]) -> None:
    _write_clause("while", stmt.test, stmt.comment, indent, lines)
    _write_block(stmt.body, indent, lines)


def _write_if(stmt: If, indent: int, lines: list[str]) -> None:
    word = "if"
    while True:
        _write_clause(word, stmt.test, stmt.comment, indent, lines)
        _write_block(stmt.body, indent, lines)
        only = stmt.orelse[0] if len(stmt.orelse) == 1 else None
        if not isinstance(only, If):
            break
        word, stmt = "elif", only
    if stmt.orelse:
        lines.append(" " * indent + "else:")
        _write_block(stmt.orelse, indent, lines)


def _write_function(stmt: FunctionDef, indent: int, lines: list[str]) -> None:
    lines.extend(f"{' ' * indent}@{flat_text(decorator)}" for decorator in stmt.decorators)
    returns = "" if stmt.returns is None else f" -> {flat_text(stmt.returns)}"
    params = ", ".join(map(_flat_param, stmt.params))
    text = _place(
        f"def {stmt.name}({params}){returns}:",
        lambda suffix: (_signature_doc(stmt), f":{suffix}"),
        indent,
        stmt.comment,
    )
    _write_lines(text, indent, lines)
    _write_block(stmt.body, indent, lines)


def _flat_param(param: Param) -> str:
    annotation = "" if param.annotation is None else f": {flat_text(param.annotation)}"
    if param.default is None:
        return param.name + annotation
    equals = " = " if annotation else "="
    return param.name + annotation + equals + flat_text(param.default)


def _param_doc(param: Param) -> Doc:
    annotation: Doc = "" if param.annotation is None else (": ", expr_doc(param.annotation, INSIDE))
    if param.default is None:
        return (param.name, annotation)
    equals = " = " if annotation else "="
    return (param.name, annotation, equals, expr_doc(param.default, INSIDE))


def _signature_doc(stmt: FunctionDef) -> Doc:
    head = f"def {stmt.name}("
    params = [_param_doc(param) for param in stmt.params]
    inner: Doc = Group(sequence(params)) if params else ""
    if len(params) == 1:
        inner = (params[0], broken(","))
    arguments: Doc = (Indent((SOFT, inner)), SOFT) if params else ""
    return Group((head, arguments, ")", _returns_doc(stmt)))


def _returns_doc(stmt: FunctionDef) -> Doc:
    returns = stmt.returns
    if returns is None:
        return ""
    if not stmt.params or not isinstance(returns, Index):
        return (" -> ", value_doc(returns))
    return (" -> ", expr_doc(returns, None))


def _write_class(stmt: ClassDef, indent: int, lines: list[str]) -> None:
    bases = f"({', '.join(map(flat_text, stmt.bases))})" if stmt.bases else ""
    text = _place(
        f"class {stmt.name}{bases}:",
        lambda suffix: ("class ", expr_doc(Call(Text(stmt.name), stmt.bases), None), ":"),
        indent,
        "",
    )
    _write_lines(text, indent, lines)
    _write_block(stmt.body, indent, lines)


def _write_docstring(stmt: Docstring, indent: int, lines: list[str]) -> None:
    prefix = " " * indent
    text = docstring_text(stmt.text)
    if "\n" in text or text_width(text) > WIDTH - indent - 6:
        text = "\n".join(map(_wrapped, text.split("\n"), repeat(WIDTH - indent - 3)))
    first, *rest = text.split("\n")
    if not rest:
        lines.append(f'{prefix}"""{first}"""')
        return
    lines.append(f'{prefix}"""{first}')
    lines.extend(prefix + line if line else "" for line in rest)
    lines.append(f'{prefix}"""')


def _wrapped(line: str, width: int) -> str:
    """A long line of a docstring over several, broken at spaces."""
    margin = line[: len(line) - len(line.lstrip())]
    parts = wrap(
        line,
        width,
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=margin,
    )
    return line if text_width(line) <= width else "\n".join(parts)


def _write_comment(stmt: Comment, indent: int, lines: list[str]) -> None:
    words = safe_comment(stmt.text, WIDTH - indent - 2)
    lines.append(f"{' ' * indent}# {words}".rstrip())


def _write_import(stmt: Import, indent: int, lines: list[str]) -> None:
    if not stmt.names:
        lines.append(f"{' ' * indent}import {stmt.module}")
        return
    head = f"from {stmt.module} import "
    names = ", ".join(stmt.names)
    text = _place(head + names, lambda suffix: (head, _import_doc(stmt.names)), indent, "")
    _write_lines(text, indent, lines)


def _import_doc(names: tuple[str, ...]) -> Doc:
    parts: list[Doc] = []
    for name in names:
        parts += [LINE if parts else SOFT, f"{name},"]
    return Group(("(", Indent(tuple(parts)), SOFT, ")"), expand=True)


_WRITERS: Final[dict[type, Callable[[Any, int, list[str]], None]]] = {
    Assign: _write_assign,
    Return: _write_return,
    Do: _write_do,
    For: _write_for,
    While: _write_while,
    If: _write_if,
    FunctionDef: _write_function,
    ClassDef: _write_class,
    Docstring: _write_docstring,
    Comment: _write_comment,
    Import: _write_import,
}
