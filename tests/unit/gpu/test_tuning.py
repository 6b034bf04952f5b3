"""Tuning on a device: what wins, what may not, and that a call's numbers do not notice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import ops
from burnx.gpu import emitter
from burnx.gpu.code import Code, Form
from burnx.runtime.devices.gpu import choosing, plans, tuning
from burnx.runtime.tuning.roofline import Roofline

DEVICE = "opencl:0"
pyopencl = pytest.importorskip("pyopencl")


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device with no results of races, nor functions, from other tests."""
    from burnx.runtime.devices.opencl import find_driver

    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    found = find_driver(DEVICE)
    monkeypatch.setattr(tuning, "device_roofline", lambda driver: Roofline(1e15, 1e15))
    kept = dict(found.functions)
    found.functions.clear()
    yield found
    found.functions.clear()
    found.functions.update(kept)


def rows(x: Any, w: Any) -> Any:
    return ops.softmax(ops.relu(ops.mat_mul(x, w) + 1), axis=-1)


X = np.random.default_rng(0).standard_normal((12, 40)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((40, 300)).astype(np.float32)
EXPECTED = burnx.compile(rows, "reference")(X, W).numpy()


def results(tmp_path: Path) -> list[dict[str, Any]]:
    found = []
    for file in (tmp_path / "kernels" / "tuning").glob("*.json"):
        text = file.read_bytes().decode("latin1")
        if '{"form"' in text:  # the other one is the stamp of them all
            found.append(json.loads(text[text.index('{"form"') :]))
    return found


def test_the_call_that_tunes_and_those_after_it_give_right_numbers(
    driver: Any, tmp_path: Path
) -> None:
    model = burnx.compile(rows, DEVICE, tune=True)
    for _ in range(4):
        np.testing.assert_allclose(model(X, W).numpy(), EXPECTED, rtol=1e-4, atol=1e-5)
    kept = results(tmp_path)
    assert {each["place"].split()[1] for each in kept} == {"(MatMul)", "(Softmax)"}
    for each in kept:
        assert len(each["laps"]) > 1 and each["laps"][0][2] in ("won", "slower")
        times = [ns for _, ns, _ in each["laps"] if ns is not None]
        assert min(times) <= each["elapsed_ns"] and each["elapsed_ns"] > 0


def test_a_later_process_takes_the_results_without_tuning(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    burnx.compile(rows, DEVICE, tune=True)(X, W)
    wanted = {json.dumps(each["form"], sort_keys=True) for each in results(tmp_path)}
    choosing.results_of(driver).known.clear()
    driver.functions.clear()
    monkeypatch.setattr(choosing, "choose", lambda *given: pytest.fail("there is a result"))
    np.testing.assert_allclose(
        burnx.compile(rows, DEVICE)(X, W).numpy(), EXPECTED, rtol=1e-4, atol=1e-5
    )
    taken = {
        json.dumps(choosing.describe_form(form), sort_keys=True) for _, form in driver.functions
    }
    assert taken == wanted


class Spoiled(Form):
    """A form whose text is changed before it is built."""

    __slots__ = ()


def spoil(monkeypatch: pytest.MonkeyPatch, ruin: Any) -> list[Form]:
    """Make all but the first form of each kernel wrong by a change of their texts; the spoiled ones."""
    spoiled: list[Form] = []
    write = emitter.write

    def wrong(kernel: Any, dialect: Any, form: Form) -> Code:
        code = write(kernel, dialect, form)
        if not isinstance(form, Spoiled):
            return code
        spoiled.append(form)
        name = f"{code.name}_spoiled"
        return replace(code, name=name, text=ruin(code.text.replace(code.name, name), name))

    def offered(kernel: Any, limits: Any, sizes: Any, guards: Any = ()) -> list[Form]:
        first = emitter.candidates(kernel, limits, sizes, guards)[0]
        return [first, Spoiled(**{each.name: getattr(first, each.name) for each in fields(first)})]

    monkeypatch.setattr(plans, "write", wrong)
    monkeypatch.setattr(choosing, "candidates", offered)
    monkeypatch.setattr(tuning._Trial, "time", lambda self, form: 1 if form in spoiled else 1000)
    return spoiled


def writes_nothing(text: str, name: str) -> str:
    start = text.index("{", text.index(name))
    return text[: start + 1] + " return; " + text[start + 1 :]


def does_not_compile(text: str, name: str) -> str:
    return text + "\nthis is no C\n"


@pytest.mark.parametrize("ruin", [writes_nothing, does_not_compile])
def test_a_fast_wrong_kernel_never_wins(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ruin: Any
) -> None:
    model = burnx.compile(rows, DEVICE)
    model(
        X, W
    )  # leaves right numbers in the arena, which one that writes nothing could be taken for
    spoiled = spoil(monkeypatch, ruin)
    np.testing.assert_allclose(
        burnx.compile(rows, DEVICE, tune=True)(X, W).numpy(), EXPECTED, rtol=1e-4, atol=1e-5
    )
    assert spoiled
    verdicts = {tuple(lap[2] for lap in each["laps"]) for each in results(tmp_path)}
    assert verdicts == {("won", "wrong" if ruin is writes_nothing else "failed")}


def test_a_form_that_is_no_longer_offered_is_not_taken(driver: Any, tmp_path: Path) -> None:
    burnx.compile(rows, DEVICE, tune=True)(X, W)
    store = choosing.results_of(driver)
    for name, value in store.known.items():
        if isinstance(value, dict) and "form" in value:
            store.known[name] = {**value, "form": {**value["form"], "group": 12345}}
    driver.functions.clear()
    np.testing.assert_allclose(
        burnx.compile(rows, DEVICE)(X, W).numpy(), EXPECTED, rtol=1e-4, atol=1e-5
    )
    assert all(form.group != 12345 for _, form in driver.functions)


def test_what_a_kernel_adds_to_stays_as_it_was_before_the_race(driver: Any) -> None:
    def scattered(x: Any, at: Any, more: Any) -> Any:
        return ops.scatter_elements(x, at, more, axis=0, reduction="add") + x

    at = np.array([[0, 1], [0, 1], [2, 0]], np.int64)
    more = np.arange(6, dtype=np.float32).reshape(3, 2)
    x = np.ones((4, 2), np.float32)
    expected = burnx.compile(scattered, "reference")(x, at, more).numpy()
    model = burnx.compile(scattered, DEVICE, tune=True)
    for _ in range(3):
        np.testing.assert_array_equal(model(x, at, more).numpy(), expected)


@pytest.mark.parametrize("first", [True, False])
def test_kernels_behind_guards_are_raced_where_they_run(driver: Any, first: bool) -> None:
    def chosen(flag: Any, x: Any) -> Any:
        return burnx.cond(
            flag,
            lambda: ops.softmax(x * 2, axis=-1),
            lambda: ops.softmax(x - 1, axis=-1) * 3,
        )

    model = burnx.compile(chosen, DEVICE, tune=True)
    plain = burnx.compile(chosen, "reference")
    for flag in (first, not first, first):
        given = np.array(flag)
        np.testing.assert_allclose(
            model(given, X).numpy(), plain(given, X).numpy(), rtol=1e-4, atol=1e-6
        )
