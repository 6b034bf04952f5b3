"""Primitives that run other programs, and ``host``, which calls Python.

Their meaning needs whoever runs programs, so ``evaluate`` takes that as its first argument; see
``runtime/devices/reference``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnx.primitives.core import PRIMITIVES, Primitive
from burnx.types import Type


def _declared(*operands: Type, types: tuple[Type, ...], **attributes: Any) -> tuple[Type, ...]:
    return types


def _call_host(*arrays: Any, function: Callable[..., Any], types: Any, name: str) -> Any:
    return function(*arrays)


def _needs_runner(*arrays: Any, **attributes: Any) -> Any:
    raise TypeError("this primitive is carried out by whoever runs the program")


PRIMITIVES["host"] = Primitive("host", _declared, _call_host, pure=False)
for _name in ("cond", "loop", "defer"):
    PRIMITIVES[_name] = Primitive(_name, _declared, _needs_runner, pure=False)
