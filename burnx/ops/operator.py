"""Operator: an ONNX operator as a Python function.

    @operator("LeakyRelu", since=(1, 6, 16))
    def leaky_relu(x: T, *, alpha: float = 0.01) -> T:
        return where(x >= 0, x, x * alpha)

The signature is the schema: positional parameters are inputs (``| None`` or a default of None: optional; ``*xs``:
variadic), keyword-only ones are attributes.  Annotations are names of the type variables of ``ops/kinds.py``: an
output has the dtype of the first input of the same variable.  The body is the lowering.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.dtype import DTYPES, DType, as_array
from burnx.errors import BurnxError, CallError, ModelError, UsageError
from burnx.ops.domain import Ranks, check_attributes, check_dtypes, check_ranks, domains_of, unfit
from burnx.tensor import Tensor, recorder_of
from burnx.types import TensorType, Type

REQUIRED = inspect.Parameter.empty
# what Python and NumPy raise where a body meets sizes that contradict each other
_UNFIT = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError)
# type variables that stand for one dtype only
FIXED: dict[str, DType] = {
    "Bool": DTYPES["bool"],
    "Int32": DTYPES["int32"],
    "Int64": DTYPES["int64"],
    "UInt8": DTYPES["uint8"],
    "Int8": DTYPES["int8"],
    "Float32": DTYPES["float32"],
    "String": DTYPES["string"],
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input or output: its name, type variable, and whether it may be left out or repeated."""

    name: str
    variable: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Limitation:
    """A declared gap: what of an operator burnx does not do, and why.

    ``tests`` is a regular expression over conformance test names.
    """

    operator: str
    reason: str
    tests: str = ""


@dataclass(slots=True, eq=False)
class Operator:
    """An operator: what it is called, what it takes, and its body.

    ``since`` lists the opset versions that changed it; ``outputs_given`` is how many outputs a plain call gives;
    a body that ``takes_count`` wants to know how many are asked for; one that is ``composite`` calls nothing but
    other operators, which are what is recorded.  ``ranks`` are those that inputs may have, ``domains`` those of
    attributes, ``arrays`` are attributes that hold one.
    """

    op_type: str
    domain: str
    since: tuple[int, ...]
    function: Callable[..., Any]
    inputs: tuple[Parameter, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[Parameter, ...]
    outputs_given: int
    upgrades: dict[int, Callable[..., Any]] = field(default_factory=dict)
    limitations: list[Limitation] = field(default_factory=list)
    type_rule: Callable[..., Sequence[Type]] | None = None
    body_rule: Callable[..., list[Type]] | None = None
    meaning_since: int = 0
    takes_count: bool = False
    composite: bool = False
    ranks: Ranks = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    arrays: frozenset[str] = frozenset()

    @property
    def __signature__(self) -> inspect.Signature:
        """What tools ask for that show how something is called."""
        return inspect.signature(self.function)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What help() shows of an object: nothing but this text."""
        text = f"{self.name}{self.__signature__}\n\n{self.function.__doc__ or ''}"
        return text.rstrip()

    @property
    def qualified(self) -> str:
        """The name with its domain: ``Relu``, ``com.microsoft.Gelu``."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def name(self) -> str:
        """The Python name."""
        return self.function.__name__

    def __repr__(self) -> str:
        return f"<operator {self.qualified}>"

    # ---------------------------------------------------------------- declaring
    def upgrade(self, from_version: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the operator as it was up to ``from_version``: a function with its old signature, written in
        the operators of today."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.upgrades[from_version] = function
            return function

        return register

    def infer(self, rule: Callable[..., Sequence[Type]]) -> Callable[..., Sequence[Type]]:
        """Register the types of the outputs where the body cannot say: ``rule(inputs, attributes, count)``."""
        self.type_rule = rule
        return rule

    def bodies(self, rule: Callable[..., list[Type]]) -> Callable[..., list[Type]]:
        """Register the types of what the graphs among the attributes are given: ``rule(inputs, attributes)``.

        Model code may then give functions in their place.
        """
        self.body_rule = rule
        return rule

    def limit(self, reason: str, tests: str = "") -> None:
        """Declare a gap."""
        self.limitations.append(Limitation(self.qualified, reason, tests))

    # ---------------------------------------------------------------- calling
    def __call__(self, *inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
        """Record or evaluate one call; ``outputs`` asks for optional outputs as well."""
        given, attributes = self._sorted_arguments(inputs, attributes)
        recorder = recorder_of(given)
        if recorder is None:
            recorder = DEFAULT_RECORDER[0]()
        operands = self._coerce(recorder, given)
        if hasattr(recorder, "emit"):
            if outputs and self.takes_count:
                attributes["outputs"] = outputs
            result = recorder.call(self, operands, attributes)
            return self._chosen(result, outputs)
        return recorder.call(self, operands, {**attributes, "outputs": outputs})

    def _sorted_arguments(
        self, inputs: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Inputs that were given by name take their place; attributes must be known."""
        names = [parameter.name for parameter in self.inputs]
        given = list(inputs)
        rest: dict[str, Any] = {}
        for name, value in attributes.items():
            if name in names and name not in self.attributes:
                place = names.index(name)
                given += [None] * (place + 1 - len(given))
                if given[place] is not None:
                    raise CallError(f"{self.name}() got input {name!r} twice")
                given[place] = value
            elif name in self.attributes:
                value = self._setting(name, value) if isinstance(value, Tensor) else value
                rest[name] = as_value(value) if name in self.arrays else value
            else:
                known = ", ".join([*names, *self.attributes])
                raise CallError(f"{self.name}() has no input or attribute {name!r}; it has {known}")
        self.check_arity(given, rest)
        return given, rest

    def _setting(self, name: str, value: Tensor) -> Any:
        """The attribute that a tensor with known values is: a list where the operator takes one, else an array."""
        held = getattr(value, "data", None)  # of a parameter, which is known while capturing too
        array = value.numpy() if held is None else held
        kind = inspect.signature(self.function).parameters[name].annotation
        return array.tolist() if str(kind).startswith("Sequence") else array

    def check_arity(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Raises: CallError unless every required input and attribute is there and no more than may be."""
        check_arity(f"{self.name}()", self.inputs, self.attributes, inputs, attributes)

    def variable_of(self, place: int) -> str:
        """The type variable of the input at ``place``."""
        return self.inputs[min(place, len(self.inputs) - 1)].variable

    def _coerce(self, recorder: Any, inputs: Sequence[Any]) -> list[Tensor | None]:
        """Numbers, lists and arrays become constants; a Python number takes its operands' dtype."""
        dtypes: dict[str, DType] = dict(FIXED)
        for place, value in enumerate(inputs):
            if isinstance(value, Tensor) and isinstance(value.type, TensorType):
                dtypes.setdefault(self.variable_of(place), value.dtype)
        return [
            value
            if value is None or isinstance(value, Tensor)
            else self._constant(recorder, value, place, dtypes)
            for place, value in enumerate(inputs)
        ]

    def _constant(self, recorder: Any, value: Any, place: int, dtypes: Mapping[str, DType]) -> Any:
        if hasattr(recorder, "constant_of"):
            made = recorder.constant_of(value)
            if made is not None:
                return made
        if isinstance(value, (np.ndarray, np.generic)):
            return recorder.constant(own_array(np.asarray(value)))
        wanted = dtypes.get(self.variable_of(place))
        array = as_array(value)
        if array.dtype == object:
            return recorder.constant(array)
        if wanted is not None:
            array = fitting(array, wanted, self.name)
        elif array.dtype == np.float64:
            array = array.astype(np.float32)
        return recorder.constant(array)

    def _chosen(self, result: Any, outputs: int | None) -> Any:
        if not isinstance(result, (list, tuple)):
            return result
        wanted = outputs or (self.outputs_given if not self.is_variadic else len(result))
        return result[0] if wanted == 1 and not self.is_variadic else tuple(result[:wanted])

    @property
    def is_variadic(self) -> bool:
        return bool(self.outputs) and self.outputs[-1].variadic

    def lower(
        self,
        builder: Any,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        count: int,
    ) -> list[Tensor]:
        """Run the body for a node of a graph that asks for ``count`` outputs."""
        for place, value in enumerate(inputs):
            needed = self.inputs[min(place, len(self.inputs) - 1)] if self.inputs else None
            if value is None and needed is not None and not needed.optional:
                raise ModelError(f"{self.qualified} needs its input {place}, {needed.name}")
        given = {**attributes}
        if self.takes_count and count:
            given["outputs"] = count
        result = builder.call(self, inputs, given)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(results) < count:
            raise ModelError(f"{self.qualified} gives {len(results)} outputs, not {count}")
        return results[:count] if count else results

    def run_body(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """What the body gives.

        Raises: ModelError if inputs or attributes are not what the operator takes.
        """
        named = dict(zip((each.name for each in self.inputs), inputs, strict=False))
        check_attributes(self.domains, attributes)
        check_dtypes([FIXED.get(each.variable) for each in self.inputs], named)
        check_ranks(self.ranks, named)
        try:
            return self.function(*inputs, **attributes)
        except BurnxError:
            raise
        except _UNFIT as error:
            raise unfit(self.qualified, named, attributes) from error

    def dtype_rule(self, inputs: Sequence[Type | None], place: int) -> Type | None:
        """The type of an output as far as the type variables tell, its rank unknown."""
        wanted = self.outputs[min(place, len(self.outputs) - 1)].variable
        if wanted in FIXED:
            return TensorType(FIXED[wanted], None)
        for index, kind in enumerate(inputs):
            if kind is not None and self.variable_of(index) == wanted:
                return TensorType(kind.dtype, None) if isinstance(kind, TensorType) else kind
        return None


def _plain_recorder() -> Any:
    """The recorder of calls outside of any capture, whose room is above this one and fills the slot itself."""
    importlib.import_module("burnx.capture.lazy")
    return DEFAULT_RECORDER[0]()


# who records calls without tensors outside of any recorder; capture sets it
DEFAULT_RECORDER: list[Callable[[], Any]] = [_plain_recorder]


def as_value(value: Any) -> Any:
    """Numbers and texts in lists as an array, of float32 where they are Python's; all else as it is."""
    if not isinstance(value, (list, tuple)):
        return value
    array = as_array(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def own_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A caller's array, such that what the caller writes to it later changes nothing."""
    return array.copy() if array.flags.writeable else array


def fitting(array: np.ndarray[Any, Any], dtype: DType, name: str) -> np.ndarray[Any, Any]:
    """A Python number as ``dtype``, unless that would lose its value."""
    if (
        array.dtype.kind == "f"
        and dtype.kind in "iub"
        and not np.array_equal(array, np.trunc(array))
    ):
        raise CallError(f"{name}() computes in {dtype}: {array.tolist()} does not fit")
    return array.astype(dtype)


_TABLE: dict[tuple[str, str], Operator] = {}


def table() -> Mapping[tuple[str, str], Operator]:
    """Every operator by (domain, op_type)."""
    return _TABLE


def check_arity(
    name: str,
    takes: Sequence[Parameter],
    defaults: Mapping[str, Any],
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
) -> None:
    """Raises: CallError unless every required input and attribute is there and no more than may be."""
    variadic = bool(takes) and takes[-1].variadic
    if len(inputs) > len(takes) and not variadic:
        raise CallError(f"{name} takes {len(takes)} inputs, not {len(inputs)}")
    for place, parameter in enumerate(takes):
        absent = place >= len(inputs) or inputs[place] is None
        if absent and not parameter.optional and not parameter.variadic:
            raise CallError(f"{name} needs its input {parameter.name!r}")
    for attribute, default in defaults.items():
        if default is REQUIRED and attribute not in attributes:
            raise CallError(f"{name} needs its attribute {attribute!r}")


def inputs_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The inputs that the signature of an operator's body names."""
    given = inspect.signature(function).parameters.values()
    return tuple(_input(each) for each in given if each.kind is not inspect.Parameter.KEYWORD_ONLY)


def _input(parameter: inspect.Parameter) -> Parameter:
    text = str(parameter.annotation)
    optional = "None" in text or parameter.default is None
    variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    return Parameter(parameter.name, text.split("|")[0].strip(), optional, variadic)


def _outputs(annotation: str) -> tuple[Parameter, ...]:
    inner = annotation
    if annotation.startswith("list["):
        return (Parameter("outputs", annotation[5:-1], variadic=True),)
    if annotation.startswith("tuple["):
        inner = annotation[6:-1]
    names = [part.strip() for part in inner.split(",")]
    return tuple(Parameter(f"output_{index}", name) for index, name in enumerate(names))


def operator(
    op_type: str,
    *,
    since: tuple[int, ...],
    domain: str = "",
    outputs: int | None = None,
    meaning: int = 0,
    composite: bool = False,
    ranks: Ranks | None = None,
) -> Callable[[Callable[..., Any]], Operator]:
    """Make a function the operator ``op_type`` of ``domain``.

    ``since``: the opsets that changed it.  ``outputs``: how many outputs a plain call gives (default all).
    ``meaning``: the oldest opset whose operator means what the body does, where that is not the first of 13 on.
    ``composite``: a call is recorded as those of the operators in the body.
    ``ranks``: those that inputs have, by name, where the body counts on it; -n is n and more.
    """

    def register(function: Callable[..., Any]) -> Operator:
        signature = inspect.signature(function)
        kinds = list(signature.parameters.values())
        attributes = {
            each.name: each.default
            for each in kinds
            if each.kind is inspect.Parameter.KEYWORD_ONLY and each.name != "outputs"
        }
        inputs = inputs_of(function)
        results = _outputs(str(signature.return_annotation))
        entry = Operator(
            op_type,
            domain,
            since,
            function,
            inputs,
            attributes,
            results,
            outputs or len(results),
            meaning_since=meaning,
            takes_count="outputs" in signature.parameters,
            composite=composite,
            ranks=ranks or {},
            domains=domains_of({each.name: str(each.annotation) for each in kinds}),
            arrays=frozenset(
                each.name for each in kinds if str(each.annotation).startswith("Array")
            ),
        )
        if _TABLE.setdefault((domain, op_type), entry) is not entry:
            raise UsageError(f"an operator is registered once: there is {entry.qualified} already")
        return entry

    return register
