"""What layers without a name are to attention and to the net behind it: ``q_proj``, ``o_proj``, ``up_proj``.

Quantization tools and older exporters lose names; what a projection is for, the graph still says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnx.graph import Node, Value
from burnx.structure.layer_reading import Layer

_ATTENTION = frozenset({"Attention", "GroupQueryAttention", "MultiHeadAttention"})
_SIDES = ("q_proj", "k_proj", "v_proj")
# what gives its first operand in another place or form, heads and positions included
_CARRYING = frozenset(
    [
        "Cast",
        "Expand",
        "FakeQuantize",
        "Identity",
        "LpNormalization",
        "RMSNormalization",
        "Reshape",
        "RotaryEmbedding",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)
_ACTIVATIONS = frozenset(
    [
        "Elu",
        "FastGelu",
        "Gelu",
        "HardSwish",
        "LeakyRelu",
        "Mish",
        "QuickGelu",
        "Relu",
        "Sigmoid",
        "Silu",
        "Swish",
        "Tanh",
    ]
)
_LINEAR = frozenset({"DynamicQuantLinear", "Linear", "LinearNBits", "QuantLinear"})
_NORMS = frozenset({"LayerNorm", "RMSNorm"})


def layer_roles(
    nodes: Sequence[Node], layers: Mapping[Node, Layer], users: Mapping[Value, set[Node]]
) -> dict[Node, str]:
    """The role of each layer that has one."""
    found = _Roles(layers, users)
    for node in nodes:
        if node.operator in _ATTENTION:
            found.name_sides(node)
    for node in nodes:
        if found.is_linear(node):
            found.name_by_source(node)
    for node in nodes:
        if node in layers and layers[node].kind in _NORMS:
            found.name_norm(node)
    found.name_head([node for node in nodes if found.is_linear(node)])
    return found.roles


@dataclass(slots=True)
class _Roles:
    layers: Mapping[Node, Layer]
    users: Mapping[Value, set[Node]]
    roles: dict[Node, str] = field(default_factory=dict)

    def is_linear(self, node: Node | None) -> bool:
        return node is not None and node in self.layers and self.layers[node].kind in _LINEAR

    def name_sides(self, attention: Node) -> None:
        """Where queries, keys and values come from; one layer for all of them is ``qkv_proj``."""
        sides = [_source(value) for value in attention.inputs[:3]]
        linear = [side for side in sides if side is not None and self.is_linear(side)]
        for side, role in zip(sides, _SIDES, strict=False):
            if side is not None and side in linear:
                is_all = linear.count(side) > 1
                self.roles.setdefault(side, "qkv_proj" if is_all else role)

    def name_by_source(self, node: Node) -> None:
        """What reads attention, and what makes a row wide and narrow again, gated or not."""
        source = _source(self.layers[node].inputs[0])
        if source is None:
            return
        if source.operator in _ATTENTION:
            self.roles.setdefault(node, "o_proj")
        elif source.operator == "Mul" and not source.domain:
            self._name_gated(node, source)
        elif source.operator in _ACTIVATIONS:
            up = _source(source.inputs[0])
            if up is not None and self._narrows_again(up, node):
                self._name_all({up: "up_proj", node: "down_proj"})

    def _name_gated(self, node: Node, product: Node) -> None:
        for gate, other in (product.inputs, product.inputs[::-1]):
            activation, up = _source(gate), _source(other)
            if activation is None or activation.operator not in _ACTIVATIONS:
                continue
            gating = _source(activation.inputs[0])
            if gating is not None and self.is_linear(gating) and up is not None:
                if self._narrows_again(up, node) and gating is not up:
                    self._name_all({gating: "gate_proj", up: "up_proj", node: "down_proj"})
                    return

    def _narrows_again(self, up: Node, down: Node) -> bool:
        """Whether two linear layers make a row wide, and as narrow as it was."""
        if not (self.is_linear(up) and self.is_linear(down)):
            return False
        (narrow, wide), given = self.layers[up].args, self.layers[down].args
        return bool(wide > narrow and given == (wide, narrow))

    def _name_all(self, roles: Mapping[Node, str]) -> None:
        for node, role in roles.items():
            self.roles.setdefault(node, role)

    def name_norm(self, node: Node) -> None:
        """What is read by the projections of attention, or of the net behind it, alone."""
        readers = self.users.get(node.outputs[0], set())
        roles = {self.roles.get(each, "") for each in readers if each.operator != "Shape"}
        if roles and roles <= {*_SIDES, "qkv_proj"}:
            self.roles[node] = "attention_norm"
        elif roles and roles <= {"gate_proj", "up_proj"}:
            self.roles[node] = "mlp_norm"

    def name_head(self, linear: Sequence[Node]) -> None:
        """The one of several linear layers whose result nothing in the model reads."""
        last = [node for node in linear if not self.users.get(node.outputs[0])]
        if len(last) == 1 and len(linear) > 1:
            self.roles.setdefault(last[0], "head")


def _source(value: Value | None) -> Node | None:
    """The node that a value comes from, what only moves it left out."""
    node = None if value is None else value.producer
    while node is not None and node.operator in _CARRYING and node.inputs[0] is not None:
        node = node.inputs[0].producer
    return node
