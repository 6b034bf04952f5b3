"""Devices compared with each other, two at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from burnx.agreement.tolerance import Difference
from burnx.conformance.verify import Comparison, Limits, Load, compare_outputs


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """Two devices: the outputs in which they differ, and the first node at which they part.

    ``notice`` is there if they differ by no more than the model's own roundings explain.
    """

    devices: tuple[str, str]
    differences: Mapping[str, Difference] = field(default_factory=dict)
    diverging: str = ""
    node: str = ""
    notice: str = ""

    @property
    def agrees(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {
            "devices": list(self.devices),
            "agrees": self.agrees,
            "differences": {name: str(item) for name, item in self.differences.items()},
            "node": self.node,
            "diverging": self.diverging,
            "notice": self.notice,
        }


@dataclass(slots=True)
class Keeper:
    """Opens models as ``load`` does, and keeps what ``source`` gives on each device."""

    source: str
    load: Load
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def open(self, model: str, device: str | None) -> Any:
        """A model that is ready to run; what the source gives is noted."""
        opened = self.load(model, device)
        return _Noting(self, opened) if model == self.source else opened


@dataclass(slots=True)
class _Noting:
    keeper: Keeper
    model: Any

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.model.run(inputs)
        self.keeper.outputs.setdefault(self.model.device.name, found)
        return found


def compare_devices(comparison: Comparison, kept: Keeper) -> tuple[PairVerdict, ...]:
    """The verdicts on all pairs of devices that gave outputs."""
    return tuple(_verdicts(comparison, kept, tuple(kept.outputs)))


def _verdicts(
    comparison: Comparison, kept: Keeper, devices: Sequence[str]
) -> Iterator[PairVerdict]:
    for pair in combinations(devices, 2):
        first, second = (kept.outputs[device] for device in pair)
        differences = compare_outputs(first, second, comparison.limits)
        if not differences:
            yield PairVerdict(pair)
            continue
        excused = comparison.excuse(differences, first, second)
        if excused:
            yield PairVerdict(pair, notice=excused)
            continue
        node, text = _explain(comparison, pair, comparison.limits)
        yield PairVerdict(pair, differences, comparison.explain(differences, text), node)


def _explain(comparison: Comparison, pair: tuple[str, str], limits: Limits) -> tuple[str, str]:
    """The name of the first node at which two devices part, and the sentence about it."""
    from burnx.conformance.divergence import explain

    def opened(device: str) -> Any:
        return lambda path: comparison.load(path, device).run

    runs = (opened(pair[0]), opened(pair[1]))
    with tempfile.TemporaryDirectory(prefix="burnx-") as folder:
        found, text = explain(comparison.path, folder, runs, dict(comparison.inputs), limits)
    return (found.step.name or found.output if found is not None else ""), text
