"""``script``: a function whose own ``if``, ``while`` and ``for`` are captured where they decide on tensors."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, TypeVar

from burnx.capture import turns
from burnx.capture.flow_conditions import RUNTIME
from burnx.capture.flow_rewrite import Function, Rewriter
from burnx.errors import CallError
from burnx.tensor import SCRIPTED

Called = TypeVar("Called", bound=Callable[..., Any])
_FUTURES = 0x1FF0000  # the flags of a code object that ``from __future__ import`` sets
_FACTORY = "_factory"


def script(function: Called) -> Called:
    """Let a function's ``if``, ``while``, ``for``, ``and``, ``or`` and ``not`` decide on tensors too.

    What they do with anything else is Python's as ever; on tensors they are captured as If, Loop and Scan.

    Raises: CallError if the function's source is not there to be read.
    """
    if not isinstance(function, FunctionType):
        raise CallError(
            f"@burnx.script takes a function written with def, not {type(function).__name__}; "
            "put it below other decorators"
        )
    tree = _syntax(function)
    Rewriter(Path(function.__code__.co_filename).name).function(tree)
    made = _with_cells(function, _compiled(function, tree))
    made.__kwdefaults__ = function.__kwdefaults__
    update_wrapper(made, function)
    return made  # type: ignore[return-value]


def _syntax(function: FunctionType) -> Function:
    """The definition of a function, its lines and columns those of its file."""
    code = function.__code__
    place = f"{code.co_filename}:{code.co_firstlineno}"
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 :]
    if not lines:
        raise CallError(
            f"@burnx.script reads a function's source, and {place} is not there; "
            "define it in a file, or use burnx.cond, burnx.loop and burnx.scan"
        )
    # a block around it keeps the columns of what is indented
    text = "if True:\n" + "".join(inspect.getblock(lines))
    is_indented = lines[0][:1].isspace()
    try:
        tree = ast.parse(text if is_indented else text.partition("\n")[2])
    except SyntaxError as error:
        raise CallError(f"@burnx.script reads a function's source: {error}, {place}") from error
    ast.increment_lineno(tree, code.co_firstlineno - 1 - is_indented)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            return node
    raise CallError(f"@burnx.script takes a function written with def; {place} has none")


def _compiled(function: FunctionType, tree: Function) -> CodeType:
    """The code of a rewritten function."""
    code = function.__code__
    tree.returns = None  # decorators stay, unused: they say where the code begins
    for given in ast.walk(tree.args):
        if isinstance(given, ast.arg):
            given.annotation = None
    _spell_out(tree, function)
    # in a function that was rewritten as well the runtime is one of the variables around
    names = [ast.arg(name) for name in dict.fromkeys((*code.co_freevars, RUNTIME))]
    factory = ast.FunctionDef(
        _FACTORY, ast.arguments([], names, None, [], [], None, []), [tree], []
    )
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(factory, tree)], []))
    flags = code.co_flags & _FUTURES
    whole = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    found = _marked(_code_named(_code_named(whole, _FACTORY), code.co_name))
    return found.replace(co_qualname=code.co_qualname)


def _code_named(code: CodeType, name: str) -> CodeType:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return next(each for each in inner if each.co_name == name)


def _marked(code: CodeType) -> CodeType:
    """The code with a name that says it was rewritten, and so has what it makes functions of."""
    parts = tuple(_marked(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=parts, co_names=(*code.co_names, SCRIPTED))


def _spell_out(tree: Function, function: FunctionType) -> None:
    """What Python reads off the class around a method: private names, and what ``super()`` is of."""
    parts = function.__qualname__.split(".")
    owner = parts[-2].lstrip("_") if len(parts) > 1 and parts[-2] != "<locals>" else ""
    first = next(iter([*tree.args.posonlyargs, *tree.args.args]), None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and owner and _is_private(node.attr):
            node.attr = f"_{owner}{node.attr}"
        is_super = isinstance(node, ast.Call) and ast.unparse(node) == "super()"
        if is_super and first is not None:
            names = (ast.Name(name, ast.Load()) for name in ("__class__", first.arg))
            node.args = [ast.copy_location(each, node) for each in names]  # type: ignore[attr-defined]


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _with_cells(function: FunctionType, code: CodeType) -> FunctionType:
    """The function that sees the variables of the code around the original, and the runtime."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(turns)
    closure = tuple(cells[name] for name in code.co_freevars)
    given = (function.__globals__, function.__name__, function.__defaults__)
    return FunctionType(code, *given, closure)
