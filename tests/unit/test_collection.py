"""The search for cycles is put off while a program is made, and goes on afterwards as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Barrier, Thread

import numpy as np
import pytest

import burnx
from burnx.runtime.collection import collection_put_off


@pytest.fixture(autouse=True, params=[True, False], ids=["on", "off"])
def state(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the search goes on when a test begins."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_it_is_off_inside_and_as_before_behind(state: bool) -> None:
    with collection_put_off():
        assert not gc.isenabled()
        with collection_put_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == state


def test_an_error_inside_leaves_it_as_before(state: bool) -> None:
    with pytest.raises(ZeroDivisionError), collection_put_off():
        _ = 1 / 0
    assert gc.isenabled() == state


def test_the_last_of_several_threads_puts_it_back(state: bool) -> None:
    inside, first_left, found = Barrier(2), Barrier(2), []

    def stay() -> None:
        with collection_put_off():
            inside.wait()
            first_left.wait()
            found.append(gc.isenabled())

    thread = Thread(target=stay)
    with collection_put_off():
        thread.start()
        inside.wait()
    found.append(gc.isenabled())
    first_left.wait()
    thread.join()
    assert found == [False, False] and gc.isenabled() == state


def test_what_compiles_leaves_it_as_before(state: bool) -> None:
    seen = []

    def double(x: burnx.Tensor) -> burnx.Tensor:
        seen.append(gc.isenabled())
        return x + x

    assert burnx.compile(double)(np.ones(3, np.float32)).numpy().tolist() == [2, 2, 2]
    assert seen == [False] and gc.isenabled() == state
