"""Real models agree with onnxruntime on every route: ``pytest -m models``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from routes import ROUTES
from run_models import Trial, judge, stage_one
from spread import WITHIN

pytestmark = pytest.mark.models


@pytest.fixture(scope="module", params=stage_one(), ids=lambda entry: entry["name"])
def trial(request: pytest.FixtureRequest) -> Iterator[Trial]:
    """A model and a folder for it, which the routes share: onnxruntime is asked once."""
    device = (request.config.getoption("--device") or "cpu").split(",")[0]
    with tempfile.TemporaryDirectory(prefix="models-") as folder:
        yield Trial(request.param, Path(folder), device)


@pytest.mark.parametrize("route", ROUTES)
def test_agrees_with_onnxruntime(trial: Trial, route: str) -> None:
    outcome = judge(trial, route)
    if outcome.status == "unfetched":
        pytest.skip(outcome.detail)
    if "spread" in trial.entry:  # onnxruntime does not agree with itself either: spread.py
        assert outcome.status in ("pass", WITHIN), f"{outcome.status}: {outcome.detail}"
    else:
        assert outcome.status == "pass", f"{outcome.status}: {outcome.detail}"
