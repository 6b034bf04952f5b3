"""Kernels are compiled while others are written: the same objects, no thread stays, and only what is wanted fails."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx.errors import DeviceError
from burnx.runtime.devices.cpu import compile as compiling
from burnx.runtime.devices.cpu.ahead import Ahead
from burnx.runtime.devices.cpu.object_files import name_entry
from burnx.runtime.devices.cpu.objects import load_many
from burnx.runtime.devices.cpu.target import find_target

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that LLVM ran on, with an empty cache."""
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    found: list[str] = []
    compile_object = compiling.compile_object

    def noted(*given: Any) -> bytes:
        found.append(threading.current_thread().name)
        return compile_object(*given)

    monkeypatch.setattr(compiling, "compile_object", noted)
    return found


def text_of(number: int) -> str:
    """A kernel that nobody has compiled before."""
    return (
        "define void @kernel(ptr %args, i64 %worker, i64 %workers, ptr %state) {\n"
        f"  store i64 {number}, ptr %args\n  ret void\n}}\n"
    )


def new_number() -> int:
    return int.from_bytes(os.urandom(6), "little")


def test_a_program_is_compiled_on_a_thread_that_goes(threads: list[str]) -> None:
    scale = np.float32(1 + new_number() / 2**50)  # a number in the kernel's text

    def model(x: burnx.Tensor) -> Any:
        return burnx.ops.softmax(x * scale) @ burnx.ops.tanh(x.transpose(1, 0) * scale)

    before = threading.active_count()
    found = burnx.compile(model, "cpu", threads=1)(X).numpy()
    assert len([name for name in threads if name.startswith("burnx-llvm")]) >= 2
    assert threads.count("MainThread") <= 1  # the machine, which is no kernel
    assert threading.active_count() == before
    expected = burnx.compile(model, "reference")(X).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_was_begun_is_not_compiled_again(threads: list[str]) -> None:
    target, texts = find_target(), [text_of(new_number()) for _ in range(3)]
    pairs = [(text, lambda text=text: text) for text in texts]
    with Ahead(target) as ahead:
        for key, make in [*pairs[:2], pairs[0]]:
            ahead.add(key, make)
        images = ahead.finish(key for key, _ in pairs)
        assert set(images) == {name_entry(text, target) for text in texts[:2]}
        addresses = load_many(pairs, target, images)
    assert len(set(addresses)) == 3 and len(threads) == 3


def test_what_is_kept_is_read_and_what_is_loaded_is_left_alone(threads: list[str]) -> None:
    target, text = find_target(), text_of(new_number())
    for compiled, found in ((1, 1), (1, 1)):
        with Ahead(target) as ahead:
            ahead.add(text, lambda: text)
            images = ahead.finish([text])
            assert len(threads) == compiled and len(images) == found
    load_many([(text, lambda: text)], target, images)
    with Ahead(target) as ahead:
        ahead.add(text, lambda: text)
        assert ahead.finish([text]) == {}


def test_only_what_is_wanted_fails() -> None:
    target, wrong, right = find_target(), f"nonsense {new_number()}", text_of(new_number())

    def fail() -> str:
        raise LookupError("no text for this one")

    with Ahead(target) as ahead:
        ahead.add(wrong, lambda: wrong)
        ahead.add("cannot be written", fail)
        ahead.add(right, lambda: right)
        assert list(ahead.finish([right, "cannot be written"])) == [name_entry(right, target)]
        with pytest.raises(DeviceError, match="valid LLVM text"):
            ahead.finish([wrong])


def test_an_error_while_scheduling_waits_for_no_kernel(threads: list[str]) -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), Ahead(find_target()) as ahead:
        for _ in range(20):
            text = text_of(new_number())
            ahead.add(text, lambda text=text: text)  # type: ignore[misc]
        _ = 1 / 0
    assert threading.active_count() == before and len(threads) <= 20
