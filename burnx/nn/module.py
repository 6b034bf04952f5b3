"""Module: a piece of a model, with parameters and other modules as attributes."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np

from burnx.capture.lazy import recorder_on, tensor
from burnx.checkpoints import open_tensors
from burnx.errors import CallError, WeightsError
from burnx.nn.parameter import Parameter
from burnx.nn.stored import Remap, is_counter, names_in, under_original_names
from burnx.runtime.device import Device, find_device
from burnx.tensor import AMBIENT, Array, Tensor, to_numpy
from burnx.weights import save_weights

_WHERE = "where it runs"  # in a module's vars, under a name that no attribute can have
__all__ = ["Container", "Input", "Module", "ModuleList", "Output", "Parameter"]


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a model: the name it has in its file, its dtype, and its dims as numbers or names.

    ``parameter`` is the parameter of ``forward`` that it is, where the name is no Python name; ``kind`` says
    ``sequence``, ``optional`` or ``map`` where it is no plain tensor (a map's ``dtype`` is that of its keys, its values'
    stands behind it); a dim of None has no name.  ``default`` is the path of the parameter that an input which is left
    out stands for.
    """

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None
    parameter: str = ""
    optional: bool = False
    kind: str = "tensor"
    default: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a model: the name it has in its file, its dtype and its dims."""

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None
    kind: str = "tensor"


class Module:
    """A piece of a model.

    Parameters and modules are plain attributes; ``forward`` computes.  A module is called with tensors or NumPy
    arrays and gives tensors.
    """

    inputs: ClassVar[tuple[Input, ...]] = ()
    outputs: ClassVar[tuple[Output, ...]] = ()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise CallError(f"{type(self).__name__} has no forward")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if AMBIENT.get() is not None:
            return self.forward(*args, **kwargs)
        where: Device | None = vars(self).get(_WHERE)
        if where is None:
            return self._call_plainly(args, kwargs)
        with recorder_on(where.name).ambient():
            return self._call_plainly(args, kwargs)

    def _call_plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if type(self).inputs:
            from burnx.nn.declared import check_call

            given, named = check_call(self, args, kwargs)
            return self.forward(*given, **named)
        args = tuple(given_tensor(value) for value in args)
        kwargs = {name: given_tensor(value) for name, value in kwargs.items()}
        return self.forward(*args, **kwargs)

    def to(self, device: str | Device) -> Self:
        """The same module, whose plain calls run on a device; modules and weights are shared.

        ``burnx.compile`` takes it as the device, too.
        """
        moved = copy(self)
        vars(moved)[_WHERE] = find_device(device)
        return moved

    # ---------------------------------------------------------------- what it holds
    def __setattr__(self, name: str, value: Any) -> None:
        """An array, or a tensor of a plain call, in place of a parameter becomes one: else it would not be saved.

        Raises: CallError for other plain values.
        """
        before = vars(self).get(name)
        if isinstance(before, Parameter) and not isinstance(value, (Parameter, Module, NoneType)):
            if AMBIENT.get() is not None or not isinstance(value, (np.ndarray, Tensor)):
                raise CallError(
                    f"{type(self).__name__}.{name} is a parameter and stays one: its values are set by "
                    f".{name}.data = array, not by {type(value).__name__} in its place"
                )
            value = Parameter.of(to_numpy(value), before.original)
        super().__setattr__(name, value)

    def children(self) -> Iterator[tuple[str, Any]]:
        """The modules and parameters it holds, by attribute name."""
        for name, value in vars(self).items():
            if isinstance(value, (Module, Parameter)):
                yield name, value

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Itself and every module inside, by path."""
        yield prefix, self
        for name, value in self.children():
            if isinstance(value, Module):
                yield from value.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Every parameter, by path; one that is held twice comes once."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            for name, value in module.children():
                if isinstance(value, Parameter) and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def parameters(self) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters())

    # ---------------------------------------------------------------- weights
    @classmethod
    def load(cls, path: str | Path | None = None, *, strict: bool = True) -> Self:
        """A new module with weights from a file, by default ``WEIGHTS`` beside the file of its class.

        One without parameters needs no file, and one that was cut leaves the rest of the file.  Without ``strict``
        a layer that is new or changed keeps its fresh weights, and a warning lists what did not fit.  Raises:
        WeightsError if weights are missing, damaged or of another shape.
        """
        module = cls()
        if path is None and not any(True for _ in module.parameters()):
            return module
        path = weights_beside(cls) if path is None else path
        report = module.load_weights(path, strict=strict)
        if report and not strict:
            warnings.warn(
                _misfits(path, cls.__name__, report) + "\nload_weights(path, strict=False) gives "
                "these lines; what is missing or mismatched has fresh weights",
                UserWarning,
                stacklevel=2,
            )
        return module

    def load_weights(
        self, path: str | Path, *, remap: Remap | None = None, strict: bool = True
    ) -> list[str]:
        """Take weights from a file and give a line for each that is missing, unexpected or mismatched.

        The file is safetensors, PyTorch's (tensors only, no code is run) or an index of shards; it is mapped, not
        copied.  ``remap`` turns names of the file into names of parameters: a function, or a mapping of names or
        regular expressions to what replaces them; by default the ``REMAP`` beside the class, if there is one.  The
        counters that PyTorch keeps beside a batch norm say nothing to a model that only runs, and are left aside.
        Raises: WeightsError listing those lines, if ``strict`` and a parameter is left without weights.
        """
        weights = open_tensors(path)
        wanted = dict(self.named_parameters())
        names = names_in(weights, remap_beside(type(self)) if remap is None else remap)
        surplus = [
            f"unexpected: {name}" for name in names if name not in wanted and not is_counter(name)
        ]
        problems: list[str] = []
        for name, parameter in wanted.items():
            if name not in names:
                problems.append(f"missing: {name} {parameter.kind[0]}")
                continue
            try:
                parameter.data = weights[names[name]]
            except WeightsError as error:
                problems.append(f"mismatched: {name}: {error}")
            parameter.original = names[name] if names[name] != name else ""
        if strict and problems:
            raise WeightsError(
                _misfits(path, type(self).__name__, surplus + problems)
                + "\nload(strict=False) leaves fresh weights where none fit"
            )
        return surplus + problems

    def save_weights(self, path: str | Path) -> None:
        """Write every parameter to a safetensors file, under the name of the model it comes from."""
        arrays: dict[Any, Array] = {}
        named = []
        for name, parameter in self.named_parameters():
            data = parameter.data
            memory = data.__array_interface__["data"][0] if data.size else id(data)
            array = arrays.setdefault((memory, data.shape, data.strides, data.dtype), data)
            named.append((name, parameter.original, array))
        save_weights(Path(path), *under_original_names(named))

    def __repr__(self) -> str:
        count = sum(math.prod(parameter.kind[0]) for parameter in self.parameters())
        return f"{type(self).__name__}({count:,} parameters)"

    def __str__(self) -> str:
        """What it is made of, a line each."""
        return "\n".join([repr(self), *_inside(self, "  ")])


def _misfits(path: str | Path, name: str, lines: Iterable[str]) -> str:
    return "\n  ".join([f"weights in {str(path)!r} do not fit {name}:", *lines])


def _inside(module: Module, indent: str) -> Iterator[str]:
    for name, value in module.children():
        if isinstance(value, Parameter):
            yield f"{indent}{name}: {value!r}"
        elif all(isinstance(held, Parameter) for _, held in value.children()):
            shapes = ", ".join(f"{each} {held.kind[0]}" for each, held in value.children())
            yield f"{indent}{name}: {type(value).__name__}({shapes})"
        else:
            yield f"{indent}{name}: {type(value).__name__}"
            yield from _inside(value, indent + "  ")


def device_of(module: Module) -> Device:
    """Where a module's plain calls run: what ``to`` said, else the device of ``BURNX_DEVICE``."""
    return find_device(vars(module).get(_WHERE))


def weights_beside(cls: type) -> Path:
    """The weights file that the module of a class names."""
    module = sys.modules[cls.__module__]
    name, file = getattr(module, "WEIGHTS", None), getattr(module, "__file__", None)
    if name is None or file is None:
        raise WeightsError(f"{cls.__name__} names no weights: give load() a path")
    return Path(file).parent / str(name)


def remap_beside(cls: type) -> Remap | None:
    """How the module of a class renames what stands in its weights file."""
    found: Remap | None = getattr(sys.modules.get(cls.__module__), "REMAP", None)
    return found


def given_tensor(value: Any) -> Any:
    """What a caller gives, as a tensor; None and text stay, and so do lists of tensors or arrays."""
    if value is None or isinstance(value, (Tensor, str)):
        return value
    if (
        isinstance(value, (list, tuple))
        and value
        and not isinstance(value[0], (int, float, bool, str, list))
    ):
        return [given_tensor(item) for item in value]
    return tensor(value)


class ModuleList(Module):
    """Modules in order, each called by whoever holds the list; a mapping gives some places only."""

    def __init__(self, modules: Iterable[Any] | Mapping[int, Any] = ()) -> None:
        pairs = modules.items() if isinstance(modules, Mapping) else enumerate(modules)
        for place, module in pairs:
            setattr(self, str(place), module)

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self.children())

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        found = vars(self).get(str(index if index >= 0 else len(self) + index))
        if found is None:
            raise IndexError(f"there is no module {index} in a list of {len(self)}")
        return found

    def append(self, module: Module) -> None:
        setattr(self, str(len(self)), module)


class Sequential(ModuleList):
    """Modules that are called one after the other, each with what the one before gave."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x


class Container(Module):
    """A name for modules and parameters that are called one by one by whoever holds it."""

    def __init__(self, /, **modules: Module | Parameter) -> None:
        vars(self).update(modules)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the container has no {name!r}; it has {', '.join(vars(self)) or 'nothing'}"
        )
