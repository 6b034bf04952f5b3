"""Random programs on an OpenCL device against the reference, in the forms that are chosen and with all long work in groups."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import DTYPES
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import steps_in
from burnx.gpu import forms
from burnx.kernels.ir import Loop, walk
from burnx.ops import operators
from burnx.runtime.compiled.segments import Segment, cut
from burnx.runtime.devices.gpu.runner import Runner
from burnx.runtime.devices.opencl.driver import find_driver
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.cpu.compare_devices import compare, run
from tests.unit.cpu.random_programs import SIZES, feeds
from tests.unit.cpu.test_properties_random import BY_NAME, KINDS, make, stays_exact

pytest.importorskip("pyopencl", reason="pyopencl is not installed")
EXAMPLES = int(os.environ.get("BURNX_EXAMPLES", "2"))
quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="BURNX_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    ("kind", "long"),
    [
        *((kind, 64) for kind in KINDS),
        *((kind, 2) for kind in ("rows", "reductions", "everything")),
    ],
)
@quick
@given(data=st.data())
def test_random_programs_give_the_references_numbers(
    kind: str, long: int, data: st.DataObject
) -> None:
    maker, outputs = make(data, tuple(BY_NAME[name] for name in KINDS[kind]))
    special, seed = maker.chance(2), maker.size(0, 1000)
    if not stays_exact(maker, seed, special):
        return
    program, exact = maker.program(outputs), [item.exact for item in outputs]
    runner = Runner(driver=find_driver("opencl:0"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "LONG", long)
        for sizes in SIZES:
            inputs = feeds(maker, sizes, seed, special)
            expected, found = run(Interpreter(), program, inputs), run(runner, program, inputs)
            assert compare(expected, found, exact) is None


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scattered_rows_are_divided_by_the_axes_that_stay(reduction: str) -> None:
    """Threads take elements of a row, and of each the updates in their order."""
    builder = Builder(operators())
    n = symbol("n")
    x, updates = (builder.input(TensorType(DTYPES["float32"], (size, 5))) for size in (7, n))
    indices = builder.input(TensorType(DTYPES["int64"], (n, 1)))
    with builder.ambient():
        program = builder.finish([waist.scatter_nd(x, indices, updates, reduction)])
    (segment,) = cut(program).units
    assert isinstance(segment, Segment)
    kept = frozenset(segment.outputs)
    for spread in (False, True):
        made = schedule(segment.instructions, kept, kept, Traits(1, spread=spread))
        *_, last = steps_in(made.steps)
        divided = any(isinstance(each, Loop) and each.parallel for each in walk(last.kernel.body))
        assert divided == spread
    random = np.random.default_rng(0)
    given = [
        random.standard_normal((7, 5)).astype(np.float32),
        random.standard_normal((90, 5)).astype(np.float32),
        random.integers(-7, 7, (90, 1)),
    ]
    (found,) = Runner(driver=find_driver("opencl:0")).run(program, given)
    (expected,) = Interpreter().run(program, given)
    np.testing.assert_array_equal(found, expected)
