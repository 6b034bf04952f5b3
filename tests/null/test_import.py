"""``import burnx`` costs next to nothing and starts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest

import burnx

LATE = ("onnx", "onnxruntime", "jinja2", "networkx", "llvmlite", "pyopencl", "cupy", "torch")
PROBE = """
import json, os, sys
import burnx
tasks = "/proc/self/task"
print(json.dumps({
    "modules": sorted(sys.modules),
    "threads": len(os.listdir(tasks)) if os.path.isdir(tasks) else 1,
}))
"""


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    """What a new process holds after ``import burnx``; NumPy's own thread pool is kept out."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("module", LATE)
def test_import_leaves_out(fresh: dict[str, Any], module: str) -> None:
    assert module not in fresh["modules"]


def test_import_starts_no_thread(fresh: dict[str, Any]) -> None:
    assert fresh["threads"] == 1


def test_public_names_are_few_and_exist() -> None:
    assert len(burnx.__all__) <= 25
    assert [name for name in burnx.__all__ if not hasattr(burnx, name)] == []


def test_types_ship() -> None:
    assert files("burnx").joinpath("py.typed").is_file()
