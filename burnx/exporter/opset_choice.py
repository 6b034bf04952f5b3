"""Which opset a graph can be written at, and what a node needs that an opset does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from burnx.dtype import is_float
from burnx.errors import ExportError
from burnx.exporter.graph_outputs import drop_unused, settle_outputs
from burnx.exporter.onnx_types import type_text
from burnx.exporter.schemas import Schema, Slot, newest_version, schema, slot_of
from burnx.exporter.spell_operators import SPELLINGS
from burnx.exporter.spelling import Emitter
from burnx.graph import Graph, Node, Value
from burnx.ops import table
from burnx.types import TensorType

OLDEST, USUAL = 13, 20
# the oldest version of these domains that is written
_FIRST = {"ai.onnx.ml": 3}

# operators that changed between 13 and 20 in nothing but dtypes and attributes
_ALIKE = """
Add Cast ConstantOfShape CumSum DequantizeLinear Div Equal GRU GreaterOrEqual Identity If IsInf IsNaN LSTM
LeakyRelu LessOrEqual Loop LpPool Mul PRelu Pad Pow QuantizeLinear RNN ReduceMax ReduceMin Relu Reshape Resize Scan
ScatterElements ScatterND Shape Size Sub Where
"""
_ALIKE_BEFORE_20 = frozenset(_ALIKE.split())


def _mod_needs(node: Node) -> int:
    kind = node.outputs[0].type
    is_floored = not node.attributes.get("fmod")
    return 28 if is_floored and isinstance(kind, TensorType) and is_float(kind.dtype) else 0


def _scatter_needs(node: Node) -> int:
    return 18 if node.attributes.get("reduction") in ("max", "min") else 0


def _pool_needs(node: Node) -> int:
    return 22 if node.attributes.get("ceil_mode") else 0


# the oldest opset at which a node means what it says, where the schema does not tell
_NEEDS: Mapping[tuple[str, str], Callable[[Node], int]] = {
    ("", "Mod"): _mod_needs,
    ("", "ScatterElements"): _scatter_needs,
    ("", "ScatterND"): _scatter_needs,
    ("", "Pad"): lambda node: 19 if node.attributes.get("mode") == "wrap" else 0,
    ("", "GroupNormalization"): lambda node: 21,
    **{("", name): _pool_needs for name in ("AveragePool", "LpPool", "MaxPool")},
}


def spelled_at(graph: Graph, opset: int) -> tuple[Graph, frozenset[Node]]:
    """The graph in the words of an opset, and the nodes that spellings made."""
    emitter = Emitter(opset, SPELLINGS)
    spelled = emitter.graph(graph)
    settle_outputs(spelled)
    drop_unused(spelled, opset)
    return spelled, frozenset(emitter.emitted)


def choose(graph: Graph, opset: int | None) -> tuple[Graph, dict[str, int]]:
    """The graph as it is written, and the opsets it imports: the given one, else the lowest from 20 on.

    Raises: ExportError naming the first node that cannot be said, and what it needs.
    """
    newest = newest_version("")
    if opset is not None and not OLDEST <= opset <= newest:
        raise ExportError(f"models are written at opsets {OLDEST} to {newest}, not {opset}")
    fault: str | None = None
    for version in range(USUAL, newest + 1) if opset is None else (opset,):
        spelled, emitted = spelled_at(graph, version)
        fault = _first_fault(spelled, "", version, emitted)
        if fault is None:
            return spelled, {"": version, **_other_domains(spelled, graph.opsets)}
    if opset is None:
        raise ExportError(f"no opset from {USUAL} to {newest} can say {fault}")
    raise ExportError(f"opset {opset} cannot say {fault}")


def _other_domains(graph: Graph, imported: Mapping[str, int]) -> dict[str, int]:
    domains = {node.domain: node for node in graph.all_nodes() if node.domain}
    found: dict[str, int] = {}
    for domain, node in sorted(domains.items()):
        if domain == "burnx":
            raise ExportError(f"{node.operator} is burnx's own and has no spelling, {node.place}")
        newest = newest_version(domain)
        if not newest:
            found[domain] = imported.get(domain, 1)
            continue
        fault: str | None = None
        for version in range(min(_FIRST.get(domain, 1), newest), newest + 1):
            fault = _first_fault(graph, domain, version, frozenset())
            if fault is None:
                found[domain] = version
                break
        if fault is not None:
            raise ExportError(f"no version of {domain} can say {fault}")
    return found


def _first_fault(graph: Graph, domain: str, version: int, emitted: frozenset[Node]) -> str | None:
    for node in graph.all_nodes():
        if node.domain == domain:
            fault = find_fault(node, version, node in emitted)
            if fault is not None:
                return f"{node.place}: {fault}"
    return None


def find_fault(node: Node, version: int, is_emitted: bool = False) -> str | None:
    """Why a node cannot be said at a version of its domain, None if it can.

    An emitted node was written for this version: its meaning is not asked about.
    """
    rules = schema(node.domain, node.operator, version)
    if rules is None:
        return f"there is no {node.operator} at opset {version}"
    checks = [_attribute_faults(node, rules), _count_faults(node, rules), _type_faults(node, rules)]
    if not is_emitted:
        checks.insert(0, _meaning_faults(node, rules, version))
    return next((fault for faults in checks for fault in faults), None)


def _meaning_faults(node: Node, rules: Schema, version: int) -> Iterable[str]:
    entry = table().get((node.domain, node.operator))
    needs = _NEEDS.get((node.domain, node.operator))
    needed = 0 if needs is None else needs(node)
    if entry is not None:
        needed = max(needed, entry.meaning_since)
        is_older = any(upgrade >= rules.since for upgrade in entry.upgrades)
        if is_older:
            yield f"{node.operator} means something else at opset {version}"
    if version < needed:
        yield f"it needs opset {needed}"
    if version < USUAL and not node.domain and node.operator not in _ALIKE_BEFORE_20:
        usual = schema("", node.operator, USUAL)
        if usual is not None and usual.since != rules.since:
            yield f"{node.operator} changed with opset {usual.since}"


def _attribute_faults(node: Node, rules: Schema) -> Iterable[str]:
    for name, value in node.attributes.items():
        if value is not None and name not in rules.kinds and not is_default(node, name, value):
            yield f"{node.operator} of opset {rules.since} has no attribute {name!r}"


def is_default(node: Node, name: str, value: Any) -> bool:
    """Whether an attribute says what the newest version of the operator means without it."""
    newest = schema(node.domain, node.operator, newest_version(node.domain) or 1)
    if newest is None or name not in newest.defaults:
        return False
    default = newest.defaults[name]
    given = value.encode() if isinstance(default, bytes) and isinstance(value, str) else value
    return bool(given == default)


def _count_faults(node: Node, rules: Schema) -> Iterable[str]:
    low, high, _, most = rules.counts
    inputs = node.inputs
    if not low <= len(inputs) <= high:
        yield f"{node.operator} of opset {rules.since} takes {low} to {high} inputs, not {len(inputs)}"
    for place, value in enumerate(inputs):
        slot = slot_of(rules.inputs, place)
        if value is None and slot is not None and not (slot.optional or slot.variadic):
            yield f"{node.operator} of opset {rules.since} needs its input {slot.name!r}"
    if len(node.outputs) > most:
        yield f"{node.operator} of opset {rules.since} gives {most} outputs, not {len(node.outputs)}"


def _type_faults(node: Node, rules: Schema) -> Iterable[str]:
    yield from _wrong_types(node.inputs, rules.inputs, rules.since)
    yield from _wrong_types(node.outputs, rules.outputs, rules.since)
    yield from _unlike_types(node, rules)


def _unlike_types(node: Node, rules: Schema) -> Iterable[str]:
    """Values of one type variable that have several types."""
    first: dict[str, tuple[str, str]] = {}
    for values, slots in ((node.inputs, rules.inputs), (node.outputs, rules.outputs)):
        for place, value in enumerate(values):
            slot = slot_of(slots, place)
            if value is None or slot is None or not slot.variable:
                continue
            text = type_text(value.type)
            name, known = first.setdefault(slot.variable, (slot.name, text))
            if text != known:
                yield f"{slot.name!r} is {known} as {name!r} is, not {text}, at opset {rules.since}"


def _wrong_types(
    values: Iterable[Value | None], slots: tuple[Slot, ...], since: int
) -> Iterable[str]:
    for place, value in enumerate(values):
        slot = slot_of(slots, place)
        if value is None or slot is None or not slot.types:
            continue
        text = type_text(value.type)
        if text not in slot.types:
            yield f"{slot.name!r} cannot be {text} at opset {since}"
