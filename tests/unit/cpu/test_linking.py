"""Objects put into memory by hand: the same as LLVM does, and what is not as expected is left to LLVM."""

from __future__ import annotations

import ctypes
import math

import pytest

from burnx.runtime.devices.cpu import linking, objects
from burnx.runtime.devices.cpu.compile import compile_object
from burnx.runtime.devices.cpu.linking import Unlinkable, can_link, link
from burnx.runtime.devices.cpu.target import describe_named, find_target

CALL = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
HERE = find_target()
pytestmark = pytest.mark.skipif(
    not can_link() or not HERE.triple.startswith("x86_64"), reason="objects of Linux on x86-64"
)


def write(number: int) -> str:
    """A function with constants of 8 and 32 bytes, a function of its own, and one of the process."""
    return f"""
declare double @exp(double)
@table = private constant [4 x double] [double 1.0, double 2.0, double {number}.0, double 4.0], align 32
define internal double @inner(double %x) noinline {{
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 2
  %t = load double, ptr %at
  %y = fmul double %x, %t
  ret double %y
}}
define double @kernel{number}(double %x) {{
  %e = call double @exp(double %x)
  %y = call double @inner(double %e)
  %z = fadd double %y, 0.3
  ret double %z
}}
"""


def test_many_objects_are_linked_as_by_llvm() -> None:
    images = [compile_object(write(number), HERE) for number in range(40)]
    names = [f"kernel{number}" for number in range(40)]
    linked = link(images, names)
    by_llvm = objects._link_by_llvm(images, names)
    for number, (name, other) in enumerate(zip(names, by_llvm, strict=True)):
        found = CALL(linked.addresses[name])(1.5)
        assert found == CALL(other)(1.5)
        assert math.isclose(found, math.exp(1.5) * number + 0.3)


IMAGE = compile_object(write(3), HERE)
WRONG = {
    "empty": b"",
    "no object": b"MZ" + IMAGE[2:],
    "cut short": IMAGE[: len(IMAGE) // 2],
    "another processor": compile_object(
        "define void @kernel3() {\n  ret void\n}", describe_named("aarch64-linux-gnu", "cortex-a72")
    ),
    "memory that is written to": compile_object(
        "@at = global i64 3\ndefine ptr @kernel3() {\n  ret ptr @at\n}", HERE
    ),
    "a function that is not there": compile_object(
        "declare void @nowhere()\ndefine void @kernel3() {\n  call void @nowhere()\n  ret void\n}",
        HERE,
    ),
    "another name": compile_object("define void @other() {\n  ret void\n}", HERE),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_not_as_expected_is_left_to_llvm(kind: str) -> None:
    with pytest.raises(Unlinkable):
        link([WRONG[kind]], ["kernel3"])


def test_llvm_links_where_the_system_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking.sys, "platform", "another")
    assert not can_link()
    (address,) = objects._link([compile_object(write(41), HERE)], ["kernel41"])
    assert math.isclose(CALL(address)(0.0), 41.3)
