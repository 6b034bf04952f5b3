"""Kernels of sorts, running sums and compactions as CUDA C++: NVRTC takes them in the forms that a GPU is offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import DTYPES
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import Step, steps_in
from burnx.gpu.code import Limits
from burnx.gpu.dialects import CUDA
from burnx.gpu.emitter import candidates, write
from burnx.ops import operators
from burnx.runtime.compiled.segments import Segment, cut
from burnx.shape import evaluate, symbol, symbols
from burnx.types import TensorType
from tests.unit.gpu.opencl_bench import compile_cuda

H200 = Limits(threads=1024, local_bytes=232_448, warp=32, units=132, capability=90)
ROWS, LENGTH = symbol("rows"), symbol("length")
Make = Callable[[Any], Any]
MAKERS: dict[str, Make] = {
    "sort": lambda x: waist.sort(x, 1, descending=True),
    "sums": lambda x: waist.cumulate("sum", x, 1, reverse=True, exclusive=True),
    "places": lambda x: waist.nonzero(x),
}


def steps_of(name: str, make: Make) -> list[Step]:
    builder = Builder(operators())
    x = builder.input(TensorType(DTYPES[name], (ROWS, LENGTH)))
    with builder.ambient():
        made = make(x)
        program = builder.finish(list(made) if isinstance(made, tuple) else [made])
    found: list[Step] = []
    for unit in cut(program, spread=True).units:
        if isinstance(unit, Segment):
            kept = frozenset(unit.outputs)
            made = schedule(unit.instructions, kept, kept, Traits(1, spread=True))
            found += steps_in(made.steps)
    return found


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "uint64", "int8"])
@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_texts_compile(name: str, kind: str) -> None:
    steps = steps_of(name, MAKERS[kind])
    assert len(steps) > 2
    sizes = {"rows": 4, "length": 150_000}
    codes = {}
    for step in steps:
        names = {name for size in step.sizes for name in symbols(size)} - sizes.keys()
        numbers = [evaluate(size, sizes | dict.fromkeys(names, 1000)) for size in step.sizes]
        named = dict(zip(step.kernel.sizes, numbers, strict=True))
        for form in candidates(step.kernel, H200, named):
            code = write(step.kernel, CUDA, form)
            codes[code.name] = code
    compile_cuda(list(codes.values()))


@pytest.mark.parametrize(("kind", "expected"), [("sort", 0), ("sums", 3)])
def test_one_long_row_is_the_work_of_many_groups(kind: str, expected: int) -> None:
    """Few threads take only what the 37 blocks of the 2344 blocks of 150,000 elements add up to."""
    small, sizes = 0, {"rows": 1, "length": 150_000}
    for step in steps_of("float32", MAKERS[kind]):
        numbers = [evaluate(size, sizes) for size in step.sizes]
        named = dict(zip(step.kernel.sizes, numbers, strict=True))
        code = write(step.kernel, CUDA, candidates(step.kernel, H200, named)[0])
        x, y, z = code.groups(named, 132 * 16)
        small += 0 < x * y * z * code.form.group < 2000
    assert small == expected
