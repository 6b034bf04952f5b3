"""What tests of devices with a driver share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from burnx.runtime.devices.gpu import choosing, library_products, tuning
from burnx.runtime.devices.gpu.library import LIBRARY
from burnx.runtime.kept import identity
from burnx.runtime.tuning.roofline import Roofline
from tests.unit.gpu.numpy_library import DEVICE, NumpyLibrary


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NumpyLibrary]:
    """NumPy as the library of the OpenCL device, which always wins; no results of races, no functions."""
    from burnx.runtime.devices.opencl import find_driver
    from burnx.runtime.devices.opencl.driver import OpenCL

    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    monkeypatch.setattr(identity, "SETTLED_NS", 0)
    driver = find_driver(DEVICE)
    found = NumpyLibrary(driver)
    monkeypatch.setattr(
        driver, "libraries", dict.fromkeys(("products", "convolutions", "attentions"), "numpy")
    )
    monkeypatch.setattr(OpenCL, "bind_gemm", lambda self, *given: found.bind(*given))
    convolve = found.bind_convolution
    monkeypatch.setattr(OpenCL, "bind_convolution", lambda self, *given: convolve(*given))
    attend = found.bind_attention
    monkeypatch.setattr(OpenCL, "bind_attention", lambda self, *given: attend(*given))
    monkeypatch.setattr(library_products, "LEAST", 1)
    monkeypatch.setattr(tuning, "device_roofline", lambda driver: Roofline(1e15, 1e15))
    own = choosing.candidates  # one of them is enough to be compared with
    monkeypatch.setattr(choosing, "candidates", lambda *given: own(*given)[:1])
    times = {True: 1, False: 1000}
    monkeypatch.setattr(tuning._Trial, "time", lambda self, form: times[form.kind == LIBRARY])
    kept = dict(driver.functions)
    driver.functions.clear()
    yield found
    driver.functions.clear()
    driver.functions.update(kept)
