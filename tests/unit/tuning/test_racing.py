"""Races: who wins, who may not, and when a race is over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnx.errors import DeviceError
from burnx.runtime.tuning.agreement import all_agree
from burnx.runtime.tuning.racing import RUNS, race
from burnx.runtime.tuning.roofline import Roofline, find_roofline
from burnx.runtime.tuning.store import Store, find_store, shape_class


@dataclass
class Track:
    """Candidates by name: (nanoseconds of a run, what it writes)."""

    candidates: dict[str, tuple[int, float]]
    timed: Counter[str] = field(default_factory=Counter)

    def run(self, candidate: str) -> float:
        found = self.candidates[candidate][1]
        if found != found:
            raise DeviceError("no such code")
        return found

    def agrees(self, expected: float, found: float) -> bool:
        return expected == found

    def time(self, candidate: str) -> int:
        self.timed[candidate] += 1
        return self.candidates[candidate][0]


def verdicts(track: Track, least_ns: float = 0.0) -> tuple[str, dict[str, str]]:
    outcome = race(list(track.candidates), track, least_ns)
    return outcome.best, {lap.candidate: lap.verdict for lap in outcome.laps}


def test_the_fastest_wins() -> None:
    track = Track({"safe": (100, 1.0), "a": (90, 1.0), "b": (60, 1.0), "c": (70, 1.0)})
    assert verdicts(track) == ("b", {"safe": "slower", "a": "slower", "b": "won", "c": "slower"})


def test_a_fast_wrong_candidate_cannot_win_and_is_not_even_timed() -> None:
    track = Track({"safe": (100, 1.0), "wrong": (1, 2.0), "right": (80, 1.0)})
    assert verdicts(track) == ("right", {"safe": "slower", "wrong": "wrong", "right": "won"})
    assert track.timed["wrong"] == 0


def test_a_candidate_that_does_not_run_is_out() -> None:
    track = Track({"safe": (100, 1.0), "broken": (1, float("nan"))})
    assert verdicts(track) == ("safe", {"safe": "won", "broken": "failed"})


def test_a_weak_candidate_is_dropped_after_two_runs() -> None:
    track = Track({"safe": (100, 1.0), "weak": (250, 1.0), "near": (150, 1.0)})
    assert verdicts(track)[1]["weak"] == "weak"
    assert track.timed["weak"] == 2 and track.timed["near"] == RUNS


def test_the_race_is_over_at_a_fraction_of_the_roofline() -> None:
    track = Track({"safe": (100, 1.0), "good": (58, 1.0), "better": (51, 1.0)})
    best, found = verdicts(track, least_ns=50)
    assert best == "good" and found["better"] == "not run"


def test_faster_than_the_roofline_says_that_it_does_not_hold() -> None:
    track = Track({"safe": (40, 1.0), "better": (30, 1.0)})
    assert verdicts(track, least_ns=50)[0] == "better"


def test_what_is_won_by_chance_is_not_taken() -> None:
    assert verdicts(Track({"safe": (100, 1.0), "same": (99, 1.0)}))[0] == "safe"


@given(
    st.dictionaries(
        st.text("abcd", min_size=1, max_size=2),
        st.tuples(st.integers(1, 1000), st.sampled_from([1.0, 2.0, float("nan")])),
        min_size=1,
    ),
    st.floats(0, 1000),
)
def test_whoever_wins_wrote_the_right_numbers_in_no_more_time(
    others: dict[str, tuple[int, float]], least_ns: float
) -> None:
    track = Track({"safe": (500, 1.0), **others})
    outcome = race(list(track.candidates), track, least_ns)
    assert track.candidates[outcome.best][1] == 1.0
    assert outcome.best_ns == track.candidates[outcome.best][0] <= 500
    assert [lap.candidate for lap in outcome.laps] == list(track.candidates)
    assert sum(lap.verdict == "won" for lap in outcome.laps) == 1


# ---------------------------------------------------------------------------------------------------- agreement
def test_sums_in_another_order_agree_and_other_numbers_do_not() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert all_agree([values], [values * (1 + 1e-5)])
    assert not all_agree([values], [values * 1.01])
    one_off = values.copy()
    one_off[7] += 1
    assert not all_agree([values], [one_off])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_so_at_the_same_places(bad: float) -> None:
    values = np.ones(8, np.float32)
    other = values.copy()
    other[3] = bad
    assert not all_agree([values], [other]) and not all_agree([other], [values])
    assert all_agree([other], [other.copy()])
    if np.isinf(bad):
        flipped = other.copy()
        flipped[3] = -bad
        assert not all_agree([other], [flipped])


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.uint8, np.int64])
def test_integers_agree_exactly(dtype: Any) -> None:
    values = np.array([0, 1, 1], dtype)
    assert all_agree([values], [values.copy()])
    assert not all_agree([values], [np.array([0, 1, 0], dtype)])


def test_low_precision_agrees_within_its_own_rounding() -> None:
    values = np.linspace(1, 2, 50).astype(ml_dtypes.bfloat16)
    assert all_agree([values], [(values.astype(np.float32) * 1.004).astype(ml_dtypes.bfloat16)])
    assert not all_agree([values], [(values.astype(np.float32) * 1.1).astype(ml_dtypes.bfloat16)])
    assert not all_agree([values], [values.astype(np.float32)])


# -------------------------------------------------------------------------------------------------------- store
@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def reread(store: Store) -> Store:
    """The same store as a new process sees it."""
    return Store(store.about, store.files)


def test_results_are_there_for_the_next_process_and_no_other_device(cache: Path) -> None:
    store = find_store({"for": "test", "device": "one"})
    store.keep({"form": "a"}, "kernel", [["n", 4]])
    assert reread(store).find("kernel", [["n", 4]]) == {"form": "a"}
    assert reread(store).find("kernel", [["n", 5]]) is None
    assert find_store({"for": "test", "device": "two"}).find("kernel", [["n", 4]]) is None


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff" * 200])
def test_a_damaged_result_is_none(cache: Path, damage: bytes) -> None:
    store = find_store({"for": "test", "device": "one"})
    store.keep([1], "key")
    (file,) = (cache / "tuning").iterdir()
    file.write_bytes(damage)
    assert reread(store).find("key") is None


def test_without_a_cache_results_live_as_long_as_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BURNX_CACHE", "off")
    find_store({"for": "test", "device": "three"}).keep(5, "key")
    assert find_store({"for": "test", "device": "three"}).find("key") == 5


def test_shape_classes_are_powers_of_two() -> None:
    assert shape_class({"n": 30, "m": 1}) == shape_class({"m": 1, "n": 31}) == (("m", 1), ("n", 5))
    assert shape_class({"n": 32}) != shape_class({"n": 31})


# ----------------------------------------------------------------------------------------------------- roofline
def test_a_roofline_is_the_best_that_processes_measured_once_each(cache: Path) -> None:
    store = find_store({"for": "test", "device": "four"})
    busy, idle = Roofline(1e9, 9e9, {"float16": 8e9}), Roofline(2e9, 3e9, {"bfloat16": 8e9})
    left = [busy, idle]
    assert find_roofline(store, lambda: left.pop(0)) == busy
    assert find_roofline(store, lambda: left.pop(0)) == busy and left == [idle]
    next_process = reread(store)
    best = Roofline(2e9, 9e9, {"float16": 8e9, "bfloat16": 8e9})
    assert find_roofline(next_process, lambda: left.pop(0)) == best
    assert find_roofline(next_process, lambda: left.pop(0)) == best and not left


def test_a_kept_roofline_that_is_none_is_measured_anew(cache: Path) -> None:
    store = find_store({"for": "test", "device": "four"})
    store.keep({"bytes_per_s": "fast"}, "roofline")
    found = Roofline(1e9, 2e9)
    assert find_roofline(reread(store), lambda: found) == found


def test_a_result_that_is_nested_without_end_is_none(cache: Path) -> None:
    store = find_store({"for": "test", "device": "four"})
    assert store.files is not None
    store.files.write_entry(store._name(("key",)), b"[" * 100_000, store.about)
    assert reread(store).find("key") is None


def test_the_roofline_is_the_slower_of_moving_and_working() -> None:
    roofline = Roofline(1e9, 2e9, {"float16": 8e9})
    assert roofline.least_ns(1000, 1000) == pytest.approx(1000)
    assert roofline.least_ns(0, 8000) == pytest.approx(4000)
    assert roofline.least_ns(0, 8000, "float16") == pytest.approx(1000)
    assert roofline.fraction(2000, 1000, 0) == pytest.approx(0.5)
    assert roofline.fraction(0, 1000, 0) == 0
