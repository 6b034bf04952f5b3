"""Binaries of OpenCL programs and cubins on disk: found again, refused when damaged, never taken for another device's."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from native_code import run_python

from burnx.errors import DeviceError, UsageError
from burnx.runtime.devices.cuda.matrices import KINDS, find_matrices, write_group_text, write_text
from burnx.runtime.devices.gpu.binaries import load_or_build, name_binary
from tests.unit.gpu.opencl_bench import compile_text

STAMP = {"for": "opencl", "device": "d", "driver": "1"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def build_twice(stamp: Any = STAMP, load: Any = bytes, damage: Any = None) -> list[str]:
    """What happened when a text was wanted twice."""
    built: list[str] = []

    def build() -> bytes:
        built.append("built")
        return b"binary"

    for _ in range(2):
        assert load_or_build("text", stamp, load, build) == b"binary"
        if damage:
            damage()
    return built


def test_a_binary_is_built_once() -> None:
    assert build_twice() == ["built"]


def test_a_damaged_binary_is_built_anew(cache: Path) -> None:
    def damage() -> None:
        (file,) = cache.iterdir()
        file.write_bytes(file.read_bytes()[:-1])

    assert build_twice(damage=damage) == ["built", "built"]


def test_a_binary_that_the_driver_refuses_is_built_anew() -> None:
    refused = iter([True, False, False])

    def load(image: bytes) -> bytes | None:
        return None if next(refused) else image

    load_or_build("text", STAMP, bytes, lambda: b"old")
    assert load_or_build("text", STAMP, load, lambda: b"new") == b"new"


def test_without_a_cache_each_time_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNX_CACHE", "off")
    assert build_twice() == ["built", "built"]


def test_names_depend_on_the_text_and_the_whole_stamp() -> None:
    stamps = [STAMP, {**STAMP, "driver": "2"}, {**STAMP, "device": "e"}, {**STAMP, "for": "cuda"}]
    names = {name_binary(text, stamp) for text in ("a", "b") for stamp in stamps}
    assert len(names) == 8
    assert {name.rpartition(".")[2] for name in names} == {"cl", "cubin"}


# ------------------------------------------------------------------------------------------------------- opencl
CALL = """
import numpy as np, burnx
from burnx import ops
import pyopencl
texts = []
made = pyopencl.Program.__init__
def watched(self, context, *rest):
    texts.append("text" if len(rest) == 1 else "binary")
    made(self, context, *rest)
pyopencl.Program.__init__ = watched
x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
y = burnx.compile(lambda x: ops.exp(x) + 1, "opencl:0")(x).numpy()
print(y.tobytes().hex(), texts)
"""


def test_a_second_process_builds_no_program() -> None:
    pytest.importorskip("pyopencl")
    cold, warm = run_python(CALL).split(maxsplit=1), run_python(CALL).split(maxsplit=1)
    assert cold[0] == warm[0]
    assert "'text'" in cold[1] and warm[1].strip() == "['binary']"


def test_a_text_that_is_no_opencl_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pyopencl = pytest.importorskip("pyopencl")
    from burnx.runtime.devices.opencl import find_driver
    from burnx.runtime.devices.opencl.programs import build_program

    driver = find_driver("opencl:0")
    with pytest.raises(DeviceError, match="opencl:0 does not take a kernel"):
        build_program(driver.queue.context, driver.device, "this is no C", "opencl:0")
    assert pyopencl.VERSION


# --------------------------------------------------------------------------------------------------------- cuda
class NvrtcError(Exception):
    pass


class DriverError(Exception):
    pass


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of CuPy as modules are made with: compiles "texts" by upper case."""
    texts: dict[int, tuple[str, tuple[str, ...]]] = {}
    calls: list[str] = []

    def create(text: str, name: str, headers: tuple[()], names: tuple[()]) -> int:
        texts[len(texts)] = (text, ())
        return len(texts) - 1

    def compile_program(program: int, options: tuple[str, ...]) -> None:
        calls.append("compiled")
        if "wrong" in texts[program][0]:
            raise NvrtcError("NVRTC_ERROR_COMPILATION")
        texts[program] = (texts[program][0], options)

    nvrtc = SimpleNamespace(
        getVersion=lambda: (13, 2),
        createProgram=create,
        compileProgram=compile_program,
        getCUBIN=lambda program: " ".join([texts[program][0], *texts[program][1]]).encode(),
        getProgramLog=lambda program: "kernel.cu(1): error",
        destroyProgram=lambda program: calls.append("destroyed"),
        NVRTCError=NvrtcError,
    )

    class Module:
        def load(self, image: bytes) -> None:
            if image.startswith(b"refused"):
                raise DriverError("no image")
            self.image = image

        def get_function(self, name: str) -> tuple[str, bytes]:
            return name, self.image

    driver = SimpleNamespace(CUDADriverError=DriverError)
    cuda = ModuleType("cupy.cuda")
    for name, value in {
        "nvrtc": nvrtc,
        "driver": driver,
        "function": SimpleNamespace(Module=Module),
    }.items():
        setattr(cuda, name, value)
    whole = ModuleType("cupy")
    whole.cuda = cuda  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", whole)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return calls


def test_a_cubin_is_compiled_once_for_an_architecture(cupy: list[str], cache: Path) -> None:
    from burnx.runtime.devices.cuda.modules import load_function, make_stamp

    for capability, architecture in ((90, "90a"), (90, "90a"), (80, "80")):
        name, image = load_function("text", "f", make_stamp(capability), "cuda:0")
        assert name == "f" and f"-arch=sm_{architecture}".encode() in image
    assert cupy == ["compiled", "destroyed"] * 2
    assert sorted(each.suffix for each in cache.iterdir()) == [".cubin", ".cubin"]


@pytest.mark.parametrize(("asked", "extra"), [("", set()), ("0", set()), ("1", {"tfloat32"})])
def test_tf32_is_used_where_it_is_asked_for(asked: str, extra: set[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("BURNX_TF32", asked)
    assert find_matrices(90) == {"float16", "bfloat16", *extra}
    assert find_matrices(75) == set()


def test_what_else_is_asked_of_tf32_is_an_error(monkeypatch: Any) -> None:
    monkeypatch.setenv("BURNX_TF32", "yes")
    with pytest.raises(UsageError, match="BURNX_TF32 is 1"):
        find_matrices(90)


@pytest.mark.parametrize("dtype", KINDS)
def test_what_measures_matrix_units_is_cuda(dtype: str) -> None:
    compile_text(write_text(KINDS[dtype]))
    compile_text(write_group_text(dtype))


def test_what_nvrtc_says_is_said(cupy: list[str]) -> None:
    from burnx.runtime.devices.cuda.modules import load_function, make_stamp

    with pytest.raises(DeviceError, match=r"kernel.cu\(1\): error"):
        load_function("wrong", "f", make_stamp(90), "cuda:0")
    assert cupy == ["compiled", "destroyed"]
    with pytest.raises(DeviceError, match="does not load"):
        load_function("refused", "f", make_stamp(90), "cuda:0")


def test_binaries_of_a_device_travel_in_an_environment(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    import burnx
    from burnx.runtime.environments.carry import export_environment, import_environment

    burnx.compile(lambda x: x * 3, "opencl:0")(np.ones(5, np.float32) * 7)
    load_or_build("text", {"for": "opencl", "device": "another"}, bytes, lambda: b"binary")
    export_environment("default", str(tmp_path / "file"))
    report = import_environment(str(tmp_path / "file"), "other")
    assert report.left == {"kernel": 1}
    ((why, count),) = report.reasons.items()
    assert why.startswith("device is 'another' there") and count == 1
