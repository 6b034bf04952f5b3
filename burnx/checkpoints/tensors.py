"""The tensors of a checkpoint by name: of one file, or of the shards that an index lists."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from burnx.errors import WeightsError
from burnx.weights import open_weights

Array: TypeAlias = "np.ndarray[Any, Any]"


def _read_pytorch(path: Path) -> Mapping[str, Array]:
    from burnx.checkpoints.pickle_file import read_checkpoint

    return read_checkpoint(path)


INDEX_END: Final = ".index.json"
MAX_INDEX_BYTES: Final = 100_000_000
_READERS: Final[dict[str, Callable[[Path], Mapping[str, Array]]]] = {
    ".safetensors": open_weights,
    ".pt": _read_pytorch,
    ".pth": _read_pytorch,
    ".bin": _read_pytorch,
}
SUFFIXES: Final = tuple(_READERS)


class Shards(Mapping[str, Array]):
    """The tensors of several files as one; a file is mapped when the first of its tensors is asked for."""

    __slots__ = ("_open", "_places", "path")

    def __init__(self, path: Path, places: Mapping[str, str]) -> None:
        self.path = path
        self._places = places
        self._open: dict[str, Mapping[str, Array]] = {}

    def __getitem__(self, name: str) -> Array:
        shard = self._places.get(name)
        if shard is None:
            raise WeightsError(f"index {str(self.path)!r} lists no tensor {name!r}")
        if shard not in self._open:
            self._open[shard] = _read(self.path.parent / shard)
        if name not in self._open[shard]:
            raise WeightsError(
                f"index {str(self.path)!r} says that tensor {name!r} is in {shard!r}: it is not"
            )
        return self._open[shard][name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def open_tensors(path: str | os.PathLike[str]) -> Mapping[str, Array]:
    """The tensors of a file by name, as read-only views of the mapped file.

    By its suffix the file is PyTorch's, an index of shards, or else safetensors.  Raises: WeightsError that names it.
    """
    file = Path(path)
    return _open_index(file) if file.name.endswith(INDEX_END) else _read(file)


def _read(file: Path) -> Mapping[str, Array]:
    read = _READERS.get(file.suffix.lower(), open_weights)
    return open_weights(file) if _is_safetensors(file) else read(file)


def _is_safetensors(file: Path) -> bool:
    """Whether a file starts like safetensors, whatever it is called."""
    try:
        if file.is_file():
            with file.open("rb") as stream:
                return stream.read(9)[8:] == b"{"
    except OSError:
        pass  # whoever reads it says so
    return False


def _open_index(file: Path) -> Shards:
    where = f"index {str(file)!r}"
    try:
        if file.stat().st_size > MAX_INDEX_BYTES:
            raise WeightsError(f"{where} is larger than {MAX_INDEX_BYTES} bytes")
        content = json.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise WeightsError(f"file {str(file)!r} does not exist") from error
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{where} cannot be read: {error}") from error
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places:
        raise WeightsError(f"{where} has no weight_map of tensors to files")
    for name, shard in places.items():
        if not isinstance(shard, str) or Path(shard).name != shard or "\\" in shard:
            raise WeightsError(
                f"shards lie beside their index: found {shard!r} for {name!r}, {where}"
            )
    return Shards(file, places)
