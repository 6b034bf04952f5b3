"""What a template may ask of the tensors of a checkpoint: names and shapes, never values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NoReturn

from burnx.errors import UnsupportedError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes by the names inside the model."""

    found: Mapping[str, Shape]

    def has(self, name: str) -> bool:
        """Whether there is a tensor, or a module, of this name."""
        return name in self.found or any(each.startswith(f"{name}.") for each in self.found)

    def shape(self, name: str) -> Shape:
        """Raises: UnsupportedError if there is no such tensor."""
        if name not in self.found:
            raise UnsupportedError(f"the family has a tensor {name!r}, the checkpoint has none")
        return self.found[name]

    def places(self, prefix: str) -> list[int]:
        """The numbers under a name, in order."""
        pattern = re.compile(re.escape(prefix + "." if prefix else "") + r"([0-9]+)\.")
        matches = (pattern.match(name) for name in self.found)
        return sorted({int(match.group(1)) for match in matches if match})

    def count(self, prefix: str) -> int:
        """How many numbered modules there are under a name.

        Raises: UnsupportedError if their numbers leave a gap.
        """
        found = self.places(prefix)
        if found != list(range(len(found))):
            raise UnsupportedError(f"the modules under {prefix!r} are numbered with gaps: {found}")
        return len(found)


def refuse(reason: str) -> NoReturn:
    """Leave a template that cannot write this model."""
    raise UnsupportedError(reason)


def runs(calls: Iterable[str]) -> list[str]:
    """Calls as items of a list, equal ones that follow each other as one item."""
    items = []
    for call, group in groupby(calls):
        count = sum(1 for _ in group)
        items.append(call if count == 1 else f"*({call} for _ in range({count}))")
    return items


def functions(found: Mapping[str, Shape]) -> dict[str, Any]:
    """The names under which templates know all this."""
    shapes = Shapes(found)
    return {
        "has": shapes.has,
        "shape": shapes.shape,
        "places": shapes.places,
        "count": shapes.count,
        "refuse": refuse,
        "runs": runs,
        "zip": zip,
        "max": max,
        "min": min,
    }
