"""What is asked of cuDNN, as far as that can be seen without it: its ways are counted, and refusals say why.

What it computes is tested in tests/device/test_cuda.py and test_cuda_attention.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burnx.errors import DeviceError
from burnx.runtime.devices.cuda import packages
from burnx.runtime.devices.cuda.cudnn import attention, convolution, plans
from burnx.runtime.devices.cuda.cudnn.attention import ATTENTION, describe_attention
from burnx.runtime.devices.gpu.library_attention import Attention, Heads
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

ATTENDED = Attention(
    given="bfloat16",
    queries=Heads(0, 0, (2, 4, 77, 64), (77 * 256, 64, 256)),
    keys=Heads(1, 0, (2, 2, 90, 64), (90 * 256, 64, 256)),
    values=Heads(1, 128, (2, 2, 90, 80), (90 * 256, 80, 256)),
    result=Heads(3, 0, (2, 4, 77, 80), (77 * 320, 80, 320)),
    factor=0.125,
    bias=Heads(2, 0, (1, 4, 77, 90), (4 * 77 * 90, 77 * 90, 90)),
    added="float32",
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
    ways = plans.Ways(0, "a convolution", Graph())
    assert [ways.write(rank) for rank in (1, 0, 2, 1)] == [b"2", b"1", b"4", b"2"]
    with pytest.raises(DeviceError, match="cuda:0: cuDNN knows 3 ways of a convolution"):
        ways.write(3)


def test_a_refusal_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        class data_type:
            FLOAT = HALF = BFLOAT16 = BOOLEAN = 0

        def pygraph(self, **_: Any) -> Any:
            raise RuntimeError("no engine\nfor this graph")

    plans._ways_of.cache_clear()
    monkeypatch.setattr(plans, "open_library", lambda number: (Library(), None))
    with pytest.raises(DeviceError, match="cuda:0: .* a convolution: no engine for this graph"):
        plans._ways_of(0, convolution.CONVOLUTION, ASKED)
    with pytest.raises(DeviceError, match="cuda:0: .* an attention: no engine for this graph"):
        plans._ways_of(0, ATTENTION, ATTENDED)


def test_without_the_package_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> str:
        if name == plans.FRONTEND:
            raise packages.PackageNotFoundError(name)
        return "9.0"

    monkeypatch.setattr(packages, "version", find)
    assert plans.find_library() == {}
    monkeypatch.setattr(packages, "version", lambda name: "9.0")
    assert plans.FRONTEND in plans.find_library()


def test_a_convolution_is_described_as_it_is_asked_for() -> None:
    """The package writes graphs without a device; what it would run is asked for elsewhere."""
    library = pytest.importorskip("cudnn")
    graph = convolution.describe_convolution(library, None, ASKED)
    told = {each.uid: (list(each.dim), list(each.stride)) for each in graph.tensors.values()}
    assert told[convolution.IMAGE] == ([2, 32, 15, 17], [PLACES[0], 1, PLACES[1], PLACES[2]])
    assert told[convolution.FILTER] == ([64, 32, 3, 3], [3 * 3 * 32, 1, 3 * 32, 32])
    assert told[convolution.RESULT] == ([2, 64, 13, 15], [RESULT[0], 1, RESULT[1], RESULT[2]])
    assert told[convolution.OTHERS] == ([1, 64, 1, 1], [64, 1, 64, 64])
    assert told[convolution.OTHERS + 2] == ([2, 64, 13, 15], [RESULT[0], 1, RESULT[1], RESULT[2]])
    assert told[convolution.OTHERS + 3] == ([1, 1, 1, 1], [1, 1, 1, 1])
    kinds = [each.node_type.name.lower() for each in graph.nodes]
    assert len(kinds) == 5, kinds


@pytest.mark.parametrize("biased", [True, False])
def test_an_attention_is_described_as_it_is_asked_for(biased: bool) -> None:
    library = pytest.importorskip("cudnn")
    asked = ATTENDED if biased else replace(ATTENDED, bias=None, added="")
    graph = describe_attention(library, None, asked)
    told = {
        each.uid: (tuple(each.dim), tuple(each.stride), each.get_data_type().name)
        for each in graph.tensors.values()
    }
    wanted = [
        (each, "BFLOAT16") for each in (asked.queries, asked.keys, asked.values, asked.result)
    ]
    wanted += [(ATTENDED.bias, "FLOAT")] if biased else []
    assert told == {
        uid: (heads.extents, (*heads.steps, 1), dtype)
        for uid, (heads, dtype) in enumerate(wanted, attention.QUERY)
    }
    (node,) = graph.nodes
    names = {"q", "k", "v"} | ({"bias"} if biased else set())
    assert set(node.inputs) == names
    assert node.params == {"generate_stats": False, "attn_scale": 0.125}
    assert node.compute_data_type.name == "FLOAT"
    assert "Stats" not in node.outputs
