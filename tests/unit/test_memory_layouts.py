"""Where the elements of reshaped and transposed values lie, against NumPy."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnx.shape import Shape, symbol
from burnx.shape.layouts import layout_of, order_of, reshaped, transposed

Array = np.ndarray[Any, Any]


def lies_in(places: Array, order: tuple[int, ...]) -> bool:
    """Whether elements at these places of memory follow each other with axes in this order."""
    return bool((places.transpose(order).ravel() == np.arange(places.size)).all())


@st.composite
def shapes_of(draw: Any, size: int) -> Shape:
    """A shape with so many elements."""
    found: list[int] = []
    while size > 1:
        divisor = draw(st.sampled_from([d for d in range(2, size + 1) if size % d == 0]))
        found.append(divisor)
        size //= divisor
    for place in draw(st.lists(st.integers(0, len(found)), max_size=2)):
        found.insert(place, 1)
    return tuple(found) or (1,)


@given(st.data())
def test_an_order_is_found_where_there_is_one(data: Any) -> None:
    shape = data.draw(shapes_of(data.draw(st.sampled_from([12, 24, 60, 72]))))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    places = np.arange(np.prod(shape)).reshape([shape[axis] for axis in order])
    places, layout = places.transpose(np.argsort(order)), layout_of(shape, order)
    for _ in range(data.draw(st.integers(1, 4))):
        target = data.draw(shapes_of(places.size))
        after = reshaped(layout, target)
        if after is None:  # two shapes that share no pieces
            return
        places, layout = places.reshape(target), after
        perm = data.draw(st.permutations(range(len(target))))
        places, layout = places.transpose(perm), transposed(layout, perm)
        assert layout.shape == places.shape
    found = order_of(layout)
    assert found is None or lies_in(places, found)
    if found is None:
        assert not any(lies_in(places, each) for each in permutations(range(places.ndim)))


def test_keys_that_are_turned_by_way_of_three_axes_stay_as_they_were_made() -> None:
    batch, steps = symbol("batch"), symbol("steps")
    layout = layout_of((batch, steps, 768), (0, 1, 2))
    for change in (
        lambda layout: reshaped(layout, (batch, steps, 12, 64)),
        lambda layout: transposed(layout, (0, 2, 1, 3)),
        lambda layout: reshaped(layout, (batch * 12, steps, 64)),
        lambda layout: transposed(layout, (0, 2, 1)),
        lambda layout: reshaped(layout, (batch, 12, 64, steps)),
    ):
        layout = change(layout)
        assert layout is not None
    assert order_of(layout) == (0, 3, 1, 2)


@pytest.mark.parametrize("target", [(0, 3), (4, 0)])
def test_nothing_lies_anywhere(target: Shape) -> None:
    assert reshaped(layout_of((0, 12), (0, 1)), target) is None
