"""Plain calls: operators are noted as they are called and carried out when a value is asked for."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from burnx.capture.recorder import GraphRecorder
from burnx.dtype import as_array
from burnx.graph import KNOWN_ELEMENTS, Graph, Node, Value, uses
from burnx.lowering import lower
from burnx.ops import operator as operator_module
from burnx.runtime.device import Device, enter, find_device, prepare
from burnx.runtime.device_array import DeviceArray, find_place
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
            found: Shape = self.held(tensor).shape
            return found
        return GraphRecorder.shape_of(self, tensor)

    def value_of(self, tensor: Tensor, reason: str) -> Array:
        value: Value = tensor.ref  # type: ignore[assignment]
        self.work_out([value])
        if value.array is None and value.held is not None:
            copied: Array = value.held.numpy()
            return copied
        assert value.array is not None or isinstance(value.type, OptionalType)
        return value.array  # type: ignore[return-value]  # an empty optional is worth None

    def held(self, tensor: Tensor) -> Any:
        """The value of a tensor as an array where it lies."""
        value: Value = tensor.ref  # type: ignore[assignment]
        self.work_out([value])
        return self.value_of(tensor, "its value") if value.held is None else value.held

    def work_out(self, values: Sequence[Any]) -> None:
        """Compute values, together, and let go of the nodes they came from."""
        missing = [value for value in dict.fromkeys(values) if not _is_known(value)]
        if not missing:
            return
        where, nodes = find_device(self.where), needed_nodes(missing)
        given = list(_given_to(nodes, where))
        graph = Graph("call", given, missing, nodes=nodes)
        program = lower(graph, [value.type for value in given])
        arrays = [
            value.array if value.held is None else enter("", value.held, where) for value in given
        ]
        for value, result in zip(missing, prepare(program, where)(arrays), strict=True):
            value.producer = None
            if isinstance(result, DeviceArray):
                value.held = result
            else:
                value.array = result
            if isinstance(value.type, TensorType):
                value.type = TensorType(result.dtype, result.shape)


def _is_known(value: Value) -> bool:
    """Whether a value was computed; an empty optional then has no array, and nothing that gives it any more."""
    is_empty = isinstance(value.type, OptionalType) and value.producer is None
    return value.array is not None or value.held is not None or is_empty


def _given_to(nodes: Sequence[Node], where: Device) -> dict[Value, None]:
    """What nodes read that is given to the program: what lies on a device, and nowhere else.

    For a device with a driver large arrays, too: with constants the program would be worked out before it gets there.
    """
    read = (value for node in nodes for value in uses(node))
    found = {value: None for value in read if value.held is not None and value.array is None}
    if ":" in where.name:
        direct = (value for node in nodes for value in node.inputs if value is not None)
        found |= {value: None for value in direct if _is_large(value)}
    return found


def _is_large(value: Value) -> bool:
    array = value.array
    return (
        isinstance(value.type, TensorType)
        and array is not None
        and array.size > KNOWN_ELEMENTS
        and array.dtype.kind != "O"
    )


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


@lru_cache(maxsize=64)
def recorder_on(name: str) -> LazyRecorder:
    """The recorder of plain calls on the device of this name."""
    return LazyRecorder(where=find_device(name))


operator_module.DEFAULT_RECORDER[0] = default_recorder


def _as_pickled(given: Tensor) -> tuple[Any, ...]:
    return tensor, (given.numpy(),)


# tensors are pickled and copied as the arrays that they are worth
copyreg.pickle(Tensor, _as_pickled)


def tensor(value: Any) -> Tensor:
    """A value given by a caller as a tensor, which keeps it as it is now; what lies on a device stays there."""
    if isinstance(value, Tensor):
        return value
    place = find_place(value)
    if place is not None and not isinstance(value, DeviceArray):
        value = enter("", value, find_device(place)).copy()
        value.driver.finish()  # its owner may write to it from now on
    if isinstance(value, DeviceArray):
        return held_tensor(value)
    return default_recorder().constant(operator_module.own_array(as_array(value)))


def held_tensor(array: DeviceArray) -> Tensor:
    """A tensor of what lies on a device, where plain calls with it are carried out."""
    kind = TensorType(array.dtype, array.shape)
    return Tensor(recorder_on(array.device), Value(kind, held=array))
