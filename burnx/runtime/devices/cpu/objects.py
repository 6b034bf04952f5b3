"""Compiled kernels by their key: from memory, from the cache on disk, or by compiling; and their addresses.

A kernel's text defines ``@kernel``.  Objects stay loaded as long as the process lives; equal kernels are compiled once.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import count
from typing import Any

from burnx.errors import DeviceError
from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.linking import Unlinkable, can_link, link
from burnx.runtime.devices.cpu.object_files import (
    ObjectFiles,
    find_object_files,
    name_entry,
)

KERNEL = "kernel"  # what the text of a kernel calls its function

MakeText = Callable[[], str]


class _Loaded:
    """What this process has loaded: addresses by name of the entry, and what keeps the code alive."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.addresses: dict[str, tuple[int, ...]] = {}
        self.libraries: list[Any] = []
        self.compiled = 0


_names = count()  # of libraries; one that failed to be linked has used its name up


_loaded = _Loaded()


_held: list[Any] = []


def _hold_locks() -> None:
    """Nobody else is in the middle of something with LLVM while the process forks: a child can use it."""
    _loaded.lock.acquire()
    ffi = sys.modules.get("llvmlite.binding.ffi")
    if hasattr(ffi, "lib"):
        _held.append(ffi.lib._lock)  # type: ignore[union-attr]
        _held[-1].__enter__()  # the lock around every call of llvmlite


def _release_locks() -> None:
    while _held:
        _held.pop().__exit__()
    _loaded.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_locks, after_in_parent=_release_locks, after_in_child=_release_locks
    )


@contextmanager
def no_fork() -> Iterator[None]:
    """Nobody forks meanwhile: a child could not import what another thread is importing."""
    with _loaded.lock:
        yield


def load_kernel(key_text: str, make_ir: MakeText, target: Target) -> int:
    """The address of a kernel's function.

    Raises: DeviceError if its text is not valid or needs a function that is not there.
    """
    return load_many([(key_text, make_ir)], target)[0]


def load_many(
    kernels: Sequence[tuple[str, MakeText]],
    target: Target,
    images: Mapping[str, bytes] | None = None,
) -> list[int]:
    """The addresses of kernels, all linked at once; equal keys are the same kernel.

    ``images`` are objects that are there already, by the names of their entries.

    Raises: DeviceError as ``load_kernel``.
    """
    addresses = _loaded.addresses
    names = [name_entry(key, target) for key, _ in kernels]
    if any(name not in addresses for name in names):
        with _loaded.lock:
            _load_missing(dict(zip(names, kernels, strict=True)), target, images or {})
    return [addresses[name][0] for name in names]


def load_kept(names: Sequence[str], target: Target) -> list[int] | None:
    """The addresses of kernels by the names of their entries; None if one of them is not there any more."""
    with _loaded.lock:
        missing = [name for name in dict.fromkeys(names) if name not in _loaded.addresses]
        if missing:
            files = find_object_files()
            images = [files.read_entry(name) for name in missing] if files is not None else [None]
            if any(image is None for image in images):
                return None
            found = _link(images, [_function(name) for name in missing])  # type: ignore[arg-type]
            _loaded.addresses.update((n, (at,)) for n, at in zip(missing, found, strict=True))
    return [_loaded.addresses[name][0] for name in names]


def load_functions(
    key_text: str, make_ir: MakeText, names: Sequence[str], target: Target
) -> tuple[int, ...]:
    """The addresses of several functions of one text, whose names are the process's own."""
    with _loaded.lock:
        name = name_entry(key_text, target)
        found = _loaded.addresses.get(name)
        if found is None:
            image = _find_object(find_object_files(), key_text, make_ir, target)
            found = _link([image], names)
            _loaded.addresses[name] = found
    return found


def compiled_kernels() -> int:
    """How many kernels this process has compiled, the machine among them, those from the cache not."""
    return _loaded.compiled


def is_loaded(name: str) -> bool:
    """Whether the kernel of an entry has its address already."""
    return name in _loaded.addresses


def compile_kernel(key: str, text: str, target: Target) -> bytes:
    """The object of a kernel whose text defines ``@kernel``; it is kept.

    Raises: DeviceError as ``load_kernel``.
    """
    name = _function(name_entry(key, target))
    return _make_object(find_object_files(), key, _rename(text, name), target)


def _load_missing(
    kernels: dict[str, tuple[str, MakeText]], target: Target, there: Mapping[str, bytes]
) -> None:
    missing = [name for name in kernels if name not in _loaded.addresses]
    if not missing:
        return
    files = find_object_files()
    images = []
    for name in missing:
        key, make_text = kernels[name]
        make_ir = partial(_rename_made, make_text, _function(name))
        images.append(there.get(name) or _find_object(files, key, make_ir, target))
    found = _link(images, [_function(name) for name in missing])
    for name, address in zip(missing, found, strict=True):
        _loaded.addresses[name] = (address,)


def _function(name: str) -> str:
    """What the function in an entry's object is called."""
    return f"{KERNEL}_{name[:32]}"


def _rename(text: str, name: str) -> str:
    """The text with its function called ``name``, so that many can be linked together."""
    return text.replace(f"@{KERNEL}(", f"@{name}(")


def _rename_made(make_ir: MakeText, name: str) -> str:
    return _rename(make_ir(), name)


def _find_object(files: ObjectFiles | None, key: str, make_ir: MakeText, target: Target) -> bytes:
    image = files.read(key, target) if files is not None else None
    return _make_object(files, key, make_ir(), target) if image is None else image


def _make_object(files: ObjectFiles | None, key: str, text: str, target: Target) -> bytes:
    image = _compile(text, target)
    with _loaded.lock:
        _loaded.compiled += 1
    if files is not None:
        files.write(key, target, image)
    return image


def _link(images: Sequence[bytes], names: Sequence[str]) -> tuple[int, ...]:
    if can_link():
        try:
            linked = link(images, names)
        except Unlinkable:
            return _link_by_llvm(images, names)
        _loaded.libraries.append(linked)
        return tuple(linked.addresses[name] for name in names)
    return _link_by_llvm(images, names)


def _link_by_llvm(images: Sequence[bytes], names: Sequence[str]) -> tuple[int, ...]:
    from llvmlite import binding

    builder = binding.JITLibraryBuilder().add_current_process()
    for image in images:
        builder.add_object_img(image)
    for name in names:
        builder.export_symbol(name)
    try:
        library = builder.link(_make_linker(), f"burnx{next(_names)}")
    except RuntimeError as error:
        raise DeviceError(f"compiled kernels are linked; LLVM says: {error}") from error
    _loaded.libraries.append(library)
    return tuple(library[name] for name in names)


@lru_cache(maxsize=1)
def _make_linker() -> Any:
    from llvmlite import binding

    return binding.create_lljit_compiler()


def _compile(text: str, target: Target) -> bytes:
    with no_fork():
        from burnx.runtime.devices.cpu.compile import compile_object

    try:
        return compile_object(text, target)
    except RuntimeError as error:
        raise DeviceError(f"kernels are written as valid LLVM text; LLVM says: {error}") from error
