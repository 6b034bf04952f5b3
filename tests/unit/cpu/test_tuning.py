"""Tuning on the cpu: what there is to choose from, what is raced, and who takes the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import nn, ops
from burnx.dtype import float32, int8, int32, uint8
from burnx.kernels.packing import panel_width
from burnx.llvm.contractions.plan import choose_packing, offer_packings
from burnx.runtime.devices.cpu import tuning
from burnx.runtime.devices.cpu.choices import PLAIN, Choices
from burnx.runtime.devices.cpu.results import results_of, tuning_stamp
from burnx.runtime.devices.cpu.target import describe_named, find_target
from burnx.runtime.tuning.roofline import Roofline


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    find_target()
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    monkeypatch.setattr(tuning, "cpu_roofline", lambda threads: Roofline(1e15, 1e15))
    return tmp_path / "kernels"


class Small(nn.Module):
    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.conv = nn.Conv2d(16, 24, 3, padding=1)
        self.linear = nn.Linear(24, 40)
        for each in self.parameters():
            each.data = random.standard_normal(each.data.shape).astype(np.float32)

    def forward(self, x: Any) -> Any:
        y = ops.relu(self.conv(x))
        y = ops.exp(y * 0.01) + ops.sin(y) + ops.cos(y) + ops.tanh(y)
        return self.linear(ops.reduce_mean(y, axes=(2, 3), keepdims=False))


X = np.random.default_rng(1).standard_normal((2, 16, 12, 12)).astype(np.float32)


def kept(cache: Path) -> dict[str, dict[str, Any]]:
    """Results by the first candidate's kind of name."""
    found = {}
    for file in (cache / "tuning").glob("*.json"):
        text = file.read_bytes().decode("latin1")
        if '{"choice"' in text:
            value = json.loads(text[text.index('{"choice"') :])
            found[f"{value['place'].split()[1]} {value['laps'][0][0].partition(':')[0]}"] = value
    return found


def test_products_and_convolutions_are_raced_once_and_give_the_same_numbers(cache: Path) -> None:
    model = Small()
    expected = burnx.compile(model, "reference")(X).numpy()
    found = burnx.compile(model, "cpu", tune=True, threads=2)(X).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    results = kept(cache)
    schemes = next(v for k, v in results.items() if k in ("(Conv) four", "(Conv) plain"))
    assert {lap[0] for lap in schemes["laps"]} == {"four", "two", PLAIN}
    assert any(key.endswith("float32") for key in results)
    assert all(lap[2] != "wrong" for each in results.values() for lap in each["laps"])
    stamp = tuning_stamp(find_target())
    assert stamp
    burnx.compile(model, "cpu", tune=True, threads=2)(X)
    assert tuning_stamp(find_target()) == stamp and kept(cache) == results


def test_plans_that_were_made_with_other_results_are_not_taken(cache: Path) -> None:
    target = find_target()
    for count in (1, 1):
        burnx.compile(Small(), "cpu", threads=2)(X)
        assert len(list((cache / "plans").glob("*.plan"))) == count
    results_of(target).keep({"choice": PLAIN}, "winograd", 12, 12, 16, 24, 2)
    results_of(target).keep("1", "stamp")
    burnx.compile(Small(), "cpu", threads=2)(X)
    assert len(list((cache / "plans").glob("*.plan"))) == 2


@pytest.mark.parametrize("choice", ["four", "two", PLAIN])
def test_a_result_decides_how_a_convolution_is_carried_out(choice: str) -> None:
    results_of(find_target()).keep({"choice": choice}, "winograd", 12, 12, 16, 24, 2)
    scheme = Choices(find_target(), 2).scheme(12, 12, 16, 24)
    assert (scheme.step if scheme is not None else 0) == {"four": 4, "two": 2, PLAIN: 0}[choice]
    expected = burnx.compile(Small(), "reference")(X).numpy()
    found = burnx.compile(Small(), "cpu", threads=2)(X).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("value", [{"choice": "float32:5"}, {"choice": 3}, 7, [], {}, None])
def test_a_result_that_is_not_offered_is_not_taken(value: Any) -> None:
    target = find_target()
    names = ["float32"] * 3
    results_of(target).keep(value, "packing", *names, 64, 2)
    packing = Choices(target, 2).packing(float32, float32, float32, 64)
    assert packing == choose_packing(target, float32, float32, float32, 64)


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "icelake-server"])
@pytest.mark.parametrize("columns", [1, 16, 30, 64, 1000])
def test_what_is_chosen_is_among_what_is_offered(cpu: str, columns: int) -> None:
    target = describe_named("x86_64-unknown-linux-gnu", cpu)
    for kinds in ((float32, float32, float32), (uint8, int8, int32)):
        offered = offer_packings(target, *kinds, columns)
        assert offered[0] == choose_packing(target, *kinds, columns)
        assert len(set(offered)) == len(offered)
        lanes = target.vector_bytes // 4
        assert all(panel_width(each) % lanes == 0 for each in offered)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_products_of_every_width_give_the_same_numbers(width: int) -> None:
    target = find_target()
    offered = offer_packings(target, float32, float32, float32, 70)
    lanes = target.vector_bytes // 4
    wanted = next((each for each in offered if panel_width(each) == width * lanes), offered[0])
    results_of(target).keep({"choice": wanted}, "packing", *["float32"] * 3, 70, 2)
    random = np.random.default_rng(0)
    weight = random.standard_normal((33, 70)).astype(np.float32)
    for rows in (1, 3, 50):
        x = random.standard_normal((rows, 33)).astype(np.float32)

        product = nn.Linear(33, 70, bias=False)
        product.weight.data = np.ascontiguousarray(weight.T)
        found = burnx.compile(product, "cpu", threads=2)(x).numpy()
        np.testing.assert_allclose(found, x @ weight, rtol=1e-4, atol=1e-4)


def test_the_roofline_of_a_processor_is_of_this_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "COPY_FLOATS", 1 << 18)
    monkeypatch.setattr(tuning, "SIDE", 128)
    found = tuning._measure(1)
    assert 1e7 < found.bytes_per_s < 1e13 and 1e7 < found.flops_per_s < 1e14
