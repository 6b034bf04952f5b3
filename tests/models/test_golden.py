"""The source that models become, as text: a change of the generator shows as a change of these files.

``pytest -m models tests/models/test_golden.py --update-golden`` writes them anew.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import models
import pytest

import burnx

pytestmark = pytest.mark.models

ROOT = Path(__file__).parent.parent.parent
NAMES = (
    "resnet50.ts",
    "lstm_tagger.ts",
    "hand_loop_if",
    "distilbert_base.ts",
    "vit_b_16.dynamo",
    "magika",
    "mobilenet_v2.ts.qdq_s8s8",
    "resnet18.ts.qoperator",
    "distilbert_base.ts.dynint8",
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where the source of each model that can be had was written."""
    folder, entries = tmp_path_factory.mktemp("sources"), models.entries()
    found: dict[str, Path] = {}
    for name in NAMES:
        try:
            path = models.path(entries[name])
        except models.Unavailable:
            continue
        found[name] = folder / f"{name.replace('.', '_')}.py"
        burnx.import_onnx(path, found[name])
        found[name].with_suffix(".safetensors").unlink(missing_ok=True)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_source_is_as_before(
    name: str, sources: dict[str, Path], golden: Callable[[str, str], None]
) -> None:
    if name not in sources:
        pytest.skip("its file cannot be had here")
    # the first line is a checksum of the rest, and names the version
    golden(sources[name].name, sources[name].read_text().partition("\n")[2])


def checked(command: list[str], sources: dict[str, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command, *map(str, sources.values())],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_source_is_clean(sources: dict[str, Path]) -> None:
    checked(["ruff", "check", "--isolated"], sources)
    checked(["ruff", "format", "--isolated", "--check", "--line-length", "100"], sources)


def test_types_of_the_source_hold(sources: dict[str, Path]) -> None:
    lenient = ["--config-file=", "--follow-imports=silent", "--check-untyped-defs"]
    checked(["mypy", *lenient], sources)
