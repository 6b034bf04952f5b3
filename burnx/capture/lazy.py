"""Plain calls: operators are noted as they are called and carried out when a value is asked for."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from burnx.capture.recorder import GraphRecorder
from burnx.dtype import as_array
from burnx.graph import Graph, Node, Value, constant_value, uses
from burnx.lowering import lower
from burnx.ops import operator as operator_module
from burnx.runtime.device import Device, find_device, prepare
from burnx.shape import Shape
from burnx.tensor import Array, Tensor
from burnx.types import OptionalType, TensorType


@dataclass(slots=True, eq=False)
class LazyRecorder(GraphRecorder):
    """Keeps no graph: a value knows the node that gives it until it is worked out.

    ``where`` is the device that does so, by default that of ``BURNX_DEVICE``.
    """

    where: Device | None = None

    @property
    def depth(self) -> int:
        return -1

    def add(self, node: Node) -> None:
        """Nothing holds a node but its outputs."""

    def settle(self, value: Value) -> None:
        """Sizes are numbers here."""

    def shape_of(self, tensor: Tensor) -> Shape:
        kind = tensor.ref.type
        if isinstance(kind, TensorType):
            if kind.shape is not None and all(isinstance(dim, int) for dim in kind.shape):
                return kind.shape
            return self.value_of(tensor, "its shape").shape
        return GraphRecorder.shape_of(self, tensor)

    def value_of(self, tensor: Tensor, reason: str) -> Array:
        self.work_out([tensor.ref])
        result = tensor.ref.array
        assert result is not None or isinstance(tensor.ref.type, OptionalType)
        return result  # type: ignore[return-value]  # an empty optional is worth None

    def work_out(self, values: Sequence[Any]) -> None:
        """Compute values, together, and let go of the nodes they came from."""
        missing = [value for value in dict.fromkeys(values) if not _is_known(value)]
        if not missing:
            return
        graph = Graph("call", outputs=missing, nodes=needed_nodes(missing))
        program = lower(graph, ())
        results = prepare(program, find_device(self.where))(())
        for value, result in zip(missing, results, strict=True):
            value.array, value.producer = result, None
            if isinstance(value.type, TensorType):
                value.type = constant_value(result).type


def _is_known(value: Value) -> bool:
    """Whether a value was computed; an empty optional then has no array, and nothing that gives it any more."""
    is_empty = isinstance(value.type, OptionalType) and value.producer is None
    return value.array is not None or is_empty


def needed_nodes(values: Sequence[Value]) -> list[Node]:
    """The nodes behind values, producers first."""
    done: dict[Node, None] = {}
    stack = [(value.producer, False) for value in reversed(values) if value.producer is not None]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            done.setdefault(node)
        elif node not in done:
            stack.append((node, True))
            stack.extend(
                (value.producer, False)
                for value in uses(node)
                if value.array is None and value.producer is not None
            )
    return list(done)


@lru_cache(maxsize=1)
def default_recorder() -> LazyRecorder:
    """The recorder of plain calls."""
    return LazyRecorder()


operator_module.DEFAULT_RECORDER[0] = default_recorder


def _as_pickled(given: Tensor) -> tuple[Any, ...]:
    return tensor, (given.numpy(),)


# tensors are pickled and copied as the arrays that they are worth
copyreg.pickle(Tensor, _as_pickled)


def tensor(value: Any) -> Tensor:
    """A value given by a caller as a tensor, which keeps it as it is now."""
    if isinstance(value, Tensor):
        return value
    return default_recorder().constant(operator_module.own_array(as_array(value)))
