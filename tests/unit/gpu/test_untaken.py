"""Branches that are not taken, and calls that are broken off: what was not written is not read, nor left half made."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from onnx import parser

import burnx
from burnx.runtime.devices.gpu.native import Native

DEVICE = "opencl:0"
pytest.importorskip("pyopencl", reason="pyopencl is not installed")

# what the branch does with "u" (n) and "rows" (L, n); a run-time number of turns each
_LOOPS = {
    "loop": """k = Constant<value = bool {1}>()
        a = Loop (turns, k, u) <body = b (int64 i, bool on, float[n] s) => (bool go, float[n] t) {
            go = Identity(on) t = Tanh(s) }>""",
    "scan": """a, all = Scan <num_scan_inputs = 1,
            body = b (float[n] s, float[n] e) => (float[n] t, float[n] o) {
            r = Add(s, e) t = Tanh(r) o = Identity(t) }> (u, rows)""",
    "nested": """k = Constant<value = bool {1}>()
        a = Loop (turns, k, u) <body = b (int64 i, bool on, float[n] s) => (bool go, float[n] t) {
            go = Identity(on)
            t = Loop (i, on, s) <body = c (int64 j, bool in, float[n] v) => (bool out, float[n] w) {
                out = Identity(in) w = Tanh(v) }> }>""",
}
_MODEL = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[n] x, float[L, n] rows, int64 turns, bool c) => (float[n] y) {
        u = Softmax(x)
        v = If (c) <
            then_branch = t () => (float[n] a) { LOOP },
            else_branch = e () => (float[n] b2) { b2 = Neg(u) }>
        y = Softmax(v)
    }"""


def check(kind: str) -> None:
    """Calls with a condition that is false first, in memory that holds ones."""
    model = parser.parse_model(_MODEL.replace("LOOP", _LOOPS[kind]))
    there, reference = (burnx.load(model, device=name) for name in (DEVICE, "reference"))
    driver: Any = _driver()
    random = np.random.default_rng(0)
    for condition in (False, True, False):
        given = {
            "x": random.standard_normal(5).astype(np.float32),
            "rows": random.standard_normal((3, 5)).astype(np.float32),
            "turns": np.array(4),
            "c": np.array(condition),
        }
        (expected,) = reference.run(given).values()
        if driver.arena.memory is not None:
            driver.fill((driver.arena.memory, 0), driver.arena.size, 1)
            driver.arena.user = None
        (found,) = there.run(given).values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _driver() -> Any:
    """The device, with an arena that has been used."""
    from burnx.runtime.devices.opencl import find_driver

    burnx.compile(lambda t: t @ t, DEVICE)(np.ones((64, 64), np.float32))
    return find_driver(DEVICE)


@pytest.mark.parametrize("kind", _LOOPS)
def test_a_loop_in_a_branch_that_is_not_taken_ends(kind: str) -> None:
    """In a process of its own: it used to go on for ever."""
    code = f"from tests.unit.gpu.test_untaken import check; check({kind!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_a_call_that_is_broken_off_leaves_the_next_one_all_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def layers(x: Any) -> Any:
        return burnx.ops.relu(x @ x) @ x @ x

    model = burnx.compile(layers, DEVICE)
    x = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    bind, calls = Native._bind_one, []

    def interrupted(self: Native, *given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return bind(self, *given)

    monkeypatch.setattr(Native, "_bind_one", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model(x).numpy()
    expected = burnx.compile(layers, "reference")(x).numpy()
    for _ in range(3):
        np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-5, atol=1e-6)
