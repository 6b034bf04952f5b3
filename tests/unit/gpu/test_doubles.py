"""OpenCL devices without float64: texts that do not speak of it, and an error that names the node where they would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import models
import numpy as np
import pytest
from onnx import parser
from tenth import one_of

import burnx
from burnx.conformance.backend_tests import input_names
from burnx.errors import BurnxError, UnsupportedError
from burnx.gpu.dialects import OPENCL
from burnx.gpu.dtypes import NAMED
from burnx.gpu.emitter import prelude
from burnx.gpu.functions import _FLOAT_PIECES
from burnx.runtime.devices.opencl import programs
from burnx.runtime.devices.opencl.driver import OpenCL, find_driver

pytest.importorskip("pyopencl", reason="pyopencl is not installed")
# a number with a point or an exponent that does not end in f is one of float64
LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*([eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?![\w.])")
DOUBLE = re.compile(r"\bdouble|f64|fp64")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The programs that a device without float64 is given."""
    driver, seen = find_driver("opencl:0"), []
    build = programs.build_program

    def noted(context: Any, device: Any, text: str, name: str) -> Any:
        seen.append(text)
        return build(context, device, text, name)

    monkeypatch.setattr("burnx.runtime.devices.opencl.driver.build_program", noted)
    limits, functions = driver.limits, dict(driver.functions)
    driver.limits = replace(limits, doubles=False)
    driver.functions.clear()
    yield seen
    driver.limits = limits
    driver.functions.update(functions)


def check(texts: list[str]) -> None:
    for text in texts:
        assert DOUBLE.search(text) is None
        assert LITERAL.search(text) is None, LITERAL.search(text)


def test_programs_without_float64_do_not_speak_of_it(texts: list[str]) -> None:
    refused = 0
    for test in one_of(150):
        model = test.load_model()
        (data, *_) = test.load_data(model)
        given = dict(zip(input_names(model), data.inputs, strict=True))
        try:
            burnx.load(model, device="opencl:0").run(given)
        except UnsupportedError as error:
            refused += "float64" in str(error)
        except BurnxError:
            continue
    assert len(texts) > 8
    assert refused < 5
    check(texts)


def test_a_model_that_people_ship(texts: list[str]) -> None:
    entry = models.entries()["silero_vad_16k_op15"]
    try:
        path = models.path(entry)
    except models.Unavailable as error:
        pytest.skip(str(error))
    burnx.load(path, device="opencl:0").run(models.inputs(entry))
    assert texts
    check(texts)


def test_every_function_of_floats_is_one_of_float32() -> None:
    names = {f"{name}_f32" for name in _FLOAT_PIECES}
    names |= {f"f32_to_{type_}" for type_ in NAMED if type_[0] in "iu"}
    names |= {
        f"f32_to_{name}" for name in ("float16", "bfloat16", "float8_e4m3fn", "float4_e2m1fn")
    }
    names |= {f"{name}_to_f32" for name in ("float16", "bfloat16", "float8_e5m2", "float4_e2m1fn")}
    names |= {f"group_{name}_f32" for name in ("add", "mul", "min", "max")}
    check([prelude(OPENCL, names)])


TEXT = """<ir_version: 8, opset_import: ["": 17]>
small (float[n] x) => (float[n] y) {
    [widen] wide = Cast <to = 11> (x) [square] square = Mul (wide, wide) [back] y = Cast <to = 1> (square)
}"""


def test_a_program_that_needs_float64_is_refused_by_name(texts: list[str]) -> None:
    model, x = parser.parse_model(TEXT), np.arange(5, dtype=np.float32)
    with pytest.raises(UnsupportedError, match=r"opencl:0 \(.*\) has no float64, which .+ needs"):
        burnx.load(model, device="opencl:0")(x)
    other = burnx.load(model, device="opencl:0", fallback="cpu")
    assert np.array_equal(other(x), x * x)
    assert texts == []


def test_the_device_here_has_what_it_says() -> None:
    driver = find_driver("opencl:0")
    assert isinstance(driver, OpenCL)
    assert driver.limits.doubles == ("cl_khr_fp64" in driver.device.extensions)
    model, x = parser.parse_model(TEXT), np.arange(5, dtype=np.float32)
    assert not driver.limits.doubles or np.array_equal(
        burnx.load(model, device="opencl:0")(x), x * x
    )
