"""What the other engines make of a case, and what is expected of burnx for it.

Each engine is asked once, as a step of its own that may crash; the answers lie in a folder and are read again for
every route and device.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import TypeProto, version_converter

from burnx.agreement.tolerance import close
from burnx.conformance.cases.collect import Case
from burnx.conformance.cases.disagreements import Disagreement, find_disagreement
from burnx.conformance.cases.models import case_inputs, case_model
from burnx.conformance.engines import Run, first_line, open_onnxruntime, open_reference, unboxed
from burnx.dtype import as_array, dtype_name, dtype_of_code

Outputs = tuple[Any, ...]
CONVERTED = "version converter"
_CONVERTED_OPSET = 18


def open_converted(model: bytes) -> Run:
    """A model brought to a newer opset by onnx's version converter, in onnxruntime, else in the reference evaluator."""
    newer = version_converter.convert_version(onnx.load_from_string(model), _CONVERTED_OPSET)
    try:
        return open_onnxruntime(newer.SerializeToString())
    except Exception:  # then the other one may have an implementation
        return open_reference(newer.SerializeToString())


ENGINES: Mapping[str, Callable[[bytes], Run]] = {
    "reference": open_reference,
    "onnxruntime": open_onnxruntime,
    CONVERTED: open_converted,
}
"""Who is asked, in this order; the converter only where the two others have no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outputs of an engine, or why there are none."""

    outputs: Outputs | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """The outputs that are right and who gave them; with ``doubt``, why none can be compared.

    ``because`` says why this engine is followed where the other gives something else.
    """

    outputs: Outputs
    judge: str = ""
    doubt: str = ""
    because: str = ""


def ask_engine(case: Case, engine: str, folder: Path) -> Answer:
    """Run the case on another engine and keep its answer; an answer that is there is taken."""
    path = _path(case, engine, folder)
    if path.exists():
        return _read(path)
    if engine == CONVERTED and _is_answered(case, folder):
        return Answer(None, "not needed")
    try:
        model = case_model(case)
        run = ENGINES[engine](model.SerializeToString())
        kinds = [value.type for value in model.graph.output]
        outputs = tuple(
            unboxed(kind, value)
            for kind, value in zip(kinds, run(case_inputs(case)).values(), strict=True)
        )
        answer = _checked(outputs, kinds)
    except Exception as error:  # whatever another engine raises is its answer
        answer = Answer(None, f"{type(error).__name__}: {first_line(error)}")
    path.write_bytes(pickle.dumps(answer))
    return answer


def _checked(outputs: Outputs, kinds: Sequence[TypeProto]) -> Answer:
    """An answer only if each tensor has the dtype that the schema says; an engine with another one computes something else."""
    for place, (value, kind) in enumerate(zip(outputs, kinds, strict=True)):
        if not kind.HasField("tensor_type"):
            continue
        wanted = dtype_name(dtype_of_code(kind.tensor_type.elem_type))
        array = as_array(value)
        found = dtype_name(array.dtype)
        if found != wanted:
            return Answer(
                None, f"it gives {found} for output {place}, where the schema says {wanted}"
            )
        if wanted == "string" and not all(isinstance(item, str) for item in array.flat):
            return Answer(None, f"it gives other things than strings for output {place}")
    return Answer(outputs)


def expected_outputs(case: Case, folder: Path) -> Expected:
    """What burnx is compared with, from the answers of the engines."""
    answers = {engine: _read(_path(case, engine, folder)) for engine in ENGINES}
    ran = {
        engine: answer.outputs for engine, answer in answers.items() if answer.outputs is not None
    }
    if not ran:
        reasons = "; ".join(f"{engine}: {answer.message}" for engine, answer in answers.items())
        return Expected((), doubt=f"not compared: no other engine runs it ({reasons})")
    engine, outputs = next(iter(ran.items()))
    problem = disagreement(*ran.values()) if len(ran) > 1 else None
    if len(ran) > 1 and problem is None:
        return Expected(outputs, "reference and onnxruntime")
    decided = find_disagreement(case.name)
    if decided is not None:
        return _decide(decided, ran)
    if problem is None:
        return Expected(outputs, engine)
    return Expected(
        (),
        doubt=f"not compared: reference and onnxruntime disagree, nothing decides it ({problem})",
    )


def disagreement(left: Outputs, right: Outputs) -> str | None:
    """The first difference between the outputs of two engines."""
    if len(left) != len(right):
        return f"{len(left)} outputs, {len(right)} outputs"
    for place, (one, other) in enumerate(zip(left, right, strict=True)):
        difference = close(one, other)
        if difference is not None:
            return f"output {place}: {difference}"
    return None


def _decide(decided: Disagreement, ran: Mapping[str, Outputs]) -> Expected:
    if decided.follows in ran:
        return Expected(ran[decided.follows], decided.follows, because=decided.why)
    return Expected((), doubt=f"not compared: {decided.why}")


def _is_answered(case: Case, folder: Path) -> bool:
    return any(_read(_path(case, engine, folder)).outputs is not None for engine in ENGINES)


def _path(case: Case, engine: str, folder: Path) -> Path:
    return folder / f"{case.name}.{engine}"


def _read(path: Path) -> Answer:
    """The answer in a file; an engine that left none ended its process."""
    if not path.exists():
        return Answer(None, "it ended its process or gave no answer in time")
    answer: Answer = pickle.loads(path.read_bytes())
    return answer
