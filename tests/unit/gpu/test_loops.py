"""Random kernels on OpenCL against what they mean, in every form that they could take."""

from __future__ import annotations

import numpy as np
import pytest

from burnx.dtype import dtype_name
from tests.unit.cpu.meaning import Meaning
from tests.unit.cpu.test_random_kernels import _LENGTH, Maker
from tests.unit.gpu.opencl_bench import Built, all_forms


def check(seed: int) -> None:
    kernel = Maker(seed).kernel()
    numbers = np.random.default_rng(seed)
    fitting = {n: all_forms(kernel, {"n": n}) for n in (0, 1, 7, 19, 96)}
    forms = list(dict.fromkeys(form for each in fitting.values() for form in each))
    built = Built([(kernel, form) for form in forms])
    for n, offered in fitting.items():
        sources = [
            numbers.integers(-50, 50, _LENGTH).astype(each.dtype) for each in kernel.buffers[:3]
        ]
        sources[1][::5] = [np.nan, np.inf, -np.inf, -0.0, 3e38, *[0.5] * 8]
        theirs = [*sources, np.zeros(2 * n, np.int32), np.zeros(2 * n, np.float32)]
        with np.errstate(all="ignore"):
            meaning = Meaning(kernel, tuple(theirs), {"n": n, "worker": 0, "workers": 1})
        for place in map(forms.index, offered):  # a form is for the sizes that it was offered for
            mine = [*sources, np.zeros(2 * n, np.int32), np.zeros(2 * n, np.float32)]
            error = built.run(place, mine, {"n": n})
            assert error == meaning.error or n == 0
            for found, exact in zip(mine[3:], theirs[3:], strict=True):
                np.testing.assert_array_equal(
                    found, exact, f"{dtype_name(found.dtype)}, n {n}\n{built.codes[place].text}"
                )


@pytest.mark.parametrize("seed", range(10))
def test_random_kernels(seed: int) -> None:
    check(seed)
