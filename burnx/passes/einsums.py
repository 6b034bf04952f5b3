"""Einsums of an attention, as Keras writes them: products whose axes stand in another order."""

from __future__ import annotations

from dataclasses import dataclass

from burnx.graph import Node, Value
from burnx.passes.rewriting import Match


@dataclass(frozen=True, slots=True)
class Product:
    """left @ right after a move of the axes of each; ``order`` are the axes of the result in terms of that product."""

    left: Value
    right: Value
    order: tuple[int, ...]


def read_product(match: Match, node: Node, left: Value | None = None) -> Product | None:
    """How a node is a product of matrices; the rows are those of ``left``, else those that come first."""
    if node.operator == "MatMul" and not node.domain:
        first, second = node.inputs
        if first is None or second is None or left not in (None, first):
            return None
        return Product(first, second, ())
    if node.operator != "Einsum" or node.domain or len(node.inputs) != 2:
        return None
    terms = _terms(node)
    operands = node.inputs
    if terms is None or operands[0] is None or operands[1] is None:
        return None
    *labels, result = terms
    is_turned = operands[1] is left if left is not None else result[-1] in labels[0]
    if is_turned:
        labels, operands = labels[::-1], operands[::-1]
    one, two = labels
    batch = [label for label in result if label in one and label in two]
    rows = [label for label in result if label not in two]
    columns = [label for label in result if label not in one]
    inner = [label for label in one if label not in result]
    if [len(each) for each in (batch, rows, columns, inner)] != [2, 1, 1, 1]:
        return None
    if set(one) != {*batch, *rows, *inner} or set(two) != {*batch, *columns, *inner}:
        return None
    moved_left = _moved(match, operands[0], one, [*batch, *rows, *inner])
    moved_right = _moved(match, operands[1], two, [*batch, *inner, *columns])
    if moved_left is None or moved_right is None:
        return None
    whole = [*batch, *rows, *columns]
    return Product(moved_left, moved_right, tuple(whole.index(label) for label in result))


def _terms(node: Node) -> tuple[str, str, str] | None:
    """The labels of both operands and of the result, each four different ones."""
    equation = str(node.attributes.get("equation", "")).replace(" ", "")
    operands, arrow, result = equation.partition("->")
    parts = operands.split(",")
    if not arrow or len(parts) != 2:
        return None
    terms = (parts[0], parts[1], result)
    is_plain = all(len(term) == 4 == len(set(term)) and term.isalpha() for term in terms)
    return terms if is_plain else None


def _moved(match: Match, value: Value | None, labels: str, wanted: list[str]) -> Value | None:
    perm = [labels.index(label) for label in wanted]
    if value is None or perm == [0, 1, 2, 3]:
        return value
    return match.put("Transpose", value, perm=perm)
