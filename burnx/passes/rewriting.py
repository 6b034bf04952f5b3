"""Rewrites: rules that replace a node, and what only it needed, by one that means the same.

    @rewrite("Mul")
    def lift_silu(node: Node, match: Match) -> Value | None:
        \"\"\"x * sigmoid(x) = swish(x)\"\"\"
        found = match.find(SILU)
        return match.make("Swish", found["x"]) if found else None

A rule gives the value that takes the place of the node's first output, or None where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from burnx.graph import Graph, Node, Value
from burnx.passes.editing import Editor, Visit, edit, sweep
from burnx.passes.patterns import Found, Pattern, find_all
from burnx.types import TensorType, Type


@dataclass(slots=True, eq=False)
class Match:
    """A node that a rule looks at, and what the rule may ask and make."""

    node: Node
    editor: Editor

    def find(self, pattern: Pattern) -> Found | None:
        """How the node is the pattern, with nothing else reading what lies between."""
        return next(self.find_each(pattern), None)

    def find_each(self, pattern: Pattern) -> Iterator[Found]:
        """Every way in which the node is the pattern: operands of a product may be named either way."""
        for found in find_all(pattern, self.node.outputs[0], Found(), self.enter):
            if self.is_inner(found.nodes):
                yield found

    def is_inner(self, nodes: Sequence[Node]) -> bool:
        """Whether nothing but these nodes reads what lies between them and the node."""
        inside = set(nodes)
        return all(self._is_inner(node, inside) for node in nodes if node is not self.node)

    def enter(self, value: Value) -> Node | None:
        """The node that gives a value, if it stands in the same graph and this is its first output."""
        node = value.producer
        if node is None or self.editor.owner.get(node) is not self.editor.owner[self.node]:
            return None
        return node if node.outputs[0] is value and node not in self.editor.removed else None

    def inner(self, value: Value | None, operator: str, domain: str = "") -> Node | None:
        """The node of this operator that gives a value to this node alone."""
        node = self.enter(value) if value is not None else None
        if node is None or (node.operator, node.domain) != (operator, domain):
            return None
        return node if self._is_inner(node, {self.node}) else None

    def _is_inner(self, node: Node, readers: set[Node]) -> bool:
        return all(self.editor.is_only_used_by(value, readers) for value in node.outputs)

    def make(
        self,
        operator: str,
        *inputs: Value | None,
        domain: str = "",
        like: Node | None = None,
        **attributes: Any,
    ) -> Value | None:
        """What an operator gives; None if its type is not that of the node it replaces.

        The node takes name, doc and metadata of ``like``, by default the one it replaces.
        """
        made = self.put_all(operator, *inputs, domain=domain, like=like, **attributes)
        if not made or not is_as_good(made[0].type, self.node.outputs[0].type):
            return None
        return made[0]

    def put(
        self,
        operator: str,
        *inputs: Value | None,
        domain: str = "",
        like: Node | None = None,
        **attributes: Any,
    ) -> Value | None:
        """What an operator gives on the way to what replaces the node."""
        made = self.put_all(operator, *inputs, domain=domain, like=like, **attributes)
        return made[0] if made else None

    def put_all(
        self,
        operator: str,
        *inputs: Value | None,
        domain: str = "",
        like: Node | None = None,
        outputs: int = 1,
        **attributes: Any,
    ) -> list[Value]:
        """All that an operator gives, empty if it refuses these inputs."""
        node = self.editor.make(operator, inputs, attributes, like or self.node, domain, outputs)
        return [] if node is None else node.outputs


Rule: TypeAlias = Callable[[Node, Match], Value | None]
Rules: TypeAlias = Mapping[str, Sequence[Rule]]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule and the operators of the nodes it looks at."""

    operators: tuple[str, ...]
    rule: Rule


def rewrite(*operators: str) -> Callable[[Rule], Rewrite]:
    """Make a function a rule for nodes of these operators; its docstring is its law."""
    return lambda rule: Rewrite(operators, rule)


def is_as_good(new: Type, old: Type) -> bool:
    """Whether a value of type ``new`` may stand where one of type ``old`` did."""
    if isinstance(new, TensorType) and isinstance(old, TensorType) and old.shape is None:
        return new.dtype == old.dtype
    return new == old


def table(*rewrites: Rewrite) -> Rules:
    """The rules by operator, in the order they are tried."""
    rules: dict[str, list[Rule]] = {}
    for each in rewrites:
        for operator in each.operators:
            rules.setdefault(operator, []).append(each.rule)
    return rules


def apply(rules: Rules, editor: Editor, node: Node) -> bool:
    """Replace a node of the standard's domain by the first rule that applies."""
    for rule in () if node.domain else rules.get(node.operator, ()):
        before = len(editor.made)
        value = rule(node, Match(node, editor))
        if value is not None and value is not node.outputs[0]:
            editor.replace(node.outputs[0], value)
            editor.remove(node)
            _drop_unused(editor, before)
            return True
        _drop_unused(editor, before)
    return False


def _drop_unused(editor: Editor, before: int) -> None:
    """Remove what a rule made and did not use."""
    for made in reversed(editor.made[before:]):
        editor.remove(made)
    editor.made[before:] = [made for made in editor.made[before:] if made not in editor.removed]


def rewrite_graph(graph: Graph, *rewrites: Rewrite) -> int:
    """Try rules on every node of a graph and of its subgraphs; how many applied."""
    rules, editor = table(*rewrites), edit(graph)
    visit: Visit = lambda node: apply(rules, editor, node)  # noqa: E731
    return sweep(editor, graph, visit)
