"""What a device does at its best, as measured: how far a kernel is from that.

Source: Williams, Waterman and Patterson 2009, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from burnx.runtime.tuning.store import Store


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bytes that a copy moves, and operations that a chain of multiply-adds makes, in a second.

    ``matrices`` are those of matrix units, by the dtype of what they multiply.
    """

    bytes_per_s: float
    flops_per_s: float
    matrices: Mapping[str, float] = field(default_factory=dict)

    def least_ns(self, size_bytes: int, flops: int, dtype: str = "") -> float:
        """What a kernel takes that does nothing but move so many bytes, or make so many operations."""
        peak = self.matrices.get(dtype, self.flops_per_s)
        moving = size_bytes / self.bytes_per_s if self.bytes_per_s > 0 else 0.0
        working = flops / peak if peak > 0 else 0.0
        return max(moving, working) * 1e9

    def fraction(self, elapsed_ns: int, size_bytes: int, flops: int, dtype: str = "") -> float:
        """How near to its roofline a kernel came; 0 if it took no time that could be measured."""
        return self.least_ns(size_bytes, flops, dtype) / elapsed_ns if elapsed_ns > 0 else 0.0


def find_roofline(store: Store, measure: Callable[[], Roofline], *key: Any) -> Roofline:
    """A device's roofline: the best of what each process has measured once that asked for it.

    A device that is busy with other work comes out too slow, and never too fast.
    """
    kept = _read(store.find("roofline", *key))
    if kept is not None and store.is_fresh("roofline", *key):
        return kept
    found = measure() if kept is None else _best(kept, measure())
    store.keep(asdict(found), "roofline", *key)
    return found


def _read(found: Any) -> Roofline | None:
    try:
        numbers = {str(name): float(value) for name, value in found["matrices"].items()}
        return Roofline(float(found["bytes_per_s"]), float(found["flops_per_s"]), numbers)
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def _best(one: Roofline, two: Roofline) -> Roofline:
    names = {**one.matrices, **two.matrices}
    return Roofline(
        max(one.bytes_per_s, two.bytes_per_s),
        max(one.flops_per_s, two.flops_per_s),
        {name: max(one.matrices.get(name, 0.0), two.matrices.get(name, 0.0)) for name in names},
    )
