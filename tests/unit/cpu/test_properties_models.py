"""Every kernel of real models as text, as C, and as code for processors elsewhere; Haswell's code computes the same."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import skeletons

from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import Step, steps_in
from burnx.importer.onnx_file import read_model
from burnx.importer.onnx_graph import import_graph
from burnx.kernels.clike import clike
from burnx.kernels.text import kernel_text
from burnx.llvm.contractions.plan import choose_packing
from burnx.llvm.emitter import emit
from burnx.llvm.target import Target, describe
from burnx.lowering import lower
from burnx.runtime.compiled.segments import Segment, cut
from burnx.runtime.devices.cpu.compile import compile_object
from burnx.runtime.devices.cpu.target import describe_named, find_target

ROOT = Path(__file__).parents[3]
MODELS = (
    "digits",
    "llama_tiny.dynamo",
    pytest.param("mobilenet_v2.ts.qdq_s8s8", marks=pytest.mark.models),
    pytest.param("bert_tiny.dynamo.qdq", marks=pytest.mark.models),
)
TARGETS = {
    "skylake-avx512": describe_named("x86_64-unknown-linux-gnu", "skylake-avx512"),
    "sapphirerapids": describe_named("x86_64-unknown-linux-gnu", "sapphirerapids"),
    "neoverse-n1": describe("aarch64-unknown-linux-gnu", "neoverse-n1", set(), ""),
    "apple-m1": describe("arm64-apple-darwin", "apple-m1", set(), ""),
}


def model(name: str) -> Any:
    if name == "digits":
        return files("burnx").joinpath("demo/digits.onnx").read_bytes()
    return skeletons.load(name)


@lru_cache(maxsize=4)
def steps_of(name: str, target: Target) -> tuple[Step, ...]:
    """A model's steps for a processor, those with equal kernels once."""
    graph = import_graph(read_model(model(name)))
    program = lower(graph, [value.type for value in graph.inputs])
    traits = Traits(target.lanes, partial(choose_packing, target))
    found: dict[str, Step] = {}
    for unit in cut(program).units:
        if isinstance(unit, Segment):
            kept = frozenset(unit.outputs)
            made = schedule(unit.instructions, kept, kept, traits)
            found |= {kernel_text(each.kernel): each for each in steps_in(made.steps)}
    return tuple(found.values())


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_prints_as_text_and_as_c(name: str) -> None:
    steps = steps_of(name, find_target())
    assert len(steps) > 3
    for step in steps:
        assert kernel_text(step.kernel).startswith("kernel(")
        assert clike(step.kernel).count("{") == clike(step.kernel).count("}") > 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_kernel_has_code_for_processors_elsewhere(name: str, target: Target) -> None:
    texts = [emit(step.kernel, target) for step in steps_of(name, target)]
    joined = [text.replace("@kernel(", f"@kernel{place}(") for place, text in enumerate(texts)]
    for text in joined:
        assert len(compile_object(text, target)) > 300


def test_haswells_code_computes_the_same() -> None:
    tests = "tests/unit/cpu/test_properties_inputs.py"
    chosen = "threads or Zero or narrow or window"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, "-k", chosen]
    environment = {**os.environ, "BURNX_CPU": "haswell"}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-2000:]
    assert " passed" in found.stdout
