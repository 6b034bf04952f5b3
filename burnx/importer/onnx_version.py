"""Which operator a node means, given the opset its file imports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from burnx.errors import UnsupportedError
from burnx.ops import find
from burnx.ops.operator import Operator


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """An operator as of some opset: ``function`` is its old form, None where today's means the same.

    ``ignored`` are attributes of old files that mean nothing.
    """

    operator: Operator
    function: Callable[..., Any] | None
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
    if not older:
        return Version(entry, None, entry.attributes, entry.takes_count)
    function = entry.upgrades[min(older)]
    parameters = inspect.signature(function).parameters
    names = {
        name: each.default for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY
    }
    return Version(entry, function, names, "outputs" in parameters)
