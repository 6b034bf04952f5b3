"""Products in tiles: on PoCL, compiled by NVRTC, and the text for matrix units with these written out in C++."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burnx.dtype import bfloat16, float16, float32, float64, int8, int32, int64
from burnx.gpu import tiles
from burnx.gpu.code import Form, Limits
from burnx.gpu.dialects import CUDA
from burnx.gpu.emitter import write
from burnx.gpu.tiles import fit_tiles
from burnx.gpu.tiles_form import is_wgmma, tile_of
from burnx.kernels.ir import Kernel
from tests.unit.gpu import emulated
from tests.unit.gpu.opencl_bench import Built, compile_cuda
from tests.unit.gpu.products import Case

PLAIN = Limits(threads=256, local_bytes=1 << 17, units=4)
H200 = Limits(
    threads=1024,
    local_bytes=227 * 1024,
    warp=32,
    units=132,
    matrices=frozenset({"float16", "bfloat16"}),
    capability=90,
)
TURNS = list(itertools.product((False, True), (False, True)))


def every_form(case: Case, limits: Limits) -> list[Form]:
    return every_tile(case.kernel(), limits, case.numbers())


def every_tile(kernel: Kernel, limits: Limits, sizes: Mapping[str, int]) -> list[Form]:
    """All tiles of the menu that fit."""
    before, tiles.MOST = tiles.MOST, 1000
    try:
        return fit_tiles(kernel, limits, sizes)
    finally:
        tiles.MOST = before


def check_on_opencl(case: Case, forms: list[Form]) -> None:
    kernel = case.kernel()
    built = Built([(kernel, form) for form in forms])
    for place, form in enumerate(forms):
        arrays, wanted = case.arrays()
        built.run(place, arrays, case.numbers())
        np.testing.assert_array_equal(arrays[3], wanted, err_msg=str(form))


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("extents", [(2, 65, 36, 20), (1, 3, 33, 17)])
def test_products_on_opencl(extents, turns):
    case = Case(*extents, left_turned=turns[0], right_turned=turns[1], result_turned=turns[0])
    check_on_opencl(case, fit_tiles(case.kernel(), PLAIN, case.numbers())[:1])


@pytest.mark.parametrize(
    "dtypes",
    [(float64, float64), (int8, int32), (int32, int32), (int64, int64), (float16, float32)],
)
def test_dtypes_on_opencl(dtypes):
    case = Case(2, 33, 40, 24, *dtypes)
    check_on_opencl(case, fit_tiles(case.kernel(), PLAIN, case.numbers())[:1])


def test_wide_indices():
    case = Case(2, 33, 40, 24)
    kernel = case.kernel()
    form = replace(fit_tiles(kernel, PLAIN, case.numbers())[0], wide=True)
    built = Built([(kernel, form)])
    arrays, wanted = case.arrays()
    built.run(0, arrays, case.numbers())
    np.testing.assert_array_equal(arrays[3], wanted)


# --- CUDA -----------------------------------------------------------------------------------------------------------


def run_emulated(case: Case, forms: list[Form], folder: Any, arrays: Any = None) -> list[Any]:
    """The results of CUDA texts on the CPU."""
    kernel = case.kernel()
    codes = [write(kernel, CUDA, form) for form in forms]
    text = emulated.text_of(codes)
    kinds = "p" * len(kernel.buffers) + "i" * len(kernel.sizes) + "p"
    functions = emulated.build(text, [code.name for code in codes], kinds, folder)
    numbers = [case.numbers()[name] for name in kernel.sizes]
    results = []
    for code, function in zip(codes, functions, strict=True):
        given = [each.copy() for each in (arrays or case.arrays()[0])]
        groups = code.groups(case.numbers(), 1)[0]
        pointers = [each.ctypes.data for each in given]
        function(groups, code.form.group, *pointers, *numbers, np.zeros(1, np.int32).ctypes.data)
        results.append(given[3])
    return results


@pytest.mark.long
@pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")
@pytest.mark.parametrize(
    ("operands", "turns"),
    [*itertools.product((float16, float32), TURNS), (bfloat16, TURNS[1])],
)
def test_every_tile(operands, turns, tmp_path):
    """Extents that are aligned, those that are not, and a few rows or columns: every fourth tile for each."""
    extents = ((2, 130, 72, 80), (1, 40, 51, 46), (1, 1, 129, 256), (1, 72, 1, 128))
    for first, each in enumerate(extents, TURNS.index(turns)):
        case = Case(*each, operands, float32, *turns, result_turned=turns[0])
        forms = every_form(case, H200)
        suits = len({form.matrices for form in forms}) == 3
        assert suits or each[1:] == (40, 51, 46) or operands != float32
        assert len(forms) >= 30
        _, wanted = case.arrays()
        forms = forms[first % 4 :: 4]
        for form, found in zip(forms, run_emulated(case, forms, tmp_path), strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=str(form))


@pytest.mark.long
@pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")
@pytest.mark.parametrize("turns", TURNS)
def test_every_tile_of_tfloat32(turns, tmp_path):
    asked = replace(H200, matrices=H200.matrices | {"tfloat32"})
    case = Case(1, 200, 136, 72, float32, float32, *turns)
    forms = every_form(case, asked)
    assert {form.matrices for form in forms} == {"tfloat32", "wgmma_tfloat32"}
    _, wanted = case.arrays()
    for form, found in zip(forms, run_emulated(case, forms, tmp_path), strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=str(form))


@pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")
@pytest.mark.parametrize(
    ("operands", "turns"), [*zip((float16, bfloat16), TURNS[1:], strict=False), (float32, TURNS[2])]
)
def test_warpgroups(operands, turns, tmp_path):
    """A few tiles, with more stages than there are and edges in every direction."""
    case = Case(2, 130, 200, 152, operands, float32, *turns, result_turned=turns[0])
    forms = [form for form in every_form(case, H200) if is_wgmma(form.matrices)][::6]
    _, wanted = case.arrays()
    for form, found in zip(forms, run_emulated(case, forms, tmp_path), strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=str(form))


@pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")
@pytest.mark.parametrize(
    ("operands", "turns", "extents"),
    [
        (float16, TURNS[0], (1, 66, 72, 1100)),
        (bfloat16, TURNS[1], (1, 40, 51, 1030)),
        (float16, TURNS[3], (2, 64, 64, 1024)),
    ],
)
def test_inner_extents_that_are_spread_over_the_groups_of_a_cluster(
    operands, turns, extents, tmp_path
):
    """Shares that are even and those that are not, of tiles with edges; the last groups may have nothing to do."""
    case = Case(*extents, operands, float32, *turns, result_turned=turns[0])
    forms = [form for form in every_form(case, H200) if tile_of(form.tile).spread > 1]
    assert {tile_of(form.tile).spread for form in forms} == {2, 4, 8}
    _, wanted = case.arrays()
    forms = forms[::5]
    for form, found in zip(forms, run_emulated(case, forms, tmp_path), strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=str(form))


def test_only_few_tiles_are_spread():
    for columns, expected in ((768, True), (8192, False)):
        forms = every_form(Case(1, 1024, columns, 4096, float16), H200)
        assert any(tile_of(form.tile).spread > 1 for form in forms) == expected


def test_warpgroups_are_of_capability_90_alone():
    case = Case(1, 512, 512, 512, float16)
    for capability, expected in ((80, False), (89, False), (90, True), (100, False)):
        forms = every_form(case, replace(H200, capability=capability))
        assert any(is_wgmma(form.matrices) for form in forms) == expected
        assert any(form.matrices == "float16" for form in forms)


def test_operands_that_are_loaded_one_by_one_are_left_to_warps():
    case = Case(1, 515, 513, 517, float16)
    units = {form.matrices for form in every_form(case, H200)}
    assert units == {"float16", ""}


@pytest.mark.parametrize("operands", [float16, bfloat16])
def test_not_a_number_and_infinity_reach_the_result_of_warpgroups(operands, tmp_path):
    if emulated.COMPILER is None:
        pytest.skip("there is no g++")
    case = Case(1, 128, 128, 128, operands)
    arrays, _ = case.arrays()
    arrays[0].reshape(128, 128)[3, 5], arrays[0].reshape(128, 128)[70, 9] = np.inf, np.nan
    form = next(each for each in every_form(case, H200) if is_wgmma(each.matrices))
    (found,) = run_emulated(case, [form], tmp_path, arrays)
    with np.errstate(invalid="ignore"):
        wanted = np.matmul(*(each.astype(np.float32) for each in arrays[:2])) + arrays[2]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("operands", [float16, float32, float64])
def test_the_best_forms_are_cuda(operands):
    for turns in (TURNS[0], TURNS[3]):
        case = Case(2, 500, 500, 500, operands, np.result_type(operands, np.float32), *turns)
        kernel = case.kernel()
        forms = fit_tiles(kernel, H200, case.numbers())[:2]
        compile_cuda([write(kernel, CUDA, form) for form in forms])
