"""Which operator a node means, given the opset its file imports, and the call of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from burnx.capture.recorder import GraphRecorder
from burnx.errors import CallError, ModelError, UnsupportedError
from burnx.graph import Value
from burnx.ops import find
from burnx.ops.operator import Operator, Parameter, check_arity, inputs_of
from burnx.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """An operator as of some opset: ``function`` is its old form, None where today's means the same.

    ``name`` is what errors call it, ``ignored`` are attributes of old files that mean nothing.
    """

    name: str
    operator: Operator
    function: Callable[..., Any] | None
    inputs: tuple[Parameter, ...]
    attributes: Mapping[str, Any]
    takes_count: bool
    ignored: frozenset[str] = frozenset({"consumed_inputs", "is_test"})


@lru_cache(maxsize=4096)
def resolve(domain: str, op_type: str, opset: int) -> Version:
    """The form of an operator that a file of this opset means.

    Raises: UnsupportedError if burnx has no such operator, or it did not exist at that opset.
    """
    entry = find(domain, op_type)
    if opset < entry.since[0] and domain in ("", "ai.onnx.ml"):
        raise UnsupportedError(
            f"{entry.qualified} came with opset {entry.since[0]}, the file imports {opset}"
        )
    meant = max((since for since in entry.since if since <= opset), default=entry.since[0])
    older = [version for version in entry.upgrades if version >= meant]
    name = f"{entry.qualified} of opset {opset}"
    if not older:
        return Version(name, entry, None, entry.inputs, entry.attributes, entry.takes_count)
    function = entry.upgrades[min(older)]
    parameters = inspect.signature(function).parameters
    names = {
        name: each.default for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY
    }
    return Version(name, entry, function, inputs_of(function), names, "outputs" in parameters)


def call(
    version: Version,
    inputs: Sequence[Tensor | None],
    attributes: dict[str, Any],
    count: int,
    recorder: GraphRecorder,
) -> list[Tensor]:
    """Record what a version of an operator does; an old one in operators of today, as parts of its node.

    Raises: ModelError if an input or attribute is missing or too many.
    """
    defaults = {name: value for name, value in version.attributes.items() if name != "outputs"}
    try:
        check_arity(version.name, version.inputs, defaults, inputs, attributes)
    except CallError as error:
        raise ModelError(str(error)) from error
    if version.function is None:
        values = [None if item is None else cast(Value, item.ref) for item in inputs]
        while values and values[-1] is None:
            values.pop()
        return recorder.record(version.operator, values, attributes, count)
    attributes.pop("outputs", None)
    given = {**attributes, "outputs": count} if version.takes_count else attributes
    recorder.origin = recorder.place
    with recorder.ambient():
        result = version.function(*inputs, **given)
    recorder.origin = ""
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [
        item if isinstance(item, Tensor) else recorder.constant(np.asarray(item))
        for item in results
    ]
