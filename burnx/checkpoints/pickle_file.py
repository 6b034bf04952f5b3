"""PyTorch checkpoints without PyTorch: tensors are read, code is never run."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from burnx.checkpoints.pickle_names import StoredTensor, TensorUnpickler
from burnx.checkpoints.pickle_storage import (
    Storages,
    legacy_storages,
    open_archive,
    read_legacy_head,
)
from burnx.dtype import DType
from burnx.errors import WeightsError
from burnx.files import Buffer, guess_kind, map_file

Array: TypeAlias = "np.ndarray[Any, Any]"

MAX_ITEMS = 1_000_000
MAX_DEPTH = 64
# What programs call the dictionary of weights when other things stand beside it.
WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "weights")


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The tensors of a ``.pt``, ``.pth`` or ``.bin`` file by name, as read-only views of the file.

    Where exactly one dictionary of weights stands among other things (``state_dict``, ``model``,
    ...) its names are taken as they are; otherwise nested names are joined with dots.  Tied tensors
    share memory, strides are kept.

    Raises: WeightsError that names the file, and the name that a pickle may not call.
    """
    place = f"file {os.fspath(path)!r}"
    buffer = map_file(path, WeightsError)
    try:
        content, storages = _load(buffer)
        tensors = _collect(content)
        return {name: _view(name, tensor, storages) for name, tensor in tensors.items()}
    except WeightsError as error:
        raise WeightsError(f"{error}, {place}") from error
    except MemoryError as error:
        raise WeightsError(f"not enough memory for the checkpoint, {place}") from error


def _load(buffer: Buffer) -> tuple[Any, Storages]:
    dtypes: dict[str, DType] = {}
    if buffer[:2] == b"PK":
        archive = open_archive(buffer)
        return _unpickle(archive.pickle(), dtypes), Storages(archive.locate)
    kind = guess_kind(buffer[:512])
    if kind is not None and "pickle" not in kind:
        raise WeightsError(f"not a PyTorch checkpoint: it seems to be {kind}")
    content, keys, end = read_legacy_head(buffer, lambda data: _unpickle(data, dtypes))
    item_bytes = {key: dtype.itemsize for key, dtype in dtypes.items()}
    return content, legacy_storages(buffer, keys, end, item_bytes)


def _unpickle(data: bytes, dtypes: dict[str, DType]) -> Any:
    """The object of a pickle that has been checked; ``dtypes`` gathers those of its storages."""
    try:
        return TensorUnpickler(data, dtypes).load()
    except (WeightsError, MemoryError):
        raise
    except (pickle.UnpicklingError, EOFError, RecursionError) as error:
        raise WeightsError(f"the pickle is damaged: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise WeightsError(f"the pickle builds something other than tensors: {error}") from error


# --- names -------------------------------------------------------------------------------------


def _collect(content: Any) -> dict[str, StoredTensor]:
    if not isinstance(content, dict):
        raise WeightsError("a checkpoint holds a dictionary of tensors: save a state_dict()")
    tensors: dict[str, StoredTensor] = {}
    for name, tensor in _walk(_unwrap(content)):
        if name in tensors:
            raise WeightsError(f"two tensors of the checkpoint are called {name!r}")
        tensors[name] = tensor
    if not tensors:
        raise WeightsError("the checkpoint holds no tensors")
    return tensors


def _unwrap(content: dict[Any, Any]) -> dict[Any, Any]:
    """The one dictionary of weights inside, if there is exactly one, else the whole."""
    for _ in range(MAX_DEPTH):
        if any(isinstance(item, StoredTensor) for item in content.values()):
            return content
        inner = [content[key] for key in WRAPPERS if _may_hold_tensors(content.get(key))]
        if len(inner) != 1:
            return content
        content = inner[0]
    raise WeightsError(f"the checkpoint is nested more than {MAX_DEPTH} deep")


def _may_hold_tensors(item: Any) -> bool:
    return isinstance(item, dict) and any(
        isinstance(child, StoredTensor | dict) for child in item.values()
    )


def _walk(content: dict[Any, Any]) -> Iterator[tuple[str, StoredTensor]]:
    """All tensors in dictionaries, lists and tuples, in order, with dotted names."""
    waiting: list[tuple[str, Any, int]] = [("", content, 0)]
    for _ in range(MAX_ITEMS):
        if not waiting:
            return
        if len(waiting) > MAX_ITEMS:
            break
        name, item, depth = waiting.pop()
        if isinstance(item, StoredTensor):
            yield name, item
            continue
        inner = _children(item)
        if inner and depth == MAX_DEPTH:
            raise WeightsError(f"the checkpoint is nested more than {MAX_DEPTH} deep")
        prefix = f"{name}." if depth else ""
        waiting.extend((f"{prefix}{key}", child, depth + 1) for key, child in reversed(inner))
    raise WeightsError(f"the checkpoint holds more than {MAX_ITEMS} items")


def _children(item: Any) -> list[tuple[str | int, Any]]:
    """What may hold or be a tensor; dictionaries by text or number only."""
    if isinstance(item, dict):
        pairs = [(key, child) for key, child in item.items() if isinstance(key, str | int)]
    elif isinstance(item, list | tuple):
        pairs = list(enumerate(item))
    else:
        return []
    return [(key, child) for key, child in pairs if isinstance(child, dict | list | tuple)]


# --- arrays ------------------------------------------------------------------------------------


def _view(name: str, tensor: StoredTensor, storages: Storages) -> Array:
    """The array of a tensor over the bytes of its storage."""
    storage, dtype = tensor.storage, tensor.dtype
    item = storage.dtype.itemsize
    whole = storages.read(storage.key, storage.total * item)
    if 0 in tensor.shape:
        empty = np.zeros(tensor.shape, dtype)
        empty.flags.writeable = False
        return empty
    begin = storage.offset_elems * item
    data = whole[begin : begin + storage.size_elems * item]
    steps = zip(tensor.shape, tensor.strides, strict=True)
    last = tensor.offset_elems + sum((size - 1) * stride for size, stride in steps)
    if (last + 1) * dtype.itemsize > data.size:
        raise WeightsError(f"tensor {name!r} goes past the end of storage {storage.key!r}")
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    array = np.ndarray(tensor.shape, dtype, data, tensor.offset_elems * dtype.itemsize, strides)
    array.flags.writeable = False
    return array
