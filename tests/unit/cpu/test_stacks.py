"""Programs that are run from threads with little stack, and what kernels take of it at most."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from native_code import run_python, start_python

from burnx.runtime.devices.cpu.target import find_target

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stacks of Linux")
multiplies = pytest.mark.skipif(
    find_target().bfloat16 != "amx", reason="this processor has no matrix unit for bfloat16"
)

PRODUCT = """
import os, resource, sys, tempfile, threading
import numpy as np
import onnx
from onnx import helper, numpy_helper
import burnx

def make(rows, inner, columns):
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype("f") for s in ((rows, inner), (inner, columns)))
    given = [helper.make_tensor_value_info("x", 1, x.shape)]
    made = [helper.make_tensor_value_info("y", 1, (rows, columns))]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", given, made, [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "product.onnx")
        onnx.save(model, path)
        function = burnx.load(path, device="cpu")
        function.run({"x": x})
    return function, x, w

def check(function, x, w):
    off = np.abs(function.run({"x": x})["y"] - x.astype("d") @ w).max()
    assert off < 1e-3, off
    print("fine", flush=True)
"""


@linux
@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_with_little_stack_run_large_products(threads: str) -> None:
    code = """
threading.stack_size(128 << 10)  # also when threads of the pool are started
function, x, w = make(230, 1300, 300)
for size_kb in (128, 512, 1024, 2048):
    threading.stack_size(size_kb << 10)
    thread = threading.Thread(target=check, args=(function, x, w))
    thread.start()
    thread.join()
    assert threading.stack_size() == size_kb << 10
"""
    assert run_python(PRODUCT + code, BURNX_THREADS=threads) == "fine\n" * 4


@linux
def test_a_process_with_little_stack_runs_large_products() -> None:
    code = """
if "AGAIN" not in os.environ:
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))
    os.execve(sys.executable, sys.orig_argv, {**os.environ, "AGAIN": "1"})
check(*make(230, 1300, 300))
"""
    assert run_python(PRODUCT + code, BURNX_THREADS="2") == "fine\n"


@linux
def test_ctrl_c_ends_what_runs_on_another_thread() -> None:
    code = """
from burnx.runtime.devices.cpu import stacks
import numpy as np, threading
from native_code import load, make_args, make_steps
from burnx.runtime.devices.cpu.machine import JUMP, RUN, THEN_BARRIER
stacks._here.has_stack = False
args = make_args(np.zeros(1))
steps = make_steps([(RUN | THEN_BARRIER, load("nothing"), args.ctypes.data), (JUMP, 0)], args)
try:
    print("ready", flush=True)
    steps.run(2)
except KeyboardInterrupt:
    print([each.name for each in threading.enumerate() if each.name == "burnx-call"], flush=True)
"""
    process = start_python(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, problems = process.communicate(timeout=30)
    assert (out, process.returncode) == ("[]\n", 0), problems


@linux
def test_without_another_thread_it_is_an_error() -> None:
    code = """
from burnx.errors import DeviceError
from burnx.runtime.devices.cpu import stacks
function, x, w = make(230, 1300, 300)
stacks._here.has_stack = False
def start(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
try:
    check(function, x, w)
except DeviceError as error:
    print(error)
"""
    out = run_python(PRODUCT + code, BURNX_THREADS="1")
    assert "KB of stack" in out and "can't start new thread" in out


@linux
@multiplies
@pytest.mark.parametrize("sizes", [(224, 1536, 512), (224, 3072, 4096), (48, 64, 300_000)])
def test_kernels_take_no_more_stack_than_is_said(sizes: tuple[int, int, int]) -> None:
    code = f"""
import sys, threading
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_squares import aligned, float32, pack, product, random, run
from burnx.runtime.devices.cpu.stacks import least_stack
import numpy as np
rows, inner, columns = sizes = {sizes}
a, b = random(1, (rows, inner), float32), random(2, (inner, columns), float32)
c = np.zeros((rows, columns), np.float32)
for width in (16, 32):
    function, packing = product(width)
    packed = aligned(pack(b, packing))
    threading.stack_size(least_stack())
    run(function, (a, packed, c), (rows, columns, inner))
    threading.stack_size(0)
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
print("fine")
"""
    assert run_python(code) == "fine\n"
