"""Generated cases, damaged: what burnx and onnxruntime make of a node that does not fit its definition.

    python tests/unit/damaged_nodes.py [-k REGEX] [--other]

Each case of the newest version of an operator is damaged in every way of ``damages``: inputs that are missing, of
another rank, size or dtype, attributes out of their domain.  burnx gives a result, the same as onnxruntime where that
gives one as well, or an error in its own words.  ``--other`` asks onnxruntime too, and prints where only one of both gives a result.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper

import burnx
from burnx.agreement.tolerance import close
from burnx.conformance.cases.collect import Case, all_cases
from burnx.conformance.cases.models import case_inputs, case_model
from burnx.conformance.engines import first_line, open_onnxruntime
from burnx.conformance.workers import Task, run_tasks
from burnx.dtype import code_of_dtype
from burnx.errors import BurnxError
from burnx.ops import find

FOREIGN = re.compile(
    r"Error: |tuple index|index out of range|to unpack|could not broadcast|operands could not|unhashable|list assignment"
    r"|not subscriptable|has no attribute|NoneType|numpy|object is not|unsupported operand|unexpected keyword|positional"
    r"|array with|cannot reshape array|invalid literal|np\.|list index|zero-size array|math domain|division by zero"
    r"|must be real|can't multiply|matmul: |negative dimensions|not iterable|<class|burnx/|None, "
)
Inputs = dict[str, Any]
ENDLESS = {("Loop", "M")}
"""Inputs without which a legal node never ends."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A case's node with one thing changed, and the values of its inputs."""

    name: str
    model: ModelProto
    inputs: Inputs


@cache
def chosen_cases() -> tuple[Case, ...]:
    """One case for every recipe of the newest version of every operator, of float32 where there is one."""
    newest: dict[str, int] = {}
    for case in all_cases():
        newest[case.schema.operator] = max(newest.get(case.schema.operator, 0), case.schema.since)
    found: dict[tuple[str, str], Case] = {}
    for case in all_cases():
        if case.schema.since == newest[case.schema.operator]:
            key = (case.schema.operator, re.sub(r"_[^_]+_[a-z0-9]+$", "", case.name))
            if key not in found or case.dtype == "float32" != found[key].dtype:
                found[key] = case
    return tuple(found.values())


def damages(case: Case) -> Iterator[Damage]:
    """The case in every state that it can be damaged to."""
    model, inputs = case_model(case), case_inputs(case)
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            for what, changed in _arrays(value):
                yield Damage(f"{name} {what}", *_with_input(model, inputs, name, changed))
        if (case.schema.op_type, name) not in ENDLESS:
            yield Damage(f"{name} missing", *_without_input(model, inputs, name))
    node = model.graph.node[0]
    for attribute in node.attribute:
        for what, settings in _settings(attribute):
            changed = _changed(node, attribute.name, settings)
            yield Damage(f"{attribute.name} {what}", _with_node(model, changed), inputs)
    for name, kind in _absent(case, node):
        changed = _changed(node, name, _ABSENT[kind])
        yield Damage(f"{name} {_ABSENT[kind]}", _with_node(model, changed), inputs)


def _arrays(value: Any) -> Iterator[tuple[str, Any]]:
    yield "deeper", value[None]
    if value.ndim:
        if len(value):
            yield "flatter", np.asarray(value[0], value.dtype)
        yield "empty", value[:0]
        yield "shorter", np.ascontiguousarray(value[..., :-1])
    if value.ndim > 1:
        yield "thin", np.ascontiguousarray(value[..., :0])
        if value.size:
            yield "scalar", value.reshape(-1)[0:1].reshape(())
    other = np.float32 if value.dtype != np.float32 else np.float64
    try:
        yield "of another dtype", value.astype(other)
    except (TypeError, ValueError):  # text that is no number
        yield "of another dtype", np.zeros(value.shape, other)
    if value.dtype.kind in "iu" and value.size:
        yield "negative", (np.zeros_like(value) - 1)
        yield "large", np.full_like(value, 100)


def _settings(attribute: AttributeProto) -> Iterator[tuple[str, Any]]:
    """What an attribute becomes; None leaves it out."""
    yield "left out", None
    value = helper.get_attribute_value(attribute)
    kind = AttributeProto.AttributeType.Name(attribute.type)
    if kind == "INT":
        yield from ((str(number), number) for number in (-1, 0, 2, 99, -99))
    elif kind == "FLOAT":
        yield from ((str(number), number) for number in (-1.0, 0.0, float("nan")))
    elif kind == "STRING":
        yield "nonsense", "nonsense"
    elif kind in ("INTS", "FLOATS", "STRINGS"):
        yield "shorter", list(value)[:-1]
        yield "longer", [*value, *value[:1]]
    if kind == "INTS":
        yield from ((f"of {number}", [number] * len(value)) for number in (-1, 0, 99))


_ABSENT: dict[str, Any] = {
    "int": -3,
    "float": -1.0,
    "str": "nonsense",
    "bool": 1,
    "Sequence[int]": [1] * 5,
    "Sequence[float]": [0.5],
}


def _absent(case: Case, node: NodeProto) -> Iterator[tuple[str, str]]:
    """The attributes of the operator that the node does not have, and their kinds."""
    there = {attribute.name for attribute in node.attribute}
    operator = find(case.schema.domain, case.schema.op_type)
    parameters = inspect.signature(operator.function).parameters
    for name in sorted((case.schema.attributes - there) & set(operator.attributes)):
        kind = str(parameters[name].annotation).split(" |")[0]
        if kind in _ABSENT:
            yield name, kind


def _changed(node: NodeProto, name: str, setting: Any) -> NodeProto:
    result = NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    result.attribute.extend(each for each in node.attribute if each.name != name)
    if setting is not None:
        kind = next((each.type for each in node.attribute if each.name == name), None)
        result.attribute.append(helper.make_attribute(name, setting, attr_type=kind))
    return result


def _with_node(model: ModelProto, node: NodeProto) -> ModelProto:
    result = ModelProto()
    result.CopyFrom(model)
    result.graph.node[0].CopyFrom(node)
    for output in result.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return result


def _with_input(
    model: ModelProto, inputs: Inputs, name: str, value: Any
) -> tuple[ModelProto, Inputs]:
    result = _with_node(model, model.graph.node[0])
    for entry in result.graph.input:
        if entry.name == name:
            code = code_of_dtype(value.dtype)
            entry.CopyFrom(helper.make_tensor_value_info(name, code, value.shape))
    return result, inputs | {name: value}


def _without_input(model: ModelProto, inputs: Inputs, name: str) -> tuple[ModelProto, Inputs]:
    result = _with_node(model, model.graph.node[0])
    kept = [entry for entry in result.graph.input if entry.name != name]
    del result.graph.input[:]
    result.graph.input.extend(kept)
    node = result.graph.node[0]
    names = ["" if each == name else each for each in node.input]
    while names and not names[-1]:
        names.pop()
    del node.input[:]
    node.input.extend(names)
    return result, {key: value for key, value in inputs.items() if key != name}


# ---------------------------------------------------------------------------------------- asking
def run_burnx(damage: Damage, device: str = "reference") -> tuple[Any, str]:
    """(outputs, ""), or (None, the error)."""
    try:
        loaded = burnx.load(damage.model.SerializeToString(), device=device)
        return list(loaded.run(damage.inputs).values()), ""
    except BurnxError as error:
        return None, str(error)


def run_other(damage: Damage) -> tuple[Any, str]:
    try:
        return list(open_onnxruntime(damage.model.SerializeToString())(damage.inputs).values()), ""
    except Exception as error:  # its error types are not public
        return None, first_line(error)


def fault_of(message: str, operator: str) -> str:
    """What is wrong with an error message, empty if nothing is."""
    if found := FOREIGN.search(message):
        return f"says {found[0]!r}"
    if operator not in message:
        return "does not name the operator"
    return ""


def _differs(left: list[Any], right: list[Any]) -> str:
    for place, (one, other) in enumerate(zip(left, right, strict=True)):
        if difference := close(one, other):
            return f"output {place}: {difference}"
    return ""


def _ask(
    cases: list[Case],
    other: bool,
    task: Task,
    start: Callable[[str], None],
    finish: Callable[[str, tuple[Any, str]], None],
) -> None:
    found: Mapping[str, Damage] = {each.name: each for each in damages(cases[task.number])}
    for step in task.steps:
        start(step)
        who, _, name = step.partition(": ")
        ask = run_burnx if who == "burnx" else run_other
        finish(step, ask(found[name]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="pattern", default="")
    parser.add_argument("--other", action="store_true")
    options = parser.parse_args()
    cases = [case for case in chosen_cases() if re.search(options.pattern, case.name)]
    who = ("burnx", "onnxruntime") if options.other else ("burnx",)
    tasks = [
        Task(number, tuple(f"{one}: {each.name}" for each in damages(case) for one in who))
        for number, case in enumerate(cases)
    ]

    def labour(task: Task, start: Any, finish: Any) -> None:
        _ask(cases, options.other, task, start, finish)

    answers: dict[tuple[int, str], tuple[Any, str]] = {}
    for step in run_tasks(tasks, labour, 1, 20):
        answers[step.number, step.step] = step.result or (None, f"{step.failure} of the process")
    print(f"{len(cases)} cases, {sum(len(task.steps) for task in tasks) // len(who)} damages")
    for (number, step), (outputs, message) in answers.items():
        engine, _, name = step.partition(": ")
        if engine != "burnx":
            continue
        case = cases[number]
        given, said = answers.get((number, f"onnxruntime: {name}"), (None, ""))
        if outputs is None:
            fault = fault_of(message, case.schema.op_type)
            if fault:
                print(f"TEXT  {case.name}: {name}: {fault}: {message}")
            if given is not None:
                print(f"GAP   {case.name}: {name}: {message}")
        elif given is None and options.other:
            print(f"MORE  {case.name}: {name}: {[np.shape(each) for each in outputs]}: {said}")
        elif given is not None and (fault := _differs(given, outputs)):
            print(f"WRONG {case.name}: {name}: {fault}")


if __name__ == "__main__":
    main()
