"""Arrays of a model's inputs and outputs as .npy, .npz and .safetensors files.

A sequence stands in an archive as NAME/0, NAME/1 and so on, a map as NAME/keys and NAME/values; an empty optional
is left out.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from burnx.dtype import DTYPES, as_array, dtype_name
from burnx.errors import BurnxError, UsageError

Array = np.ndarray[Any, Any]
Notice = Callable[[str], None]


def load_array(path: str, dtype: str) -> Array:
    """The array of an .npy file; ``dtype`` is the one that is declared for it.

    Raises: UsageError if the file is missing, is no .npy file, or holds pickled objects.
    """
    loaded = _read(path)
    if not isinstance(loaded, np.ndarray):
        raise UsageError(f"an .npz archive must be called .npz, found {path}")
    return _as_declared(loaded, dtype)


def load_archive(path: str, dtypes: Mapping[str, str], only: str | None = None) -> dict[str, Any]:
    """The inputs that an .npz file holds, by name; ``dtypes`` are the declared ones.

    With ``only``, the archive may also hold one array of any name, which is then that input.

    Raises: UsageError if the file cannot be read or holds what is no input.
    """
    loaded = _read(path)
    if isinstance(loaded, np.ndarray):
        raise UsageError(f"an .npy file must be called .npy, found {path}")
    with loaded:
        arrays = {name: _member(loaded, name, path) for name in loaded.files}
    if only is not None:
        return {only: _member_for(only, arrays, dtypes[only], path)}
    grouped = _grouped(arrays, dtypes)
    strange = sorted(set(grouped) - set(dtypes))
    if strange:
        inputs = ", ".join(map(repr, dtypes))
        raise UsageError(f"{path} holds {strange[0]!r}, the model's inputs are {inputs}")
    return {name: _declared(value, dtypes[name]) for name, value in grouped.items()}


def save_outputs(path: str, outputs: Mapping[str, Any], notice: Notice) -> None:
    """Write outputs to an .npz or .safetensors file, whole or not at all."""
    arrays = flatten(outputs)
    folder, suffix = Path(path).absolute().parent, Path(path).suffix
    write = WRITERS[suffix]
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".burnx-", suffix=suffix)
    except OSError as error:
        raise UsageError(f"cannot write {path!r}: {error.strerror}") from error
    os.close(handle)
    try:
        write(temporary, arrays, notice)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise BurnxError(f"cannot write {path!r}: {error.strerror or error}") from error
    except BaseException:
        os.unlink(temporary)
        raise


def flatten(outputs: Mapping[str, Any]) -> dict[str, Array]:
    """Every array of some outputs under a name of its own; maps become NAME/keys and NAME/values."""
    return dict(_flat(outputs.items()))


def _flat(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Array]]:
    for name, value in items:
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            yield from _flat((f"{name}/{index}", item) for index, item in enumerate(value))
        elif isinstance(value, Mapping):
            yield f"{name}/keys", as_array(list(value))
            yield f"{name}/values", as_array(list(value.values()))
        else:
            yield name, as_array(value)


def _write_npz(path: str, arrays: Mapping[str, Array], notice: Notice) -> None:
    # numpy.savez takes names as keywords, so that "file" and "allow_pickle" could not be outputs
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(
                    member, _storable(name, array, notice), allow_pickle=False
                )


def _storable(name: str, array: Array, notice: Notice) -> Array:
    """An array that every NumPy can load again."""
    dtype = dtype_name(array.dtype)
    if dtype == "string":
        return array.astype(np.str_)
    if array.dtype.type.__module__ == "numpy":
        return array
    notice(f"output {name!r} is {dtype}, which .npz does not know: stored as float32")
    return array.astype(np.float32)


def _write_safetensors(path: str, arrays: Mapping[str, Array], notice: Notice) -> None:
    from burnx.cli.rooms import write_tensors

    for name, array in arrays.items():
        if dtype_name(array.dtype) == "string":
            raise UsageError(f"output {name!r} holds strings, which .safetensors cannot: use .npz")
    write_tensors(path, arrays)


WRITERS: dict[str, Callable[[str, Mapping[str, Array], Notice], None]] = {
    ".npz": _write_npz,
    ".safetensors": _write_safetensors,
}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path!r}") from None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is no array file that can be read safely: {error}") from None


def _member(archive: Any, name: str, path: str) -> Array:
    try:
        array = archive[name]
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} cannot be read safely at {name!r}: {error}") from None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{path} holds {name!r}, which is no array")
    return array


def _member_for(name: str, arrays: Mapping[str, Array], dtype: str, path: str) -> Any:
    grouped = _grouped(arrays, {name: dtype})
    if name in grouped:
        return _declared(grouped[name], dtype)
    if len(arrays) != 1:
        listed = ", ".join(map(repr, arrays)) or "nothing"
        raise UsageError(f"{path} does not hold {name!r}; it holds {listed}")
    return _as_declared(next(iter(arrays.values())), dtype)


def _grouped(arrays: Mapping[str, Array], names: Iterable[str]) -> dict[str, Any]:
    """Arrays by name; NAME/0, NAME/1 of an input NAME become a list, NAME/keys and NAME/values a dict."""
    known = set(names)
    grouped: dict[str, Any] = {}
    items: dict[str, dict[int, Array]] = {}
    maps: dict[str, dict[str, Array]] = {}
    for key, array in arrays.items():
        name, _, index = key.rpartition("/")
        if key not in known and name in known and index.isdecimal():
            items.setdefault(name, {})[int(index)] = array
        elif key not in known and name in known and index in ("keys", "values"):
            maps.setdefault(name, {})[index] = array
        else:
            grouped[key] = array
    for name, found in items.items():
        grouped[name] = [found[index] for index in sorted(found)]
    for name, parts in maps.items():
        grouped[name] = _map_of(name, parts)
    return grouped


def _map_of(name: str, parts: Mapping[str, Array]) -> dict[Any, Any]:
    columns = [parts[part].reshape(-1).tolist() for part in ("keys", "values") if part in parts]
    if len(columns) != 2 or len(columns[0]) != len(columns[1]):
        raise UsageError(f"a map has as many {name}/keys as {name}/values")
    return dict(zip(*columns, strict=True))


def _declared(value: Any, dtype: str) -> Any:
    if isinstance(value, list):
        return [as_array(item) for item in value]
    if isinstance(value, dict):
        return value
    return _as_declared(value, dtype)


def _as_declared(array: Array, dtype: str) -> Array:
    """NumPy loads ml_dtypes as raw bytes; they are given their declared dtype back."""
    wanted = DTYPES.get(dtype)
    if array.dtype.kind == "V" and wanted is not None and wanted.itemsize == array.dtype.itemsize:
        return array.view(wanted)
    if array.dtype.kind == "V":
        raise UsageError(f"an array of raw {array.dtype} cannot be an input of dtype {dtype}")
    return as_array(array)
