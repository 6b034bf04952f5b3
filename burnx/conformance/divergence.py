"""The first node at which two engines part.

Every node's outputs become outputs of a copy of the model; both engines run that copy; the first node in topological
order that differs though all it reads agreed is the one to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from burnx.agreement.tolerance import Difference, close
from burnx.conformance.engines import Run, first_line

_INLINE_BYTES = 1 << 30
_RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """What is needed of one node: how to name it, what it reads and what it gives."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f'node "{self.name or next(iter(self.outputs), "")}" ({self.operator})'


@dataclass(frozen=True, slots=True)
class Divergence:
    """A node whose output differs although its inputs agree; ``output`` is the one that does."""

    step: Step
    output: str
    difference: Difference

    def __str__(self) -> str:
        text = f"first diverging: {self.step}, output {self.output!r}: {self.difference}"
        drawn = "; it draws random numbers" if self.step.operator in _RANDOM else ""
        return text + drawn


Limits = tuple[float | None, float | None]


def find_divergence(
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    steps: list[Step],
    limits: Limits = (None, None),
) -> Divergence | None:
    """The first step with an output that differs and no input that does; values by name."""
    apart: set[str] = set()
    for step in steps:
        for name in step.outputs:
            if name not in expected or name not in actual:
                continue
            difference = close(expected[name], actual[name], *limits)
            if difference is None:
                continue
            if apart.isdisjoint(step.inputs):
                return Divergence(step, name, difference)
            apart.add(name)
    return None


def write_opened_copy(path: str, folder: str) -> tuple[str, list[Step]]:
    """A copy of a model that gives the output of every node of its graph, and those nodes in order."""
    model = onnx.load(path)
    steps = list(sorted_steps(model.graph))
    types = _value_types(model)
    given = {output.name for output in model.graph.output}
    for step in steps:
        for name in step.outputs:
            if name not in given:
                given.add(name)
                model.graph.output.append(types.get(name) or onnx.ValueInfoProto(name=name))
    copy = str(Path(folder) / "opened.onnx")
    large = model.ByteSize() > _INLINE_BYTES
    onnx.save_model(model, copy, save_as_external_data=large)
    return copy, steps


def sorted_steps(graph: onnx.GraphProto) -> Iterator[Step]:
    """The nodes of a graph such that each comes after what it reads; files need not keep to that."""
    waiting = [_step(node) for node in graph.node]
    unmade = {name for step in waiting for name in step.outputs}
    while waiting:
        ready = [step for step in waiting if unmade.isdisjoint(step.inputs)]
        if not ready:
            yield from waiting
            return
        later = []
        for step in waiting:
            if unmade.isdisjoint(step.inputs):
                unmade.difference_update(step.outputs)
                yield step
            else:
                later.append(step)
        waiting = later


def explain(
    path: str,
    folder: str,
    runs: tuple[Callable[[str], Run], Callable[[str], Run]],
    inputs: Mapping[str, Any],
    limits: Limits,
) -> tuple[Divergence | None, str]:
    """The first diverging node of a file, and a sentence that names it or says why there is none."""
    try:
        copy, steps = write_opened_copy(path, folder)
        expected, actual = (opened(copy)(inputs) for opened in runs)
    except Exception as error:  # the copy is ours: a failure here must not hide the mismatch
        return None, f"the first diverging node could not be found: {first_line(error)}"
    found = find_divergence(expected, actual, steps, limits)
    if found is None:
        return None, (
            "no node differs when every node's output is kept: the difference comes from an "
            "engine's fusing, or from small errors that add up"
        )
    return found, str(found)


def _step(node: onnx.NodeProto) -> Step:
    reads = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            reads |= dict.fromkeys(_captured(graph))
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return Step(node.name, operator, tuple(reads), tuple(name for name in node.output if name))


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of outer values that a subgraph uses."""
    inner = {value.name for value in (*graph.input, *graph.initializer)}
    inner |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (name for name in _step(node).inputs if name not in inner)
    yield from (value.name for value in graph.output if value.name not in inner)


def _value_types(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Declared and inferred types by name; what the checker's inference cannot tell is not there."""
    declared = {value.name: value for value in model.graph.value_info}
    if model.ByteSize() > _INLINE_BYTES:
        return declared
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:  # inference is a help here, never a verdict
        return declared
    return declared | {value.name: value for value in inferred.graph.value_info}
