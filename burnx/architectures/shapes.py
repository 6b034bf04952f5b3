"""What a template may ask of the tensors of a checkpoint: names and shapes, never values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NoReturn

import numpy as np

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


def far_buckets(buckets: int, max_distance: int) -> list[int]:
    """From which distances on the next bucket is meant: half are one distance each, the others grow like logarithms.

    Source: transformers, T5Attention._relative_position_bucket, in float32 as there
    """
    exact = buckets // 2
    distances = np.arange(exact, max(max_distance, exact) + 2, dtype=np.float32)
    growth = np.log(distances / np.float32(exact)) / np.float32(math.log(max_distance / exact))
    places = np.minimum((growth * (buckets - exact)).astype(np.int64), buckets - exact - 1)
    return [int(exact + np.argmax(places >= place)) for place in range(1, int(places.max()) + 1)]


def functions(found: Mapping[str, Shape]) -> dict[str, Any]:
    """The names under which templates know all this."""
    shapes = Shapes(found)
    return {
        "has": shapes.has,
        "shape": shapes.shape,
        "places": shapes.places,
        "count": shapes.count,
        "refuse": refuse,
        "far_buckets": far_buckets,
        "runs": runs,
        "zip": zip,
        "max": max,
        "min": min,
    }
