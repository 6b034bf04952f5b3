"""A process that is forked after a device was used is refused it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyopencl")

SCRIPT = """
import os, sys
import numpy as np
import burnx
from burnx import ops

model, x = burnx.compile(lambda x: ops.exp(x), "opencl:0"), np.zeros(3, np.float32)
model(x)
child = os.fork()
if child == 0:
    try:
        model(x)
    except burnx.BurnxError as error:
        print(error, flush=True)
        os._exit(0)
    os._exit(1)
_, status = os.waitpid(child, 0)
assert model(x).numpy().tolist() == [1, 1, 1]
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_is_told_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "opencl:0 was used before this process was forked" in done.stdout
