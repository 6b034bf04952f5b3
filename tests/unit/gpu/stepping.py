"""The steps of a program run one after the other as CUDA texts on the CPU, in forms that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import Step, Storage, steps_in
from burnx.gpu.code import Code, Form
from burnx.gpu.dialects import CUDA
from burnx.gpu.emitter import write
from burnx.kernels.ir import Kernel
from burnx.program import Program
from burnx.shape import evaluate
from tests.unit.gpu import emulated

Array = np.ndarray[Any, Any]
Choose = Callable[[Kernel, Mapping[str, int]], Form]
WORKERS = 3


class Stepping:
    """A program's steps with the functions that were built for them."""

    def __init__(self, program: Program, traits: Traits, folder: Path) -> None:
        kept = frozenset(program.outputs)
        self.program, self.folder = program, folder
        self.schedule = schedule(program.instructions, kept, kept, traits)
        self.steps: list[Step] = list(steps_in(self.schedule.steps))

    def run(self, inputs: Sequence[Array], sizes: Mapping[str, int], choose: Choose) -> list[Array]:
        """The outputs; ``choose`` says the form of each kernel."""
        numbers = [self._sizes(step, sizes) for step in self.steps]
        forms = [choose(step.kernel, each) for step, each in zip(self.steps, numbers, strict=True)]
        codes = [
            write(step.kernel, CUDA, form) for step, form in zip(self.steps, forms, strict=True)
        ]
        memory: dict[int, Array] = {}
        for var, array in zip(self.program.inputs, inputs, strict=True):
            storage = self.schedule.memory.get(var)
            if storage is not None:
                memory[id(storage.root)] = np.ascontiguousarray(array).reshape(-1)
        for step, code, each in zip(self.steps, codes, numbers, strict=True):
            self._call(step, code, each, memory, sizes)
        return [self._output(var, memory, sizes) for var in self.program.outputs]

    def _sizes(self, step: Step, sizes: Mapping[str, int]) -> dict[str, int]:
        return {
            name: evaluate(size, sizes)
            for name, size in zip(step.kernel.sizes, step.sizes, strict=True)
        }

    def _memory(
        self, storage: Storage, memory: dict[int, Array], sizes: Mapping[str, int]
    ) -> Array:
        root = storage.root
        if id(root) not in memory:
            if root.array is not None:
                memory[id(root)] = np.ascontiguousarray(root.array).reshape(-1)
            else:
                count = evaluate(root.elements(), sizes)
                count *= WORKERS * 1024 if root.role == "scratch" else 1
                memory[id(root)] = np.zeros(count, root.dtype)
        return memory[id(root)]

    def _call(
        self, step: Step, code: Code, numbers: Mapping[str, int], memory: Any, sizes: Any
    ) -> None:
        kernel = step.kernel
        kinds = "p" * len(kernel.buffers) + "i" * len(kernel.sizes) + "p"
        (function,) = emulated.build(emulated.text_of([code]), [code.name], kinds, self.folder)
        given = [self._memory(storage, memory, sizes).ctypes.data for storage in step.storages]
        error = np.zeros(1, np.int32)
        groups = code.groups(numbers, WORKERS)
        assert groups[1:] == (1, 1)
        values = [numbers[name] for name in kernel.sizes]
        function(groups[0], code.form.group, *given, *values, error.ctypes.data)

    def _output(self, var: Any, memory: dict[int, Array], sizes: Mapping[str, int]) -> Array:
        storage = self.schedule.memory[var]
        shape = tuple(evaluate(size, sizes) for size in storage.shape)
        flat = self._memory(storage, memory, sizes)
        strides = [evaluate(step, sizes) * flat.itemsize for step in storage.strides()]
        start = flat[evaluate(storage.offset(), sizes) :]
        return np.lib.stride_tricks.as_strided(start, shape, strides).copy()
