"""Linear layers: products with a constant matrix, and a bias added to them."""

from __future__ import annotations

from dataclasses import dataclass

from burnx.dtype import FLOATS
from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.editing import Editor
from burnx.passes.rewriting import Match, rewrite, rewrite_graph


@dataclass(frozen=True, slots=True)
class Factor:
    """The constant matrix of a product: ``is_turned`` if it stands as (out, in); and the bias of a Gemm."""

    matrix: Value
    is_turned: bool
    bias: Value | None = None

    @property
    def size(self) -> int:
        """How many outputs the product has."""
        assert self.matrix.array is not None
        return int(self.matrix.array.shape[0 if self.is_turned else 1])


def lift_linear(graph: Graph) -> int:
    turned: dict[Value, Value] = {}

    @rewrite("MatMul", "Gemm")
    def product(node: Node, match: Match) -> Value | None:
        """x W + b = linear(x, W^T, b)"""
        factor = _factor(node)
        if factor is None:
            return None
        weight = factor.matrix if factor.is_turned else _turn(factor.matrix, match.editor, turned)
        bias = [] if factor.bias is None else [factor.bias]
        return (
            match.make("Linear", node.inputs[0], weight, *bias, domain="burnx") if weight else None
        )

    return rewrite_graph(graph, product, _biased)


@rewrite("Add")
def _biased(node: Node, match: Match) -> Value | None:
    """linear(x, W) + b = linear(x, W, b)"""
    for place in (0, 1):
        inner = match.inner(node.inputs[place], "Linear", "burnx")
        bias = node.inputs[1 - place]
        if inner is None or len(inner.inputs) != 2 or bias is None or bias.array is None:
            continue
        x, weight = inner.inputs
        if weight is not None and weight.array is not None:
            if bias.array.shape == weight.array.shape[:1]:
                return match.make("Linear", x, weight, bias, domain="burnx", like=inner)
    return None


def _factor(node: Node) -> Factor | None:
    """The constant matrix that a node multiplies with, if a linear layer can say what it does."""
    if node.domain or node.operator not in ("MatMul", "Gemm") or node.inputs[0] is node.inputs[1]:
        return None
    matrix, is_turned = _matrix(node.inputs[1])
    if matrix is None:
        return None
    if node.operator == "MatMul":
        return Factor(matrix, is_turned)
    given = node.attributes
    if given.get("alpha", 1.0) != 1 or given.get("beta", 1.0) != 1 or given.get("transA", 0):
        return None
    factor = Factor(
        matrix,
        is_turned != bool(given.get("transB", 0)),
        node.inputs[2] if len(node.inputs) > 2 else None,
    )
    if factor.bias is None:
        return factor
    return factor if _shape(factor.bias) == (factor.size,) else None


def _matrix(value: Value | None) -> tuple[Value | None, bool]:
    """The constant behind an operand, and whether it is transposed on the way."""
    is_turned = False
    node = value.producer if value is not None else None
    if node is not None and is_turning(node):
        value, is_turned = node.inputs[0], True
    if value is None or value.array is None or value.array.ndim != 2:
        return None, False
    return (value, is_turned) if value.array.dtype in FLOATS else (None, False)


def is_turning(node: Node) -> bool:
    """Whether a node transposes a constant matrix."""
    source = node.inputs[0] if node.operator == "Transpose" and not node.domain else None
    if source is None or source.array is None or source.array.ndim != 2:
        return False
    return list(node.attributes.get("perm") or (1, 0)) == [1, 0]


def _shape(value: Value) -> tuple[int, ...] | None:
    return None if value.array is None else value.array.shape


def _turn(matrix: Value, editor: Editor, turned: dict[Value, Value]) -> Value | None:
    """The transpose of a matrix, once for all its uses; None if something needs it as it stands."""
    if matrix not in turned:
        for user in editor.users[matrix]:
            factor = _factor(user)
            if factor is None or factor.matrix is not matrix or factor.is_turned:
                return None
        if editor.results.get(matrix):
            return None
        assert matrix.array is not None
        turned[matrix] = constant_value(matrix.array.T, matrix.name)
    return turned[matrix]
