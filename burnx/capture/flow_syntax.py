"""What the statements of a function read, assign and jump to: what a rewrite of its control flow has to know."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
CHANGES = frozenset(
    ["append", "extend", "insert", "pop", "remove", "clear", "update", "add", "setdefault", "sort"]
)
Nodes = ast.AST | Sequence[ast.AST]
Made = TypeVar("Made", bound=ast.AST)


def placed(where: ast.AST, made: Made) -> Made:
    """A node that is new, at the place where another one begins: Python says of a call the line where it ends."""
    ast.copy_location(made, where)
    made.end_lineno, made.end_col_offset = made.lineno, made.col_offset  # type: ignore[attr-defined]
    return ast.fix_missing_locations(made)


def _children(nodes: Nodes) -> Iterator[ast.AST]:
    if isinstance(nodes, ast.AST):
        yield from ast.iter_child_nodes(nodes)
    else:
        yield from nodes


def inside(nodes: Nodes, *, loops: bool = True) -> Iterator[ast.AST]:
    """Every node of the same function; ``loops=False`` leaves out what is in an inner loop."""
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        yield node
        if isinstance(node, SCOPES) or (isinstance(node, LOOPS) and not loops):
            continue
        yield from inside(list(ast.iter_child_nodes(node)), loops=loops)


def has(nodes: Nodes, *kinds: type[ast.AST]) -> bool:
    """Whether a node of these kinds is in the same function and, for ``break`` and ``continue``, the same loop."""
    is_jump = set(kinds) <= {ast.Break, ast.Continue}
    listed = [nodes] if isinstance(nodes, ast.AST) else nodes
    return any(isinstance(each, kinds) for each in inside(listed, loops=not is_jump))


# ------------------------------------------------------------------------------- names
def stores(nodes: Nodes) -> set[str]:
    """The variables of the function itself that the nodes assign."""
    found: set[str] = set()
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, _COMPREHENSIONS):
            walrus = (each for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
            found |= {each.target.id for each in walrus}
        elif not isinstance(node, ast.Lambda):
            found |= _stored_here(node) | stores(list(ast.iter_child_nodes(node)))
    return found


def _stored_here(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(name, ast.Store() | ast.Del()):
            return {name}
        case ast.ExceptHandler(_, str(name)) | ast.MatchAs(_, str(name)) | ast.MatchStar(str(name)):
            return {name}
        case ast.alias(name, label):
            return {label or name.partition(".")[0]}
    return set()


def reads(nodes: Nodes) -> set[str]:
    """The variables that the nodes read, in functions inside of them too."""
    found: set[str] = set()
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Name):
            found |= {node.id} if isinstance(node.ctx, ast.Load) else set()
        elif isinstance(node, _FUNCTIONS):
            found |= reads(children) - _own(node)
        elif isinstance(node, _COMPREHENSIONS):
            found |= reads(children) - stores([each.target for each in node.generators])
        else:
            found |= reads(children)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The variables of a function: its parameters and what it assigns."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    outer = (each for each in inside(body) if isinstance(each, (ast.Nonlocal, ast.Global)))
    return parameters(function.args) | stores(body) - {
        name for each in outer for name in each.names
    }


def parameters(given: ast.arguments) -> set[str]:
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in every if each is not None}


def held(body: Sequence[ast.AST]) -> Counter[str]:
    """What functions inside of a function read, which may happen at any later time, and how many of them do."""
    scopes = (node for node in inside(body) if isinstance(node, SCOPES))
    return Counter(name for node in scopes for name in reads(node))


# ------------------------------------------------------------------------------- liveness
@dataclass(frozen=True, slots=True)
class Targets:
    """What is live where ``break`` and ``continue`` go."""

    after: frozenset[str] = frozenset()
    head: frozenset[str] = frozenset()


def live_after_each(
    body: Sequence[ast.stmt], after: frozenset[str], targets: Targets
) -> list[frozenset[str]]:
    """For each statement the variables whose values are still read behind it."""
    found = []
    for stmt in reversed(body):
        found.append(after)
        after = live_before(stmt, after, targets)
    return found[::-1]


def live_at_start(
    body: Sequence[ast.stmt], after: frozenset[str], targets: Targets
) -> frozenset[str]:
    for stmt in reversed(body):
        after = live_before(stmt, after, targets)
    return after


def live_before(stmt: ast.stmt, after: frozenset[str], targets: Targets) -> frozenset[str]:
    """The variables whose values are read from a statement on."""
    match stmt:
        case ast.If(test, body, orelse):
            sides = (live_at_start(each, after, targets) for each in (body, orelse))
            return frozenset().union(reads(test), *sides)
        case ast.While() | ast.For() | ast.AsyncFor():
            head = live_at_head(stmt, after, targets)
            return head if isinstance(stmt, ast.While) else head | reads(stmt.iter)
        case ast.With(items, body):
            taken = stores([each.optional_vars for each in items if each.optional_vars])
            return (live_at_start(body, after, targets) - taken) | reads(items)
        case ast.Return() | ast.Raise():
            return frozenset(reads(stmt))
        case ast.Break():
            return targets.after
        case ast.Continue():
            return targets.head
        case ast.Try() | ast.TryStar() | ast.Match() | ast.AsyncWith():
            return after | targets.after | targets.head | reads(stmt)
    return (after - stores(stmt)) | reads(stmt)


def live_at_head(
    stmt: ast.For | ast.AsyncFor | ast.While, after: frozenset[str], targets: Targets
) -> frozenset[str]:
    """What is live where a loop decides on another turn."""
    head = after | live_at_start(stmt.orelse, after, targets)
    if isinstance(stmt, ast.While):
        head |= reads(stmt.test)
    taken = set() if isinstance(stmt, ast.While) else stores(stmt.target)
    while True:
        wider = head | (live_at_start(stmt.body, head, Targets(after, head)) - taken)
        if wider == head:
            return head
        head = wider


# ------------------------------------------------------------------------------- changes in place
def grown(body: Sequence[ast.stmt]) -> list[str]:
    """The lists of the function around a loop to which its body appends."""
    own = stores(body)
    found = (_changed_name(each) for each in inside(body))
    names = dict.fromkeys(name for name, how in found if how == "append")
    return [name for name in names if name not in own]


def changes(body: Sequence[ast.stmt], allowed: Sequence[str] = ()) -> str:
    """What the statements change in place that is not made in them; "" if nothing."""
    own = stores(body)
    for node in inside(body):
        name, how = _changed_name(node)
        if name and name not in own and not (how == "append" and name in allowed):
            return f"line {getattr(node, 'lineno', 0)} changes {name!r} in place"
    return ""


def _changed_name(node: ast.AST) -> tuple[str, str]:
    """The variable whose value a node changes in place, and how."""
    match node:
        # a call for what it does; ``ops.add(x, y)`` in an expression is none
        case ast.Expr(ast.Call(ast.Attribute(target, how))) if how in CHANGES:
            return _root(target), how if isinstance(target, ast.Name) else f"its {how}"
        case ast.Call(ast.Attribute(ast.Name(name), "pop" | "setdefault" as how)):
            return name, how
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            return _root(node), "store"
    return "", ""


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
