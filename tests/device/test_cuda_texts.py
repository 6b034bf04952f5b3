"""Every CUDA kernel that is written for a part of the backend tests and for some models compiles, without a GPU.

Plain ``pytest`` takes a fiftieth of the tests, ``-m long`` a tenth and the models.
"""

from __future__ import annotations

import models
import nvrtc
import pytest
from agreement import outcome
from compiling_device import compiling_device, faults
from tenth import one_of

import burnx
from burnx.conformance.backend_tests import BackendTest, input_names
from burnx.errors import BurnxError

pytestmark = pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason=nvrtc.MISSING)

MODELS = ("resnet50.ts", "mobilenet_v2.dynamo", "vit_b_16.dynamo", "bert_base.dynamo", "magika")
"""A convolutional network, a depthwise one, two with attention, and one that trained people ship."""


def compile_tests(tests: list[BackendTest]) -> int:
    """Compile what the tests need; how many functions that are."""
    with compiling_device() as device:
        for test in tests:
            model = test.load_model()
            for data in test.load_data(model)[:1]:
                given = dict(zip(input_names(model), data.inputs, strict=True))
                found = outcome(burnx.load(model, device="cuda:0"), given)
                # an error is one of sizes that follow from values which are not there
                assert "kernel" not in str(found) or not isinstance(found, BurnxError), test.name
        assert faults(device) == []
        return len(device.codes)


def test_kernels_of_some_tests_compile() -> None:
    assert compile_tests(one_of(50)) > 30


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_kernels_of_a_tenth_of_the_tests_compile(part: int) -> None:
    assert compile_tests(one_of(10)[part::5]) > 30


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_kernels_of_a_model_compile(name: str) -> None:
    entry = models.entries()[name]
    try:
        path = models.path(entry)
    except models.Unavailable as error:
        pytest.skip(str(error))
    with compiling_device() as device:
        burnx.load(path, device="cuda:0").run(models.inputs(entry))
        assert device.codes
        assert faults(device) == []


def test_a_text_that_is_no_cuda_is_told() -> None:
    assert nvrtc.fault_of("__global__ void f() {}") == ""
    assert "identifier" in nvrtc.fault_of("__global__ void f() { g(); }")
