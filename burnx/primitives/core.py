"""What a primitive is, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.types import Type

Array = np.ndarray[Any, Any]
Infer = Callable[..., Type | tuple[Type, ...]]
Evaluate = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """One of the few operations that a device must know.

    ``infer(*types, **attributes)`` gives the output types; a size of None is only known while running.
    ``evaluate(*arrays, **attributes)`` is the NumPy meaning.  ``symbolic`` primitives also evaluate on object arrays
    of dimensions.  ``pure`` ones may be folded and merged.
    """

    name: str
    infer: Infer
    evaluate: Evaluate
    symbolic: bool = False
    pure: bool = True


PRIMITIVES: dict[str, Primitive] = {}


def primitive(
    name: str, infer: Infer, *, symbolic: bool = False, pure: bool = True
) -> Callable[[Evaluate], Evaluate]:
    """Register a function as the NumPy meaning of the primitive ``name``."""

    def register(evaluate: Evaluate) -> Evaluate:
        PRIMITIVES[name] = Primitive(name, infer, evaluate, symbolic, pure)
        return evaluate

    return register
