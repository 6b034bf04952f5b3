"""burnx against another engine, device by device."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnx.agreement.spread import SpreadOf, excuse, shortfall
from burnx.agreement.tolerance import Difference, close
from burnx.conformance.engines import (
    Judge,
    judge_model,
    open_onnxruntime,
    open_reference,
    plain_outputs,
)
from burnx.errors import BurnxError, VerifyError

Load = Callable[[str, str | None], Any]  # (model, device) -> loaded model
Limits = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class DeviceVerdict:
    """What one device gave: the outputs that differ, or the error it ended in.

    ``notice`` is there if it agrees with the nodes as they stand in the file, and not with what an optimiser made of
    them, or if it differs by no more than the model's own roundings explain.
    """

    device: str
    differences: Mapping[str, Difference] = field(default_factory=dict)
    diverging: str = ""
    node: str = ""
    error: str = ""
    notice: str = ""

    @property
    def agrees(self) -> bool:
        return not self.differences and not self.error


@dataclass(frozen=True, slots=True)
class Verdict:
    """The engine that burnx was compared with, and what each device gave."""

    judge: Judge
    outputs: tuple[str, ...]
    devices: tuple[DeviceVerdict, ...]

    @property
    def agrees(self) -> bool:
        return all(device.agrees for device in self.devices)

    def as_json(self) -> dict[str, Any]:
        return {
            "against": self.judge.name,
            "because": self.judge.why,
            "agrees": self.agrees,
            "outputs": list(self.outputs),
            "devices": {device.device: _device_json(device) for device in self.devices},
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model with its inputs, and how to open it.

    ``source`` is what burnx runs, ``path`` the ONNX file that the other engine does; they are the
    same file unless a model written in Python was exported first.
    """

    source: str
    path: str
    inputs: Mapping[str, Any]
    load: Load
    limits: Limits = (None, None)
    threads: int = 1
    spread: SpreadOf = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spread", SpreadOf(self.path, self.inputs))

    def excuse(
        self,
        differences: Mapping[str, Difference],
        expected: Mapping[str, Any],
        actual: Mapping[str, Any],
    ) -> str:
        """The sentence that says that outputs differ by rounding alone; empty if not, or where limits were asked for."""
        if self.limits != (None, None):
            return ""
        return excuse(list(differences), expected, actual, self.spread)

    def explain(self, differences: Mapping[str, Difference], text: str) -> str:
        """What is known of a difference, with how far rounding would have taken it."""
        told = "" if self.limits != (None, None) else shortfall(list(differences), self.spread)
        return f"{text}; {told}" if told else text


def verify_model(comparison: Comparison, devices: Sequence[str | None]) -> Verdict:
    """Compare burnx on every device with another engine; None is the default device.

    Raises: VerifyError if no other engine runs the model.
    """
    judge, expected = judge_model(comparison.path, comparison.inputs, comparison.threads)
    verdicts = tuple(_verify_on(comparison, device, judge, expected) for device in devices)
    return Verdict(judge, tuple(expected), verdicts)


def compare_outputs(
    expected: Mapping[str, Any], actual: Mapping[str, Any], limits: Limits = (None, None)
) -> dict[str, Difference]:
    """The outputs that differ, by name; outputs that one side does not have differ."""
    missing = Difference("there is no such output")
    found: dict[str, Difference] = {}
    for name in _union(expected, actual):
        if name not in expected or name not in actual:
            found[name] = missing
            continue
        difference = close(expected[name], actual[name], *limits)
        if difference is not None:
            found[name] = difference
    return found


def check_outputs(
    expected: Mapping[str, Any], actual: Mapping[str, Any], spread: SpreadOf, what: str
) -> str:
    """A sentence if outputs differ by no more than the roundings of the model explain, empty if they agree.

    ``what`` begins the message of the error.  Raises: VerifyError if they differ by more.
    """
    differences = compare_outputs(expected, actual)
    if not differences:
        return ""
    excused = excuse(list(differences), expected, actual, spread)
    if excused:
        return excused
    told = shortfall(list(differences), spread)
    first, difference = next(iter(differences.items()))
    raise VerifyError(f"{what}, output {first!r}: {difference}" + (f"; {told}" if told else ""))


def _verify_on(
    comparison: Comparison, device: str | None, judge: Judge, expected: Mapping[str, Any]
) -> DeviceVerdict:
    label = device or "default"
    try:
        model = comparison.load(comparison.source, device)
        actual = model.run(dict(comparison.inputs))
    except BurnxError as error:
        return DeviceVerdict(label, error=str(error))
    differences = compare_outputs(expected, actual, comparison.limits)
    if not differences:
        return DeviceVerdict(label)
    notice = _optimiser_notice(comparison, judge, actual, differences)
    excused = "" if notice else comparison.excuse(differences, expected, actual)
    if excused:
        notice = f"agrees with {judge.name} as nearly as rounding lets it: {excused}"
    if notice:
        return DeviceVerdict(label, notice=notice)
    node, text = _explained(comparison, device, judge)
    return DeviceVerdict(label, differences, comparison.explain(differences, text), node)


def _optimiser_notice(
    comparison: Comparison,
    judge: Judge,
    actual: Mapping[str, Any],
    differences: Mapping[str, Difference],
) -> str:
    """The sentence that says that burnx agrees with an engine that takes the nodes as they stand; empty if it does not."""
    if not judge.optimises:
        return ""
    for name, why, outputs in plain_outputs(comparison.path, comparison.inputs, comparison.threads):
        if not compare_outputs(outputs, actual, comparison.limits):
            return f"agrees with {name}; {why}: {differences_text(differences)}"
    return ""


def differences_text(differences: Mapping[str, Difference]) -> str:
    return "; ".join(f"output {name!r}: {item}" for name, item in differences.items())


def _explained(comparison: Comparison, device: str | None, judge: Judge) -> tuple[str, str]:
    """The name of the first diverging node, empty if there is none, and the sentence about it."""
    from burnx.conformance.divergence import explain

    def other(path: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        return open_reference(path) if judge.why else open_onnxruntime(path, comparison.threads)

    def own(path: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        run: Callable[[Mapping[str, Any]], dict[str, Any]] = comparison.load(path, device).run
        return run

    with tempfile.TemporaryDirectory(prefix="burnx-") as folder:
        inputs, limits = dict(comparison.inputs), comparison.limits
        found, text = explain(str(Path(comparison.path)), folder, (other, own), inputs, limits)
    return (found.step.name or found.output if found is not None else ""), text


def _device_json(device: DeviceVerdict) -> dict[str, Any]:
    return {
        "agrees": device.agrees,
        "differences": {
            name: {"message": str(item), "max_abs": item.max_abs, "max_rel": item.max_rel}
            for name, item in device.differences.items()
        },
        "node": device.node,
        "diverging": device.diverging,
        "error": device.error,
        "notice": device.notice,
    }


def _union(left: Iterable[str], right: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*left, *right]))
