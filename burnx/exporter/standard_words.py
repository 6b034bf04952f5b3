"""Primitives in the words of ai.onnx: what an operator of another domain becomes with ``standard_ops``."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from burnx.capture.recorder import GraphRecorder
from burnx.dtype import bool_, dtype_name, int8, int64, uint8
from burnx.errors import ExportError
from burnx.ops import find
from burnx.program import Instruction, Program, Var
from burnx.shape import Dim, maximum, symbol_name
from burnx.tensor import AMBIENT, Tensor
from burnx.types import TensorType

Env: TypeAlias = "dict[Var, Tensor]"
Word: TypeAlias = "Callable[[list[Any], Mapping[str, Any]], Any]"


def say(op_type: str, *inputs: Any, **attributes: Any) -> Any:
    """One node of a standard operator."""
    return find("", op_type)(*inputs, **attributes)


def _vector(dims: Sequence[Dim]) -> Any:
    """Sizes as a constant where they are known, else as the nodes that read them."""
    if all(isinstance(dim, int) for dim in dims):
        return np.array(dims, np.int64)
    return list(dims)


# ---------------------------------------------------------------------------------------- elements
_SAME = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "min": "Min",
    "max": "Max",
    "select": "Where",
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "and": "And",
    "or": "Or",
    "xor": "Xor",
    "not": "Not",
    "bit_and": "BitwiseAnd",
    "bit_or": "BitwiseOr",
    "bit_xor": "BitwiseXor",
    "bit_not": "BitwiseNot",
    "is_nan": "IsNaN",
    "is_inf": "IsInf",
    **{
        name: name.capitalize()
        for name in [
            "neg",
            "abs",
            "sign",
            "floor",
            "ceil",
            "round",
            "sqrt",
            "exp",
            "log",
            "sin",
            "cos",
            "tan",
            "tanh",
            "erf",
        ]
    },
}
_SHIFTS = {"shift_left": "LEFT", "shift_right": "RIGHT"}


def _one(x: Any) -> Any:
    return np.array(1, x.dtype)


def _floored(a: Any, b: Any) -> Any:
    """a - floor(a / b) b, which Mod is for integers alone in the older opsets."""
    if a.dtype.kind in "iu":
        return say("Mod", a, b)
    return say("Sub", a, say("Mul", say("Floor", say("Div", a, b)), b))


_COMPOSED: dict[str, Callable[..., Any]] = {
    "expm1": lambda x: say("Sub", say("Exp", x), _one(x)),
    "log1p": lambda x: say("Log", say("Add", x, _one(x))),
    "softplus": lambda x: say("Softplus", x),
    "trunc_mod": lambda a, b: say("Mod", a, b, fmod=1),
    "floor_mod": _floored,
}


def _map(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    function = given["function"]
    if function in _SAME:
        return say(_SAME[function], *inputs)
    if function in _SHIFTS:
        return _shifted(inputs, _SHIFTS[function])
    if function in _COMPOSED:
        return _COMPOSED[function](*inputs)
    raise ExportError(f'no standard operator is the function "{function}"')


def _shifted(inputs: list[Any], direction: str) -> Any:
    """Shifts are for integers without a sign: others are taken for such, which is right where none is negative."""
    x, count = inputs
    if x.dtype.kind == "u":
        return say("BitShift", x, count, direction=direction)
    wide = [say("Cast", each, to="uint64") for each in (x, count)]
    return say("Cast", say("BitShift", *wide, direction=direction), to=dtype_name(x.dtype))


def _cast(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    return say("Cast", inputs[0], to=dtype_name(given["dtype"]), saturate=int(given["saturate"]))


def _bitcast(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    return say("BitCast", inputs[0], to=dtype_name(given["dtype"]))


# ---------------------------------------------------------------------------------------- places
def _reshape(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    shape = given["shape"]
    return say("Reshape", inputs[0], _vector(shape), **({"allowzero": 1} if 0 in shape else {}))


def _slice(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    (x,) = inputs
    starts, sizes, steps = given["starts"], given["sizes"], given["steps"]
    axes = [
        axis
        for axis in range(x.ndim)
        if not (starts[axis] == 0 and steps[axis] == 1 and sizes[axis] == x.shape[axis])
    ]
    if not axes:
        return x
    ends = [
        starts[axis] + sizes[axis]
        if steps[axis] == 1
        else maximum(starts[axis] + (sizes[axis] - 1) * steps[axis] + 1, starts[axis])
        for axis in axes
    ]
    first, by = [starts[axis] for axis in axes], [steps[axis] for axis in axes]
    return say("Slice", x, *(_vector(each) for each in (first, ends, axes, by)))


def _flip(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    count = len(given["axes"])
    ends = [-1 - inputs[0].shape[axis] for axis in given["axes"]]
    parts = ([-1] * count, ends, given["axes"], [-1] * count)
    return say("Slice", inputs[0], *(_vector(each) for each in parts))


def _pad(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    return say("Pad", inputs[0], _vector([*given["low"], *given["high"]]), inputs[1])


def _take(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    """Gather; by way of a dtype that it takes and that holds every number of the other."""
    x, indices = inputs
    name = dtype_name(x.dtype)
    wide = next((wide for part, wide in _GATHERED.items() if part in name), None)
    if wide is None:
        return say("Gather", x, indices, axis=given["axis"])
    return say("Cast", say("Gather", say("Cast", x, to=wide), indices, axis=given["axis"]), to=name)


# what is in the name of a dtype that Gather does not take, and what stands in for it
_GATHERED = {"float8": "float32", "float4": "float32", "float6": "float32"}
_GATHERED |= {"uint4": "uint8", "uint2": "uint8", "int4": "int8", "int2": "int8"}


def _gather_nd(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    return say("GatherND", *_with_longs(inputs), batch_dims=given["batch"])


def _with_longs(inputs: list[Any]) -> list[Any]:
    x, indices, *rest = inputs
    return [x, indices if indices.dtype == int64 else say("Cast", indices, to="int64"), *rest]


# ---------------------------------------------------------------------------------------- sums
_FOLDS = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "or": "Max", "and": "Min"}


def _reduce(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    (x,) = inputs
    is_logical = x.dtype == bool_
    if is_logical:
        x = say("Cast", x, to=dtype_name(uint8))
    if not given["axes"]:
        return inputs[0]
    found = say(f"Reduce{_FOLDS[given['function']]}", x, _vector(given["axes"]), keepdims=0)
    return say("Cast", found, to="bool") if is_logical else found


def _argreduce(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    return say(f"Arg{given['function'].capitalize()}", *inputs, axis=given["axis"], keepdims=0)


def _cumulate(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    if given["function"] != "sum":
        raise ExportError(f'no standard operator is the running "{given["function"]}"')
    flags = {name: int(given[name]) for name in ("reverse", "exclusive")}
    return say("CumSum", inputs[0], np.array(given["axis"], np.int64), **flags)


def _sort(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    """All of an axis are its greatest or least: TopK keeps the order of equals too."""
    (x,), axis = inputs, given["axis"]
    largest = int(given["descending"])
    return say("TopK", x, _vector([x.shape[axis]]), axis=axis, largest=largest, outputs=2)


def _window(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    """MaxPool; a sum is so many times the mean, the zeros of the margins counted."""
    x, missing = inputs[0], len(given["window"]) + 2 - inputs[0].ndim
    is_sum = given["function"] == "sum" and x.dtype.kind == "f"
    if missing < 0 or not (is_sum or given["function"] == "max"):
        raise ExportError(f'a standard pool is no "{given["function"]}" of {x.ndim} axes')
    lead = np.arange(missing)
    x = say("Unsqueeze", x, lead) if missing else x
    pads = [pair[side] for side in (0, 1) for pair in given["pads"]]
    where = {name: list(given[name]) for name in ("strides", "dilations")}
    where |= {"kernel_shape": list(given["window"]), "pads": pads}
    if is_sum:
        count = np.array(np.prod(given["window"]), x.dtype)
        found = say("Mul", say("AveragePool", x, count_include_pad=1, **where), count)
    else:
        found = say("MaxPool", x, **where)
    return say("Squeeze", found, lead) if missing else found


def _contract(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    """MatMul where each side has one axis of its own and one is summed over, else Einsum."""
    wanted = dtype_name(given["dtype"])
    left, right = (
        x if dtype_name(x.dtype) == wanted else say("Cast", x, to=wanted) for x in inputs
    )
    (first, second), (inner, outer) = given["batch"], given["sum_over"]
    own = [axis for axis in range(left.ndim) if axis not in (*first, *inner)]
    other = [axis for axis in range(right.ndim) if axis not in (*second, *outer)]
    if len(own) == len(other) == len(inner) == 1:
        left = _turned(left, [*first, *own, *inner])
        return say("MatMul", left, _turned(right, [*second, *outer, *other]))
    names = iter(string.ascii_lowercase)
    one = {axis: next(names) for axis in range(left.ndim)}
    pairs = zip([*second, *outer], [*first, *inner], strict=True)
    two = {axis: one[twin] for axis, twin in pairs}
    two.update({axis: next(names) for axis in other})
    result = [one[axis] for axis in (*first, *own)] + [two[axis] for axis in other]
    sides = ["".join(each[axis] for axis in sorted(each)) for each in (one, two)]
    return say("Einsum", left, right, equation=f"{','.join(sides)}->{''.join(result)}")


def _turned(x: Any, perm: list[int]) -> Any:
    return x if perm == list(range(len(perm))) else say("Transpose", x, perm=perm)


def _conv(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    if any(step != 1 for step in given["spread"]):
        raise ExportError("a convolution of spread data is not written in standard operators")
    wanted = dtype_name(given["dtype"])
    pads = [pair[side] for side in (0, 1) for pair in given["pads"]]
    where = {name: list(given[name]) for name in ("strides", "dilations")}
    where |= {"pads": pads, "group": given["groups"]}
    if wanted == "int32" and all(each.dtype in (int8, uint8) for each in inputs):
        return say("ConvInteger", *inputs, **where)
    x, w = (
        each if dtype_name(each.dtype) == wanted else say("Cast", each, to=wanted)
        for each in inputs
    )
    return say("Conv", x, w, **where)


# ---------------------------------------------------------------------------------------- values from sizes
def _iota(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    size = given["size"]
    if isinstance(size, int):
        return say("Identity", np.arange(size).astype(given["dtype"]))
    end = say("Reshape", say("Identity", [size]), np.array([], np.int64))
    found = say("Range", np.array(0, np.int64), end, np.array(1, np.int64))
    wanted = dtype_name(given["dtype"])
    return found if wanted == "int64" else say("Cast", found, to=wanted)


def _sizes(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    return say("Identity", _vector(given["dims"]))


def _size_of(inputs: list[Any], given: Mapping[str, Any]) -> Any:
    size = say("Reshape", inputs[0], np.array([1], np.int64))
    return say("ConstantOfShape", size, value=np.array([False]))


WORDS: dict[str, Word] = {
    "map": _map,
    "cast": _cast,
    "bitcast": _bitcast,
    "broadcast": lambda inputs, given: say("Expand", inputs[0], _vector(given["shape"])),
    "reshape": _reshape,
    "transpose": lambda inputs, given: say("Transpose", inputs[0], perm=list(given["perm"])),
    "slice": _slice,
    "pad": _pad,
    "concat": lambda inputs, given: say("Concat", *inputs, axis=given["axis"]),
    "flip": _flip,
    "reduce": _reduce,
    "argreduce": _argreduce,
    "cumulate": _cumulate,
    "window_reduce": _window,
    "contract": _contract,
    "conv": _conv,
    "take": _take,
    "take_along": lambda inputs, given: say(
        "GatherElements", *_with_longs(inputs), axis=given["axis"]
    ),
    "gather_nd": _gather_nd,
    "scatter_along": lambda inputs, given: say(
        "ScatterElements", *_with_longs(inputs), axis=given["axis"], reduction=given["reduction"]
    ),
    "scatter_nd": lambda inputs, given: say(
        "ScatterND", *_with_longs(inputs), reduction=given["reduction"]
    ),
    "sort": _sort,
    "nonzero": lambda inputs, given: say("NonZero", *inputs),
    "iota": _iota,
    "sizes": _sizes,
    "size_of": _size_of,
}


# ---------------------------------------------------------------------------------------- programs
@dataclass(frozen=True, slots=True)
class Speaker:
    """Says programs in a graph that is being recorded; ``env`` holds what each of their values has become."""

    recorder: GraphRecorder
    env: Env

    def say_program(self, program: Program) -> list[Tensor]:
        """Add the nodes of a program and give its outputs."""
        for instruction in program.instructions:
            known = _number(instruction.outputs[0])
            if known is not None and len(instruction.outputs) == 1:
                continue
            results = self._say(instruction)
            for var, tensor in zip(instruction.outputs, results, strict=True):
                self.env[var] = tensor
                self._settle(var, tensor)
        return [self.value(var) for var in program.outputs]

    def value(self, var: Var) -> Tensor:
        known = _number(var)
        return self.recorder.constant(known) if known is not None else self.env[var]

    def _say(self, instruction: Instruction) -> list[Tensor]:
        inputs = [None if var is None else self.value(var) for var in instruction.inputs]
        if instruction.primitive == "cond":
            return self._branch(instruction.attributes["programs"], inputs)
        if instruction.primitive == "loop":
            return self._loop(instruction.attributes["program"], inputs)
        word = WORDS.get(instruction.primitive)
        if word is None:
            raise ExportError(
                f'"{instruction.primitive}" is not written in standard operators, {instruction.place}'
            )
        result = word(inputs, instruction.attributes)
        return list(result) if isinstance(result, tuple) else [result]

    def _branch(self, programs: Sequence[Program], inputs: list[Any]) -> list[Tensor]:
        """If, whose branches read from outside what their programs capture."""
        condition, *captured = inputs
        graphs = []
        for program in programs:
            own, captured = captured[: len(program.captures)], captured[len(program.captures) :]
            graphs.append(self._body_of(program, own))
        found = say("If", condition, then_branch=graphs[0], else_branch=graphs[1])
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def _body_of(self, program: Program, captured: list[Any]) -> Any:
        """A program as the graph of a node, inputs of which stand for what it captures."""

        def body(*given: Tensor) -> list[Tensor]:
            inner = AMBIENT.get()
            assert isinstance(inner, GraphRecorder)
            env = {**self.env, **dict(zip(program.inputs, given, strict=True))}
            env.update(zip(program.captures, captured, strict=True))
            speaker = Speaker(inner, env)
            for var, tensor in zip(program.inputs, given, strict=True):
                speaker._settle(var, tensor)
            return [say("Identity", each) for each in speaker.say_program(program)]

        return self.recorder.body(body, [var.type for var in program.inputs])

    def _loop(self, program: Program, inputs: list[Any]) -> list[Tensor]:
        """Loop, whose body reads from outside what the program captures."""
        count = len(program.inputs) - 2
        trips, condition, *carried = inputs[: 2 + count]
        captured = inputs[2 + count :]
        graph = self._body_of(program, captured)
        found = say("Loop", trips, condition, *carried, body=graph)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def _settle(self, var: Var, tensor: Tensor) -> None:
        """The sizes that the program gave names can be read where they first are."""
        if isinstance(var.type, TensorType) and var.type.shape is not None:
            for axis, dim in enumerate(var.type.shape):
                name = symbol_name(dim)
                if name is not None:
                    self.recorder.homes.setdefault(name, (tensor.ref, axis))  # type: ignore[arg-type]


def _number(var: Var) -> Any:
    """The value of a constant, or of what could be worked out."""
    for known in (var.array, var.known):
        if known is not None and known.dtype != object:
            return known
    return None
