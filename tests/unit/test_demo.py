"""The model that ships for ``burnx demo`` is small and knows its digits."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np

import burnx

FOLDER = files("burnx").joinpath("demo")


def test_demo_model_is_small() -> None:
    with as_file(FOLDER.joinpath("digits.onnx")) as path:
        assert path.stat().st_size <= 300_000


def test_demo_model_knows_its_digits(device: str) -> None:
    with as_file(FOLDER.joinpath("digits_samples.npz")) as path, np.load(path) as samples:
        images, labels = samples["images"], samples["labels"]
    with as_file(FOLDER.joinpath("digits.onnx")) as path:
        outputs = burnx.load(path, device=device).run({"images": images})
    assert (outputs["logits"].argmax(axis=1) == labels).mean() >= 0.95
