"""What is asked of cuDNN, as far as that can be seen without it: its ways are counted, and refusals say why.

What it computes is tested in tests/device/test_cuda.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from burnx.errors import DeviceError
from burnx.runtime.devices.cuda import cudnn
from burnx.runtime.devices.gpu.library_convolution import Convolution, Image, Stage

PLACES = (15 * 17 * 32, 17 * 32, 32)
RESULT = (13 * 15 * 64, 15 * 64, 64)
ASKED = Convolution(
    given="float16",
    made="float16",
    pictures=2,
    groups=1,
    channels=32,
    kernels=64,
    size=(15, 17),
    out=(13, 15),
    window=(3, 3),
    strides=(1, 1),
    dilations=(1, 1),
    image=Image(0, 0, PLACES),
    filter=(1, 0, (0, 1, 3 * 32 * 64, 32 * 64, 64)),
    result=Image(4, 0, RESULT),
    stages=(
        Stage("add", "float32", Image(2, 0, (0, 0, 0))),
        Stage("round", "float16"),
        Stage("add", "float16", Image(3, 0, RESULT)),
        Stage("max", "float32", None, 0.0),
    ),
)


class Graph:
    """A graph with five plans, of which the first and the fourth cannot be built."""

    def __init__(self) -> None:
        self.chosen = -1

    def get_execution_plan_count(self) -> int:
        return 5

    def build_plan_at_index(self, index: int) -> None:
        if index in (0, 3):
            raise RuntimeError("Deselecting execution plan")
        self.chosen = index

    def serialize(self, as_bytes: bool) -> bytes:
        assert as_bytes
        return str(self.chosen).encode()


def test_ways_are_those_that_can_be_built() -> None:
    plans = cudnn._Plans(0, Graph())
    assert [plans.write(rank) for rank in (1, 0, 2, 1)] == [b"2", b"1", b"4", b"2"]
    with pytest.raises(DeviceError, match="cuda:0: cuDNN knows 3 ways of a convolution"):
        plans.write(3)


def test_a_refusal_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        class data_type:
            FLOAT = HALF = BFLOAT16 = BOOLEAN = 0

        def pygraph(self, **_: Any) -> Any:
            raise RuntimeError("no engine\nfor this graph")

    cudnn._plans_of.cache_clear()
    monkeypatch.setattr(cudnn, "_open", lambda number: (Library(), None))
    with pytest.raises(DeviceError, match="cuda:0: .* a convolution: no engine for this graph"):
        cudnn._plans_of(0, ASKED)


def test_without_the_package_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> str:
        if name == cudnn.FRONTEND:
            raise cudnn.PackageNotFoundError(name)
        return "9.0"

    monkeypatch.setattr(cudnn, "version", find)
    assert cudnn.find_library() == {}
    monkeypatch.setattr(cudnn, "version", lambda name: "9.0")
    assert cudnn.FRONTEND in cudnn.find_library()


def test_a_convolution_is_described_as_it_is_asked_for() -> None:
    """The package writes graphs without a device; what it would run is asked for elsewhere."""
    library = pytest.importorskip("cudnn")
    graph = cudnn._describe(library, None, ASKED)
    told = {each.uid: (list(each.dim), list(each.stride)) for each in graph.tensors.values()}
    assert told[cudnn.IMAGE] == ([2, 32, 15, 17], [PLACES[0], 1, PLACES[1], PLACES[2]])
    assert told[cudnn.FILTER] == ([64, 32, 3, 3], [3 * 3 * 32, 1, 3 * 32, 32])
    assert told[cudnn.RESULT] == ([2, 64, 13, 15], [RESULT[0], 1, RESULT[1], RESULT[2]])
    assert told[cudnn.OTHERS] == ([1, 64, 1, 1], [64, 1, 64, 64])
    assert told[cudnn.OTHERS + 2] == ([2, 64, 13, 15], [RESULT[0], 1, RESULT[1], RESULT[2]])
    assert told[cudnn.OTHERS + 3] == ([1, 1, 1, 1], [1, 1, 1, 1])
    kinds = [each.node_type.name.lower() for each in graph.nodes]
    assert len(kinds) == 5, kinds
