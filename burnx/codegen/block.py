"""Statements: the items of one class, or of a branch or loop body, in order.

A variable whose last use is in a statement lends its name to the statement's result, so that a chain reads
``x = f(x)``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from burnx.codegen.attributes import kept_attributes
from burnx.codegen.constants import FLOW, literal_input, literal_result
from burnx.codegen.dim_names import Source, named_sizes, write_sizes
from burnx.codegen.dims import type_text
from burnx.codegen.expressions import call, group, name, text
from burnx.codegen.families import Family
from burnx.codegen.inlining import (
    arguments,
    count_uses,
    inlined,
    is_macro,
)
from burnx.codegen.layout import Assign, Return, Stmt
from burnx.codegen.literal import constant
from burnx.codegen.loops import write_loop
from burnx.codegen.names import BUILTINS, LOCAL_RESERVED, identifier
from burnx.codegen.placing import Places
from burnx.codegen.results import crowded, has_own_name, role_of, uses_of
from burnx.codegen.roles import plain_word
from burnx.codegen.selfpath import self_path
from burnx.codegen.spelling import spell
from burnx.codegen.stacking import stacked
from burnx.graph import Node, Value
from burnx.ops import find
from burnx.structure.runs import Growth, Round, Run, find_runs, inputs_of, values_of
from burnx.structure.scopes import Path
from burnx.structure.sizes import is_size, is_sizes
from burnx.structure.tree import Call as ModuleCall
from burnx.structure.tree import Item, LayerCall, Op, writes

Arg = TypeVar("Arg", ast.expr, ast.expr | None)


_NEUTRAL = re.compile(r"x(_\d+)?$")


@dataclass(slots=True)
class Context:
    """What the statements of one class need to know of the rest of the source.

    ``families`` are inputs and outputs that are one thing many times; ``kept`` are the constants that are parameters,
    ``results`` what the outputs of a model of several are called.  ``flow`` collects the functions of burnx that control
    flow uses, ``read`` what statements read for themselves, not only to hand it to a module.
    """

    places: Places
    kept: set[Value]
    results: Mapping[Value, str]
    families: Sequence[Family]
    lists: Mapping[Path, int]
    owner: Path
    flow: set[str]
    read: set[Value]


@dataclass(slots=True)
class Block:
    """The statements of one function; ``env`` are the variables, ``outer`` names that must not be hidden.

    ``captured`` are the variables around it that keep their values, ``carried`` those that it may assign, ``wanted``
    what its results shall be called.
    """

    context: Context
    env: dict[Value, str]
    outer: set[str] = field(default_factory=set)
    captured: frozenset[str] = frozenset()
    parameters: set[str] = field(default_factory=set)
    left: Counter[Value] = field(default_factory=Counter)
    total: Counter[Value] = field(default_factory=Counter)
    in_place: dict[Value, Item] = field(default_factory=dict)
    known_as: dict[Value, str] = field(default_factory=dict)
    named: dict[str, Source] = field(default_factory=dict)
    dim_names: dict[str, str] = field(default_factory=dict)
    crowded: set[Value] = field(default_factory=set)
    statements: list[Stmt] = field(default_factory=list)
    packs: dict[str, int] = field(default_factory=dict)  # tuples and lists of variables, how many
    wanted: dict[Value, str] = field(default_factory=dict)
    carried: frozenset[str] = frozenset()

    def fill(self, items: Sequence[Item], results: Sequence[Value]) -> list[Stmt]:
        """Every statement, the return included."""
        self.write(items, results)
        self._return(results)
        return self.statements

    def write(self, items: Sequence[Item], results: Sequence[Value]) -> None:
        """Every statement but the last, which gives the results."""
        self.left = count_uses(items, results)
        self.total = self.left.copy()
        statements = [item for item in items if not is_macro(item)]
        self.known_as, self.named = uses_of(items), named_sizes(statements)
        parts = find_runs(statements, self.left, self.context.lists)
        self.in_place = inlined(items, self.left, results, values_of(parts))
        self.known_as |= {
            inputs_of(each.calls[0])[each.place]: "x" for each in parts if isinstance(each, Run)
        }
        self.crowded = crowded(statements, self.in_place, results)
        self.parameters = set(self.env.values()) - self.carried
        for part in parts:
            if isinstance(part, Run | Growth | Round):
                write_loop(self, part)
            elif not any(value in self.in_place for value in writes(part)):
                self.statement(part)

    def _return(self, results: Sequence[Value]) -> None:
        """The last statement; what was worked out just before for it alone stands in it."""
        exprs = self.unpacked([self.value(value) for value in results])
        is_one = len(exprs) == 1 and not isinstance(exprs[0], ast.Starred)
        whole = exprs[0] if is_one else group(exprs)
        last = self.statements[-1] if self.statements else None
        if isinstance(last, Assign) and text(last.target) == text(whole):
            self.statements[-1] = Return(last.value, last.note)
            return
        plain = isinstance(whole, ast.Name | ast.Constant | ast.Tuple)
        self.statements.append(Return(whole, "" if plain else type_text(results[0].type)))

    # ---------------------------------------------------------------- statements
    def statement(self, item: Item) -> None:
        if _has_graphs(item) and any(self.left[value] > 0 for value in writes(item)):
            from burnx.codegen.flow_statements import write_flow

            if write_flow(self, item):
                return
        used = [self.left[value] > 0 for value in writes(item)]
        if not any(used) and not isinstance(item, ModuleCall):
            self.read(self.leaves(item))
            return
        expr = self.item(item)
        dying = self.read(self.leaves(item))
        targets: list[ast.expr] = []
        several = self._family(item) if all(used) else None
        for value, is_used in zip(writes(item), used, strict=True):
            if several is not None and value in several.values:
                if value is several.values[0]:
                    label = self.free_name(several.label, set())
                    targets.append(ast.Starred(name(label), ast.Store()))
                    self.pack(label, several.values)
            elif is_used:
                chosen = self.choose(item, value, dying)
                targets.append(name(chosen))
                self.bind(value, chosen, dying)
            else:
                targets.append(name("_"))
        pairs = zip(writes(item), used, strict=True)
        types = [type_text(value.type) for value, is_used in pairs if is_used]
        target = targets[0] if len(targets) == 1 and not self._gives_tuple(item) else group(targets)
        self.statements.append(Assign(target, expr, ", ".join(dict.fromkeys(types))))

    def _family(self, item: Item) -> Family | None:
        """The family that is part of what an item gives."""
        given = writes(item)
        for family in self.context.families:
            values = list(family.values)
            for start in range(len(given) - len(values) + 1):
                if given[start : start + len(values)] == values:
                    return family
        return None

    def _gives_tuple(self, item: Item) -> bool:
        """Whether a call gives a tuple even of one; those of control flow do not."""
        if not isinstance(item, Op) or (item.node.operator in FLOW and not item.node.domain):
            return False
        return find(item.node.domain, item.node.operator).is_variadic

    def pack(self, label: str, values: Sequence[Value]) -> None:
        """From now on the values are the elements of the list or tuple ``label``."""
        self.packs[label] = len(values)
        self.env |= {value: f"{label}[{place}]" for place, value in enumerate(values)}

    def unpacked(self, exprs: Sequence[Arg]) -> Sequence[Arg]:
        """All elements of a pack that stand in order as ``*pack``."""
        found = list(exprs)
        for label, count in self.packs.items():
            elements = [f"{label}[{place}]" for place in range(count)]
            texts = [text(each) if each is not None else "" for each in found]
            for start in range(len(texts) - count + 1 if count else 0):
                if texts[start : start + count] == elements:
                    every: Any = ast.Starred(name(label), ast.Load())
                    found[start : start + count] = [every]
                    break
        return found

    def read(self, values: Sequence[Value]) -> list[Value]:
        """Note reads; the variables that nobody reads any more."""
        self.left.subtract(values)
        return [
            value for value in dict.fromkeys(values) if self.left[value] <= 0 and value in self.env
        ]

    def leaves(self, item: Item) -> list[Value]:
        """The variables that an item and what stands in place inside it read."""
        found: list[Value] = []
        for value in arguments(item):
            inner = self.in_place.get(value)
            found += self.leaves(inner) if inner is not None else [value]
        return found

    def bind(self, value: Value, chosen: str, dying: Sequence[Value]) -> None:
        for each in dying:
            self.env.pop(each, None)
        self.env[value] = chosen

    # ---------------------------------------------------------------- names
    def choose(self, item: Item, value: Value, dying: Sequence[Value]) -> str:
        free = {self.env[each] for each in dying if each in self.env}
        wanted = self.wanted.get(value)
        if wanted is not None and wanted not in self._kept_names(dying):
            return wanted
        if value in self.context.results:
            return self.free_name(self.context.results[value], free)
        known = self.known_as.get(value, "")
        is_known = known == "x" or known != "" and isinstance(item, Op)
        if not is_known and (taken_over := self._taken_over(item, dying, free)):
            return taken_over
        role = known if is_known else role_of(item, self.in_place)
        return self.free_name(role, free) if value in self.crowded else self.role_name(role, free)

    def _taken_over(self, item: Item, dying: Sequence[Value], free: set[str]) -> str:
        """The name of the first operand, if that is not needed any more and still says what the result is; or ``x``."""
        first = next(iter(self.leaves(item)), None)
        if first is None or first not in dying or first not in self.env:
            return ""
        label = self.env[first]
        if label in self.captured or (label in self.parameters and label != "x"):
            return self.free_name("x", free)
        if has_own_name(item, self.total, self.in_place):
            return ""
        if label == "x" or _NEUTRAL.match(label):
            return label
        if label.isidentifier() and role_of(item, self.in_place) == "x":
            return label
        return "x" if not isinstance(item, Op) and "x" not in self.active(free) else ""

    def _kept_names(self, dying: Sequence[Value]) -> set[str]:
        """The names of all variables but those that nobody reads any more."""
        return {label for value, label in self.env.items() if value not in dying}

    def role_name(self, role: str, free: set[str], *taken: str) -> str:
        """The name for a result that takes over no other name: its role, without a number where that is free."""
        plain = plain_word(role)
        if plain and plain not in self.active(free, *taken):
            return plain
        return self.free_name(role, free, *taken)

    def active(self, free: set[str], *taken: str) -> set[str]:
        """The names that a new variable may not have."""
        held = set(self.env.values()) - free
        return held | self.outer | LOCAL_RESERVED | {*taken, *self.packs}

    def free_name(self, wanted: str, free: set[str], *taken: str) -> str:
        base = identifier(wanted) or "x"
        active = self.active(free, *taken)
        name, number = f"{base}_" if base in BUILTINS else base, 1
        while name in active:
            number += 1
            name = f"{base}_{number}"
        return name

    # ---------------------------------------------------------------- expressions
    def value(self, value: Value, node: Node | None = None, place: int = 0) -> ast.expr:
        """A value where it is used: a variable, an expression in place, an attribute or a literal."""
        self.context.read.add(value)
        return self._found(value, node, place)

    def given(self, item: Item, value: Value) -> ast.expr:
        """A value that a module or layer is called with."""
        return self._found(value) if isinstance(item, ModuleCall) else self.value(value)

    def _found(self, value: Value, node: Node | None = None, place: int = 0) -> ast.expr:
        if value in self.env:
            return name(self.env[value])
        if value in self.in_place:
            return self.item(self.in_place[value])
        if is_sizes(value.producer) or is_size(value.producer):
            return write_sizes(self, value, node, place)
        if value in self.context.kept:
            return self_path(self.context, self.context.places.constants[value])
        literal = literal_result(value) if node is None else literal_input(node, place)
        if literal is not None:
            return literal
        raise KeyError(value)

    def item(self, item: Item) -> ast.expr:
        """The call that an item is."""
        if isinstance(item, ModuleCall):
            args = [self.given(item, value) for value in item.inputs]
            return call(self_path(self.context, item.path), *self.unpacked(args))
        if isinstance(item, LayerCall):
            return _layer_call(self, item)
        if item.node.operator in FLOW:
            from burnx.codegen.flow import flow_call

            return flow_call(self, item)
        if (joined := stacked(self, item.node)) is not None:
            return joined
        given: list[ast.expr | None] = [
            None if value is None else self.value(value, item.node, place)
            for place, value in enumerate(item.node.inputs)
        ]
        held = {key: self.value(value) for key, value in kept_attributes(item.node)}
        return spell(item.node, self.unpacked(given), held)


def _layer_call(block: Block, item: LayerCall) -> ast.expr:
    args = [constant(None) if value is None else block.value(value) for value in item.layer.inputs]
    count = item.layer.outputs
    usual = {"LSTM": 3, "DynamicQuantLSTM": 3, "GRU": 2, "RNN": 2}.get(item.layer.kind)
    options = {} if count in (None, usual) else {"outputs": constant(count)}
    return call(self_path(block.context, item.path), *args, **options)


def _has_graphs(item: Item) -> bool:
    return isinstance(item, Op) and item.node.operator in FLOW and not item.node.domain
