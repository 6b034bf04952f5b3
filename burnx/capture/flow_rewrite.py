"""A function's ``if``, ``while`` and ``for`` as calls that decide while running whether they are Python's or the graph's.

    if c:                        def then(x):
        x = x + 1                    x = x + 1
    return x        becomes          return (x,)
                                 def otherwise(x):
                                     return (x,)
                                 (x,) = branch(Site(…), c, then, otherwise, (x,))
                                 return x

Every node keeps its line. What holds a jump, or else cannot be a function, stays as it is; its condition is guarded.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from burnx.capture.flow_conditions import Conditions, arguments, called, guarded
from burnx.capture.flow_jumps import moved_in, only_at_ends, without_jumps
from burnx.capture.flow_syntax import (
    Made,
    Targets,
    changes,
    grown,
    has,
    held,
    live_after_each,
    live_at_head,
    live_at_start,
    parameters,
    placed,
    reads,
    stores,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
_NO_FUNCTION = {ast.Yield: "yield", ast.YieldFrom: "yield", ast.Await: "await", ast.Delete: "del"}


@dataclass(slots=True)
class Rewriter:
    """Rewrites one function; ``file`` is what messages call its file, ``bound`` what surely has a value here,
    ``held`` what functions made so far may read at any time."""

    file: str
    held: Counter[str] = field(default_factory=Counter)
    outer: frozenset[str] = frozenset()
    bound: set[str] = field(default_factory=set)
    count: list[int] = field(default_factory=lambda: [0])
    tried: bool = False  # whether a handler around would take the errors of what is traced

    def function(self, node: Function) -> None:
        """Rewrite the body of a function in its place."""
        body = moved_in(node.body, ast.Return)
        declared = [each for each in ast.walk(node) if isinstance(each, (ast.Global, ast.Nonlocal))]
        outer = frozenset(name for each in declared for name in each.names)
        inner = Rewriter(self.file, Counter(), outer, parameters(node.args), self.count)
        node.body = inner.block(body, frozenset(), Targets(), is_end=True)

    def block(
        self, body: Sequence[ast.stmt], after: frozenset[str], targets: Targets, is_end: bool
    ) -> list[ast.stmt]:
        """The statements of a block; ``is_end`` where nothing of the function follows it."""
        lives = live_after_each(body, after, targets)
        inner_reads = [held([stmt]) for stmt in body]
        made: list[ast.stmt] = []
        for place, (stmt, live) in enumerate(zip(body, lives, strict=True)):
            last = is_end and place == len(body) - 1
            made += self.statement(stmt, live | self.held.keys(), targets, last)
            self.held += inner_reads[place]
        return made

    def statement(
        self, stmt: ast.stmt, after: frozenset[str], targets: Targets, is_end: bool
    ) -> list[ast.stmt]:
        match stmt:
            case ast.If():
                return self.branch(stmt, after, targets, is_end)
            case ast.While() | ast.For():
                return self.loop(stmt, after)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(stmt)
                self.bound.add(stmt.name)
                return [stmt]
            case ast.ClassDef():
                self.bound.add(stmt.name)
                return [stmt]
        self._expressions(stmt)
        if isinstance(stmt, ast.Assert):
            stmt.test = guarded(self.file, stmt, stmt.test, "assert", "a graph cannot fail")
        self._inner_blocks(stmt, after, targets)
        for handler in getattr(stmt, "handlers", ()):
            handler.body.insert(0, placed(handler, ast.Expr(called("unless_refused"))))
        if isinstance(stmt, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Import, ast.ImportFrom)):
            if not isinstance(stmt, ast.AnnAssign) or stmt.value is not None:
                self.bound |= stores(stmt)
        return [stmt]

    def _expressions(self, stmt: ast.stmt) -> None:
        """Rewrite the expressions of a statement, not those of statements inside of it."""
        for key, value in ast.iter_fields(stmt):
            if isinstance(value, (ast.expr, ast.withitem)):
                setattr(stmt, key, Conditions(self.file).visit(value))
            elif isinstance(value, list) and value and not isinstance(value[0], ast.stmt):
                visit = Conditions(self.file).visit
                same = (ast.ExceptHandler, ast.match_case, str)
                setattr(
                    stmt, key, [each if isinstance(each, same) else visit(each) for each in value]
                )

    def _inner_blocks(self, stmt: ast.stmt, after: frozenset[str], targets: Targets) -> None:
        """Rewrite blocks that stay blocks: of ``with``, ``try``, ``match``, and of what is guarded."""
        everything = after | reads(stmt) | targets.after | targets.head
        before, self.tried = self.tried, self.tried or bool(getattr(stmt, "handlers", ()))
        for part in (stmt, *getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
            if isinstance(part, ast.match_case) and part.guard is not None:
                visited: Any = Conditions(self.file).visit(part.guard)
                part.guard = guarded(self.file, visited, visited, "case", "match stays Python's")
            for key in ("body", "orelse", "finalbody"):
                body = getattr(part, key, None)
                if body and isinstance(body[0], ast.stmt):
                    setattr(part, key, self.inner().block(body, everything, targets, False))
        self.tried = before

    def inner(self, bound: Iterable[str] = (), unbound: Iterable[str] = ()) -> Rewriter:
        """A rewriter for statements that may not be reached, or for a function with variables ``unbound`` of its own."""
        known = (self.bound - set(unbound)) | set(bound)
        return Rewriter(self.file, self.held.copy(), self.outer, known, self.count, self.tried)

    # ---------------------------------------------------------------- if
    def branch(
        self, stmt: ast.If, after: frozenset[str], targets: Targets, is_end: bool
    ) -> list[ast.stmt]:
        test = Conditions(self.file).visit(stmt.test)
        kinds = (ast.Break, ast.Continue) if is_end else (ast.Break, ast.Continue, ast.Return)
        reason = self._reason(stmt, kinds)
        if reason:
            stmt.test = guarded(self.file, stmt, test, "if", reason)
            self._inner_blocks(stmt, after, targets)
            return [stmt]
        returns = is_end and has(stmt, ast.Return)
        names = sorted(stores([*stmt.body, *stmt.orelse]) & self._needed(stmt, after, targets))
        given = [] if returns else [name for name in names if name in after]
        sides, functions = [], []
        for label, body in (("then", stmt.body), ("otherwise", stmt.orelse)):
            side = self.inner(unbound=stores(body) - set(names))
            inner = side.block(body, after, targets, returns)
            ending = [] if returns else [ast.Return(side.values(given))]
            functions.append(self._made_function(stmt, label, names, [*inner, *ending]))
            sides.append(side.bound)
        site = _site(self.file, stmt, given, changes([*stmt.body, *stmt.orelse]))
        labels = [ast.Name(each.name, ast.Load()) for each in functions]
        call = called("branch", site, test, *labels, self.values(names))
        found = ast.Return(call) if returns else _taken(call, given)
        certain = sides[0] & sides[1]
        unsure = [] if returns else [name for name in given if name not in certain]
        self.bound |= certain
        return [*functions, *_placed(stmt, found, *map(_dropped, unsure))]

    def _needed(self, stmt: ast.If, after: frozenset[str], targets: Targets) -> frozenset[str]:
        sides = (live_at_start(each, after, targets) for each in (stmt.body, stmt.orelse))
        return after.union(*sides) | self.held.keys()

    def _reason(self, stmt: ast.If | ast.For | ast.While, kinds: tuple[Any, ...]) -> str:
        """Why a statement has to stay Python's; "" if it may become a call."""
        for kind in kinds:
            if has([*stmt.body, *stmt.orelse], kind):
                return f"it holds a {kind.__name__.lower()} that is not at the end of a branch"
        for kind, word in _NO_FUNCTION.items():
            if has(stmt, kind):
                return f"it holds a {word}"
        if has([*stmt.body, *stmt.orelse], ast.Raise):
            return "it holds a raise, which would always be carried out"
        if isinstance(stmt, ast.While) and _assigns(stmt.test):
            return "its condition assigns a name"
        if self.tried:
            return "it stands in a try whose handlers would see the errors of what is not taken"
        foreign = stores(stmt) & self.outer
        return f"it assigns {min(foreign)!r} of the code around the function" if foreign else ""

    # ---------------------------------------------------------------- loops
    def loop(self, stmt: ast.For | ast.While, after: frozenset[str]) -> list[ast.stmt]:
        head = live_at_head(stmt, after, Targets()) | self.held.keys()
        body = moved_in(stmt.body, ast.Break, ast.Continue)
        reason = "it has an else" if stmt.orelse else self._reason(stmt, (ast.Return,))
        late = held(stmt.body).keys() & (stores(stmt.body) | _targets(stmt))
        if not reason and late:
            reason = f"a function that is made inside reads {min(late)!r}, which changes from turn to turn"
        if not reason and not only_at_ends(body):
            reason = "it holds a break or continue that is not at the end of a branch"
        if reason:
            return self._python_loop(stmt, after, head, reason)
        flag = ""
        if has(body, ast.Break):
            self.count[0] += 1
            flag = f"_going_{self.count[0]}"
        lists = grown(body)
        effect = changes(body, lists) or _list_read(stmt, lists)
        body = without_jumps(body, flag)
        names = sorted((stores(body) | _targets(stmt)) & head - {flag})
        carried = [*names, *lists]
        turn = self._turn(stmt, body, carried, flag, head)
        site = _site(self.file, stmt, names, effect, lists, bool(flag))
        label = ast.Name(turn.name, ast.Load())
        functions = [turn]
        if isinstance(stmt, ast.While):
            test = Conditions(self.file).visit(stmt.test)
            functions.append(self._made_function(stmt, "test", carried, [ast.Return(test)]))
            asked = ast.Name(functions[1].name, ast.Load())
            call = called("while_loop", site, asked, label, self.values(carried))
        else:
            items = _items(self.file, stmt.iter)
            call = called("for_loop", site, items, label, self.values(carried))
        unsure = [name for name in carried if name not in self.bound]
        found = _taken(call, carried)
        return [*functions, *_placed(stmt, found, *map(_dropped, unsure))]

    def _turn(
        self,
        stmt: ast.For | ast.While,
        body: Sequence[ast.stmt],
        carried: Sequence[str],
        flag: str,
        head: frozenset[str],
    ) -> ast.FunctionDef:
        """The function of one turn: the variables before it to those after it, and whether to go on."""
        side = self.inner({flag} | _targets(stmt), stores(body) - set(carried))
        live = head | {flag, *carried}
        start: list[ast.stmt] = []
        item = []
        if isinstance(stmt, ast.For):
            item = ["_item"]
            start.append(ast.Assign([stmt.target], ast.Name("_item", ast.Load())))
        if flag:
            start.append(ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(True)))
        side.held += held(body)
        inner = side.block(body, live, Targets(), False)
        going: ast.expr = ast.Name(flag, ast.Load()) if flag else ast.Constant(None)
        ending = ast.Return(ast.Tuple([side.values(carried), going], ast.Load()))
        placed = _placed(stmt, *start)
        return self._made_function(stmt, "turn", carried, [*placed, *inner, ending], item)

    def _python_loop(
        self, stmt: ast.For | ast.While, after: frozenset[str], head: frozenset[str], reason: str
    ) -> list[ast.stmt]:
        if isinstance(stmt, ast.While):
            test = Conditions(self.file).visit(stmt.test)
            stmt.test = guarded(self.file, stmt, test, "while", reason)
        else:
            stmt.iter = guarded(self.file, stmt, _items(self.file, stmt.iter), "for", reason)
        side = self.inner(_targets(stmt))
        side.held += held(stmt.body)
        stmt.body = side.block(stmt.body, head, Targets(after, head), False)
        stmt.orelse = self.inner().block(stmt.orelse, after, Targets(), False)
        return [stmt]

    # ---------------------------------------------------------------- parts
    def values(self, names: Sequence[str]) -> ast.Tuple:
        """The values of variables as a tuple; of those that may have none, whatever there is."""
        return ast.Tuple([self._value(name) for name in names], ast.Load())

    def _value(self, name: str) -> ast.expr:
        plain = ast.Name(name, ast.Load())
        if name in self.bound:
            return plain
        return called("value_or_unset", ast.Lambda(arguments(()), plain))

    def _made_function(
        self,
        stmt: ast.stmt,
        label: str,
        names: Sequence[str],
        body: Sequence[ast.stmt],
        first: Sequence[str] = (),
    ) -> ast.FunctionDef:
        self.count[0] += 1
        unsure = [_dropped(name) for name in names if name not in self.bound]
        title = f"_{label}_{self.count[0]}"
        statements = [*unsure, *body] or [ast.Pass()]
        made = ast.FunctionDef(title, arguments([*first, *names]), statements, [])
        return _placed(stmt, made)[0]


_OVER = frozenset(["range", "zip", "enumerate", "reversed"])


def _placed(where: ast.AST, *nodes: Made) -> list[Made]:
    return [placed(where, each) for each in nodes]


def _dropped(name: str) -> ast.stmt:
    """A variable without a value has none: to read it is Python's own error."""
    is_unset = called("is_unset", ast.Name(name, ast.Load()))
    return ast.If(is_unset, [ast.Delete([ast.Name(name, ast.Del())])], [])


def _assigns(test: ast.expr) -> bool:
    return any(isinstance(each, ast.NamedExpr) for each in ast.walk(test))


def _targets(stmt: ast.For | ast.While) -> set[str]:
    return stores(stmt.target) if isinstance(stmt, ast.For) else set()


def _list_read(stmt: ast.For | ast.While, lists: Sequence[str]) -> str:
    read = set(lists) & reads(stmt.test) if isinstance(stmt, ast.While) else set()
    return f"its condition reads the list {min(read)!r}" if read else ""


def _items(file: str, items: ast.expr) -> ast.expr:
    """What a loop goes over; ``range``, ``zip``, ``enumerate`` and ``reversed`` may be of tensors."""
    is_call = isinstance(items, ast.Call) and isinstance(items.func, ast.Name)
    visited: Any = Conditions(file).visit(items)
    if not is_call or visited.keywords or visited.func.id not in _OVER:
        return visited
    args = [_items(file, each) if isinstance(each, ast.Call) else each for each in visited.args]
    return ast.copy_location(called("over", visited.func, *args), items)


def _site(
    file: str,
    stmt: ast.stmt,
    names: Sequence[str],
    effect: str,
    lists: Sequence[str] = (),
    breaks: bool = False,
) -> ast.expr:
    parts: tuple[Any, ...] = (
        f"{file}:{stmt.lineno}",
        tuple(names),
        tuple(lists),
        effect,
        breaks,
    )
    return called("Site", *(ast.Constant(part) for part in parts))


def _taken(call: ast.expr, names: Sequence[str]) -> ast.stmt:
    if not names:
        return ast.Expr(call)
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    return ast.Assign([ast.Tuple(targets, ast.Store())], call)
