"""Pad, Range, ConstantOfShape, casts and random numbers where the standard's own tests do not look."""

from __future__ import annotations

import numpy as np
import pytest

from burnx.errors import BurnxError, ShapeError
from tests.unit.ops.text_model import load, run

PAD = 'g (float[n] x, int64[2] p) => (float[m] y) {{ y = Pad<mode="{}">(x, p) }}'


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("widths", [(0, 0), (2, 1), (9, 7)])
def test_pad_by_any_width_is_that_of_numpy(mode: str, widths: tuple[int, int]) -> None:
    x = np.arange(4, dtype=np.float32)
    y = run(PAD.format(mode), x=x, p=np.array(widths))
    assert np.array_equal(y, np.pad(x, widths, mode))


ALONE = {
    "every size known": 'g (float[1, 3] x) => (float[a, b] y) { y = Pad<mode="reflect">(x, p) }',
    "size unknown": 'g (float[n, 3] x) => (float[a, b] y) { y = Pad<mode="reflect">(x, p) }',
    "width unknown": 'g (float[1, 3] x, int64[4] p) => (float[a, b] y) { y = Pad<mode="reflect">(x, p) }',
    "nothing known": 'g (float[n, m] x, int64[4] p) => (float[a, b] y) { y = Pad<mode="reflect">(x, p) }',
}


@pytest.mark.parametrize("where", ["reference", "cpu"])
@pytest.mark.parametrize("kind", ALONE)
@pytest.mark.parametrize("widths", [(1, 0, 0, 0), (0, 1, 1, 0), (0, 2, 0, 1), (0, 0, 0, 0)])
def test_one_element_is_not_reflected(kind: str, widths: tuple[int, ...], where: str) -> None:
    text, pads = ALONE[kind], np.array(widths)
    given = {"x": np.arange(3, dtype=np.float32).reshape(1, 3)}
    if "int64" in text:
        given["p"] = pads
    else:
        text = text.replace("{ y", f"<int64[4] p = {{{', '.join(map(str, widths))}}}> {{ y")
    if widths[0] or widths[2]:
        with pytest.raises(ShapeError, match=r'"y" \(Pad\)'):
            load(text, device=where).run(given)
        return
    (y,) = load(text, device=where).run(given).values()
    assert np.array_equal(y, np.pad(given["x"], pads.reshape(2, 2).T, "reflect"))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_a_negative_width_cuts_off_before_the_rest_is_padded(mode: str) -> None:
    x = np.arange(6, dtype=np.float32)
    assert np.array_equal(
        run(PAD.format(mode), x=x, p=np.array([-2, 3])), np.pad(x[2:], (0, 3), mode)
    )


def test_pad_of_old_opsets_has_its_widths_as_attributes() -> None:
    text = "g (float[n] x) => (float[m] y) { y = Pad<pads=[1, 0], value=2.0>(x) }"
    assert run(text, opset=10, x=np.ones(1, np.float32)).tolist() == [2, 1]


def test_pad_by_a_size_keeps_the_shape_symbolic() -> None:
    model = load(
        "g (float[n] x) => (float[m] y) { s = Shape(x)\n z = Constant<value_ints=[0]>()\n"
        " p = Concat<axis=0>(z, s)\n y = Pad(x, p) }"
    )
    assert model.outputs[0].dims == ("2*n",)
    assert next(iter(model.run({"x": np.ones(2, np.float32)}).values())).tolist() == [1, 1, 0, 0]


def test_range_up_to_a_size_keeps_the_shape_symbolic() -> None:
    model = load(
        "g (float[batch, seq] x) => (int64[r] y) { s = Shape<start=1>(x)\n"
        " a = Constant<value_int=0>()\n d = Constant<value_int=1>()\n l = Squeeze(s)\n y = Range(a, l, d) }"
    )
    assert model.outputs[0].dims == ("seq",)
    assert next(iter(model.run({"x": np.ones((1, 3), np.float32)}).values())).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 7, 3), (7, 0, -3), (5, 1, 1), (-4, 5, 2), (0, 6, 3)]
)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float", "double", "int16"])
def test_range_of_numbers_that_only_the_run_knows(
    start: int, limit: int, delta: int, dtype: str
) -> None:
    text = f"g ({dtype} a, {dtype} b, {dtype} c) => ({dtype}[n] y) {{ y = Range(a, b, c) }}"
    kind = np.dtype({"float": "float32", "double": "float64"}.get(dtype, dtype))
    a, b, c = (np.array(value, kind) for value in (start, limit, delta))
    y = run(text, a=a, b=b, c=c)
    assert y.dtype == kind and np.array_equal(y, np.arange(start, limit, delta))


@pytest.mark.parametrize(
    ("saturate", "mode", "expected"),
    [
        (1, "up", [2.0**-127, 1, 2, 4, 2.0**127, np.nan]),
        (1, "down", [2.0**-127, 1, 1, 2, 2.0**127, np.nan]),
        (0, "nearest", [np.nan, 1, 1, 4, np.nan, np.nan]),
    ],
)
def test_cast_to_powers_of_two(saturate: int, mode: str, expected: list[float]) -> None:
    text = (
        "g (float[n] x) => (float[n] y) "
        f'{{ e = Cast<to=24, saturate={saturate}, round_mode="{mode}">(x)\n y = Cast<to=1>(e) }}'
    )
    x = np.array([0, 1, 1.25, 3, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        assert np.array_equal(run(text, opset=25, x=x), np.float32(expected), equal_nan=True)


def test_text_of_numbers_is_plain_and_comes_back() -> None:
    text = "g (float[n] x) => (string[n] s, float[n] y) { s = Cast<to=8>(x)\n y = Cast<to=1>(s) }"
    x = np.array([1, 0.1, 1e10, np.inf, np.nan, -2.5], np.float32)
    words, back = run(text, x=x)
    assert words.tolist() == ["1.0", "0.1", "10000000000.0", "INF", "NaN", "-2.5"]
    assert np.array_equal(back, x, equal_nan=True)


def test_random_numbers_differ_between_runs_unless_seeded() -> None:
    text = "g (float[n] x) => (float[n] y) {{ y = RandomUniformLike<low=2.0, high=3.0{}>(x) }}"
    feed = {"x": np.zeros(50, np.float32)}
    free, seeded = load(text.format("")), load(text.format(", seed=7.0"))
    first, second, *again = (
        next(iter(model.run(feed).values())) for model in (free, free, seeded, seeded)
    )
    assert not np.array_equal(first, second) and np.array_equal(*again)
    assert first.min() >= 2 and first.max() <= 3


def test_multinomial_follows_the_weights() -> None:
    text = "g (float[b, c] x) => (int64[b, n] y) { y = Multinomial<sample_size=4000, dtype=7, seed=1.0>(x) }"
    shares = np.array([[0.2, 0.0, 0.8]])
    with np.errstate(divide="ignore"):
        y = run(text, x=np.log(shares).astype(np.float32))
    found = np.bincount(y[0], minlength=3) / 4000
    assert found[1] == 0 and abs(found[2] - 0.8) < 0.05


def test_pad_refuses_an_unknown_mode() -> None:
    with pytest.raises(BurnxError, match="mirror"):
        run(PAD.format("mirror"), x=np.ones(2, np.float32), p=np.array([1, 1]))
