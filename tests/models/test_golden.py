"""The source that models become: some as text, so that a change of the generator shows as a change of these files, and
that of all passes the tools which people run on theirs.

``pytest -m models tests/models/test_golden.py --update-golden`` writes the files anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import models
import pytest
from source_checks import passes_tools, unread_parameters

import burnx

pytestmark = pytest.mark.models

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
    "bert_base.dynamo",
    "gpt2_kvcache.dynamo",
    "mobilenet_v2.dynamo",
    "swin_t.ts",
    "nudenet_320n",
    "silero_vad_16k_op15",
    "ch_PP-OCRv4_rec_infer",
    "skl_rf_clf",
)
# files that burnx refuses to import, and what it says
REFUSED = {
    "skl_tfidf_text": "Tokenizer",
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where the source of each model that can be had was written."""
    folder = tmp_path_factory.mktemp("sources")
    found: dict[str, Path] = {}
    for name, entry in models.entries().items():
        try:
            path = models.path(entry)
        except models.Unavailable:
            continue
        target = folder / f"{re.sub('[^0-9A-Za-z]', '_', name)}.py"
        if name in REFUSED:
            with pytest.raises(burnx.BurnxError, match=REFUSED[name]):
                burnx.import_onnx(path, target)
            continue
        found[name] = target
        burnx.import_onnx(path, target)
        target.with_suffix(".safetensors").unlink(missing_ok=True)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_source_is_as_before(
    name: str, sources: dict[str, Path], golden: Callable[[str, str], None]
) -> None:
    if name not in sources:
        pytest.skip("its file cannot be had here")
    # the first line is a checksum of the rest, and names the version
    golden(sources[name].name, sources[name].read_text().partition("\n")[2])


@pytest.mark.long
def test_the_source_of_every_model_passes_the_tools(sources: dict[str, Path]) -> None:
    passes_tools(list(sources.values()))


@pytest.mark.long
def test_the_source_of_every_model_reads_all_its_parameters(sources: dict[str, Path]) -> None:
    unread = {name: unread_parameters(path.read_text()) for name, path in sources.items()}
    assert {name: found for name, found in unread.items() if found} == {}
