"""If, Loop and Scan as Python's own statements, under ``@script``; where that would not be exact, ``flow`` writes calls.

A block inside is written with the variables around it. It may assign those that it carries and those that nobody
reads after it; all else that is visible keeps its value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnx.codegen.dims import type_text
from burnx.codegen.expressions import bare, call, group, name, negated
from burnx.codegen.layout import Assign, Break, Do, For, If, Stmt, While
from burnx.codegen.literal import constant
from burnx.codegen.parameters import mapped_expressions
from burnx.codegen.results import role_of
from burnx.codegen.roles import plain_word
from burnx.graph import Graph, Node, Value
from burnx.structure.loop_forms import LoopForm, loop_form, scan_form
from burnx.structure.sizes import leaves
from burnx.structure.tree import Item, LayerCall, Op, inner_items

if TYPE_CHECKING:
    from burnx.codegen.block import Block

Pairs = list[tuple[str, ast.expr, str]]
"""Assignments that happen at once: variable, value, note."""


def decorators(body: Sequence[Stmt]) -> tuple[str, ...]:
    """What stands above a function with these statements."""
    return ("script",) if any(map(_decides, body)) else ()


def _decides(stmt: Stmt) -> bool:
    if isinstance(stmt, (If, While)) or (isinstance(stmt, For) and stmt.captured):
        return True
    return any(map(_decides, getattr(stmt, "body", ())))


def write_flow(block: Block, item: Item) -> bool:
    """Write a node with graphs as a statement; False where there is none that is exact."""
    if not isinstance(item, Op) or item.node.domain:
        return False
    rule = _RULES.get(item.node.operator)
    if rule is None or not rule(block, item):
        return False
    block.context.flow.add("script")
    return True


# ------------------------------------------------------------------------------- if
def _if(block: Block, item: Op) -> bool:
    node = item.node
    (condition,) = node.inputs
    if condition is None or condition.is_constant:
        return False
    test = block.value(condition, node, 0)
    dying = block.read(block.leaves(item))
    free = _free_names(block, dying)
    sides: tuple[Graph, ...] = (node.attributes["then_branch"], node.attributes["else_branch"])
    used = [place for place, value in enumerate(node.outputs) if block.left[value] > 0]
    names: list[str] = []
    for place in used:
        names.append(_result_name(block, node, place, dying, names))
    bodies = []
    for graph in sides:
        results = [graph.outputs[place] for place in used]
        env = _visible_env(block, dying, graph)
        inner = _inner(block, env, free | set(names))
        inner.wanted = dict(zip(results, names, strict=True))
        inner.write(inner_items(graph, item.inside), results)
        pairs = zip(names, results, strict=True)
        bodies.append((*inner.statements, *_assigned(_pairs(inner, pairs))))
    then, orelse = bodies
    if then or orelse:
        shown = (test, then, orelse) if then else (negated(test), orelse, ())
        block.statements.append(If(*shown))
    for place, label in zip(used, names, strict=True):
        block.bind(node.outputs[place], label, dying)
    return True


def _result_name(
    block: Block, node: Node, place: int, dying: Sequence[Value], taken: Sequence[str]
) -> str:
    """What a result of an If is called: as what it is made of, where nobody reads that any more."""
    value = node.outputs[place]
    if value in block.context.results:
        return block.free_name(block.context.results[value], _dying_names(block, dying), *taken)
    graphs = (node.attributes["then_branch"], node.attributes["else_branch"])
    free = _free_names(block, dying)
    for each in dying:
        read = all(each in _needed(graph) for graph in graphs)
        if read and each.type == value.type and block.env[each] in free - set(taken):
            return block.env[each]
    made = graphs[0].outputs[place].producer
    word = (
        role_of(Op(made, 0), block.in_place)
        if made is not None and made.operator not in _RULES
        else "x"
    )
    return block.free_name(word, _dying_names(block, dying), *taken)


# ------------------------------------------------------------------------------- loops
@dataclass(frozen=True, slots=True)
class _Variables:
    """The variables of a loop: those it carries, what a turn is given, the lists that grow."""

    carried: list[str]
    given: dict[Value, str]
    lists: list[str]


def _loop(block: Block, item: Op) -> bool:
    form = loop_form(item.node)
    return form is not None and _written(block, item, form)


def _scan(block: Block, item: Op) -> bool:
    form = scan_form(item.node)
    return form is not None and _written(block, item, form)


def _written(block: Block, item: Op, form: LoopForm) -> bool:
    """Write a loop: its variables, the loop, and the lists as tensors."""
    node = item.node
    starts = [_as_array(block.value(each.start, node, each.place)) for each in form.states]
    header = _header(block, node, form)
    types = [type_text(each.start.type) for each in form.states]
    dying = block.read(block.leaves(item))
    lists = [place for place, value in enumerate(form.stacked) if block.left[value] > 0]
    read = set() if header is None else _read_names(header)
    names = _name_all(block, form, lists, dying, read)
    block.statements += _assigned(list(zip(names.carried, starts, types, strict=True)))
    empty = (Assign(name(each), ast.List([], ast.Load())) for each in names.lists)
    block.statements += empty
    body = _turn(block, form, names, lists, dying, item.inside)
    block.statements.append(_around(header, form, names, body))
    for each, label in zip(form.states, names.carried, strict=True):
        if each.output is not None and block.left[each.output] > 0:
            block.bind(each.output, label, dying)
    for gone in dying:
        block.env.pop(gone, None)
    for place, label in zip(lists, names.lists, strict=True):
        value = form.stacked[place]
        options = {"axis": constant(form.axes[place])} if form.axes[place] else {}
        block.context.flow.add("stack")
        stacked = call("stack", name(label), **options)
        chosen = block.free_name(block.context.results.get(value, "stacked"), set(), *names.lists)
        block.statements.append(Assign(name(chosen), stacked, type_text(value.type)))
        block.env[value] = chosen
    return True


def _as_array(start: ast.expr) -> ast.expr:
    """A number as what a variable that becomes a tensor may begin as."""
    if not isinstance(start, ast.Constant):
        return start
    dtype = "bool" if isinstance(start.value, bool) else "int64"
    return call("ops.array", start, dtype=constant(dtype))


def _header(block: Block, node: Node, form: LoopForm) -> ast.expr | None:
    """What a ``for`` goes over; None for a ``while``."""
    if form.rows:
        rows = [block.value(node.inputs[place], node, place) for place in form.rows]  # type: ignore[arg-type]
        items = [
            call("reversed", each) if back else each
            for each, back in zip(rows, form.backwards, strict=True)
        ]
        return items[0] if len(items) == 1 else call("zip", *items)
    if form.trips is None:
        return None
    trips = block.value(form.trips, node, 0)
    if form.guard is not None:
        guard = block.value(form.guard, node, 1)
        trips = call("ops.where", guard, _as_array(trips), constant(0))
    is_number = isinstance(trips, ast.Constant)
    return call("range", call("ops.identity", trips) if is_number else trips)


def _around(
    header: ast.expr | None, form: LoopForm, names: _Variables, body: tuple[Stmt, ...]
) -> Stmt:
    """The statement around a loop's body."""
    if header is not None:
        return For(", ".join(names.given.values()), header, body, captured=True)
    return While(name(names.carried[-1]) if form.going else constant(True), body)


def _name_all(
    block: Block, form: LoopForm, lists: Sequence[int], dying: Sequence[Value], read: set[str]
) -> _Variables:
    """What a loop's variables are called; ``read`` are those that stand behind its ``in``."""
    taken: list[str] = []
    needed, free = _needed(form.body), _free_names(block, dying)
    gone = {block.env[each] for each in dying if each not in needed}
    starts = [each.start for each in form.states]

    def fresh(word: str) -> str:
        taken.append(block.free_name(word, gone, *taken, *read))
        return taken[-1]

    carried = []
    for each in form.states:
        label = block.env.get(each.start, "")
        is_own = each.start in dying and each.start not in needed and starts.count(each.start) == 1
        result = block.context.results.get(each.output) if each.output is not None else None
        if result is None and is_own and label in free - read and label not in taken:
            taken.append(label)
            carried.append(label)
            continue
        carried.append(fresh(result or each.word or plain_word(each.given.name) or "state"))
    given = {value: fresh(_item_word(value, place)) for place, value in enumerate(form.given)}
    if not form.rows:
        given = {v: label if v in _read(form.body) else "_" for v, label in given.items()}
    words = [block.context.results.get(form.stacked[place], "") for place in lists]
    found = [fresh(f"{word}_rows" if word and len(words) > 1 else "rows") for word in words]
    return _Variables(carried, given, found)


def _item_word(value: Value, place: int) -> str:
    return plain_word(value.name) or ("i" if not value.type.shape else "row")  # type: ignore[union-attr]


def _turn(
    block: Block,
    form: LoopForm,
    names: _Variables,
    lists: Sequence[int],
    dying: Sequence[Value],
    layers: Sequence[LayerCall],
) -> tuple[Stmt, ...]:
    """The statements of one turn."""
    env = _visible_env(block, dying, form.body)
    env |= {each.given: label for each, label in zip(form.states, names.carried, strict=True)}
    env |= {value: label for value, label in names.given.items() if label != "_"}
    inner = _inner(block, env, {*names.carried, *names.given.values()})
    inner.outer |= set(names.lists)
    results = [each.result for each in form.states]
    inner.wanted = dict(zip(results, names.carried, strict=True))
    items = [form.items[place] for place in lists]
    tests = [] if form.stop is None else [form.stop]
    inner.write(inner_items(form.body, layers), [*results, *items, *tests])
    grown = [
        Do(call(f"{label}.append", inner.value(value)))
        for label, value in zip(names.lists, items, strict=True)
    ]
    pairs = _pairs(inner, zip(names.carried, results, strict=True))
    ending: list[Stmt] = []
    if form.stop is not None:
        test = inner.value(form.stop)
        if _read_names(test) & {label for label, _, _ in pairs}:
            going = inner.free_name("going", set(), *names.carried)
            pairs.append((going, test, ""))
            test = name(going)
        ending.append(If(negated(test), (Break(),), ()))
    body = (*inner.statements, *grown, *_assigned(pairs), *ending)
    if not form.rows:
        numbers = _Numbers(set(names.given.values()))
        body = tuple(mapped_expressions(body, lambda expr, _: numbers.visit(deepcopy(expr))))
    return body or (Do(ast.Constant(...)),)


class _Numbers(ast.NodeTransformer):
    """What a range gives may be a number as well: it is made a tensor where one is asked something."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(ast.Call(_, [number]), "astype"), [dtype]):
                if isinstance(number, ast.Name) and number.id in self.names:
                    return call("ops.cast", number, to=dtype)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._asked(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self._asked(node)

    def _asked(self, node: ast.Attribute | ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id in self.names:
            node.value = call("ops.identity", node.value)
            return node
        self.generic_visit(node)
        return node


# ------------------------------------------------------------------------------- blocks inside
def _needed(graph: Graph) -> set[Value]:
    """The variables around a graph that it reads."""
    return {leaf for value in graph.captures() for leaf in leaves(value)}


def _read(graph: Graph) -> set[Value]:
    """Every value that the nodes and results of a graph read."""
    inner = (value for node in graph.nodes for value in _reads(node))
    return {leaf for value in (*inner, *graph.outputs) for leaf in leaves(value)}


def _reads(node: Node) -> list[Value]:
    inner = (value for graph in node.subgraphs() for value in _read(graph))
    return [*(value for value in node.inputs if value is not None), *inner]


def _dying_names(block: Block, dying: Sequence[Value]) -> set[str]:
    return {block.env[each] for each in dying if each in block.env}


def _free_names(block: Block, dying: Sequence[Value]) -> set[str]:
    """The variables that end here and may be assigned anew."""
    kept = {label for value, label in block.env.items() if value not in dying}
    names = _dying_names(block, dying) - kept - block.captured
    return {
        each
        for each in names
        if each.isidentifier() and (each not in block.parameters or each == "x")
    }


def _visible_env(block: Block, dying: Sequence[Value], graph: Graph) -> dict[Value, str]:
    """The variables that a block inside sees: those that live on, and those that it reads."""
    needed = _needed(graph)
    return {
        value: label for value, label in block.env.items() if value not in dying or value in needed
    }


def _inner(block: Block, env: dict[Value, str], own: set[str]) -> Block:
    """A block inside, which may assign the variables ``own``."""
    visible = (set(env.values()) | block.outer | block.captured) - own
    made: Any = type(block)(block.context, env, visible, frozenset(visible))
    made.packs, made.carried = dict(block.packs), frozenset(own)
    return made


def _pairs(inner: Block, wanted: Any) -> Pairs:
    """The variables that a block still has to assign at its end."""
    found = [(label, inner.value(value), type_text(value.type)) for label, value in wanted]
    return [each for each in found if bare(each[1]) != each[0]]


def _assigned(pairs: Pairs) -> list[Stmt]:
    """Assignments as if at once: one after the other where that is the same, else as a tuple."""
    rest, made = [each for each in pairs if bare(each[1]) != each[0]], []
    while rest:
        ready = next((each for each in rest if not _is_read(each, rest)), None)
        if ready is None:
            targets, values, _ = zip(*rest, strict=True)
            made.append(Assign(group(map(name, targets)), group(values)))
            break
        rest.remove(ready)
        label, value, note = ready
        plain = isinstance(value, (ast.Name, ast.Constant))
        made.append(Assign(name(label), value, "" if plain else note))
    return list(made)


def _is_read(pair: tuple[str, ast.expr, str], pairs: Pairs) -> bool:
    """Whether another assignment still needs the variable as it is."""
    return any(pair[0] in _read_names(each[1]) for each in pairs if each is not pair)


def _read_names(value: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}


_RULES: dict[str, Callable[[Any, Op], bool]] = {"If": _if, "Loop": _loop, "Scan": _scan}
