"""Sources that hold weights without a graph: read safely and reported, since no module can be built from them yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from burnx.errors import UnsupportedError
from burnx.importer.pickle_file import read_checkpoint
from burnx.weights import open_weights

_READERS: dict[str, Callable[[Path], Mapping[str, Any]]] = {
    ".pt": read_checkpoint,
    ".pth": read_checkpoint,
    ".bin": read_checkpoint,
    ".safetensors": open_weights,
}


def refuse_weights(source: Path) -> None:
    """Tell a file or folder of weights from a model.

    Raises: UnsupportedError for one that is sound, WeightsError for one that is damaged or holds code.
    """
    if source.is_dir():
        raise UnsupportedError(
            f"this version imports ONNX files, not folders of weights: found folder {str(source)!r}"
        )
    read = _READERS.get(source.suffix.lower())
    if read is None:
        return
    tensors = read(source)
    raise UnsupportedError(
        "this version imports ONNX files and builds no module from a checkpoint, which has no graph: "
        f"found {len(tensors)} tensors, file {str(source)!r}"
    )
