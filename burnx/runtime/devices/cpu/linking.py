"""Object code put into memory without LLVM: ELF files of x86-64 whose functions call each other and little else.

What is not as expected is left to LLVM, which links everything; this is here because a process that only runs what an
earlier one compiled can do without LLVM.

Source: System V ABI, AMD64 supplement: relocation types; ELF-64 object file format.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENTITY, _RELOCATABLE, _X86_64 = b"\x7fELF\x02\x01\x01", 1, 62
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _REL = 1, 2, 4, 8, 9
_ALLOC, _WRITE = 2, 1
_PC32, _PLT32 = 2, 4
_JUMP = b"\xff\x25\0\0\0\0"  # jmp through the address behind it
_UNWIND = ".eh_frame"  # nobody unwinds a kernel
_COMMON = 0xFF00  # from here on a section's number means something else


class Unlinkable(Exception):
    """An object that only LLVM can link."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(slots=True)
class _Object:
    """An object: where its sections will lie, and where its symbols are."""

    data: bytes
    sections: list[_Section]
    places: dict[int, int] = field(default_factory=dict)
    symbols: list[tuple[str, int, int]] = field(default_factory=list)  # name, section, value


@dataclass(slots=True)
class Linked:
    """Code in memory, which stays there as long as this does."""

    memory: Any
    addresses: dict[str, int]


def can_link() -> bool:
    """Whether this system is one whose objects can be linked here."""
    return sys.platform == "linux" and sys.maxsize > 2**32


def link(images: Sequence[bytes], names: Sequence[str]) -> Linked:
    """Objects in memory, and the addresses of functions.

    Raises: Unlinkable.
    """
    try:
        return _link([_read(image) for image in images], names)
    except (struct.error, IndexError, KeyError, ValueError, OSError) as error:
        raise Unlinkable(str(error)) from error


def _link(objects: Sequence[_Object], names: Sequence[str]) -> Linked:
    size = 0
    for each in objects:
        for number, section in enumerate(each.sections):
            if section.flags & _ALLOC and section.name != _UNWIND:
                if section.kind != _PROGBITS or section.flags & _WRITE:
                    raise Unlinkable(f"section {section.name}")
                size = _aligned(size, max(section.alignment, 1))
                each.places[number] = size
                size += section.size
    outside = sorted({name for each in objects for name, at, _ in each.symbols if name and not at})
    jumps = {name: _aligned(size, 16) + 16 * place for place, name in enumerate(outside)}
    size = _aligned(size, 16) + 16 * len(outside)
    memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for name, place in jumps.items():
        memory[place : place + 14] = _JUMP + struct.pack("<Q", _find_outside(name))
    found: dict[str, int] = {}
    for each in objects:
        _place(each, memory, jumps, found)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _make_executable(start, len(memory))
    return Linked(memory, {name: start + found[name] for name in names})


def _place(each: _Object, memory: mmap.mmap, jumps: dict[str, int], found: dict[str, int]) -> None:
    """Copy an object's sections and put in where they lie; ``found`` collects its functions."""
    for number, place in each.places.items():
        section = each.sections[number]
        memory[place : place + section.size] = each.data[section.offset :][: section.size]
    for section in each.sections:
        if section.kind == _REL:
            raise Unlinkable("relocations without addends")
        if section.kind != _RELA or section.info not in each.places:
            continue
        for at, info, addend in _rows(_RELOCATION, each.data, section):
            name, inside, value = each.symbols[info >> 32]
            if info & 0xFFFFFFFF not in (_PC32, _PLT32):
                raise Unlinkable(f"relocation {info & 0xFFFFFFFF}")
            to = each.places[inside] + value if inside else jumps[name]
            place = each.places[section.info] + at
            struct.pack_into("<i", memory, place, to + addend - place)
    for name, inside, value in each.symbols:
        if inside in each.places and name:
            found[name] = each.places[inside] + value


def _read(data: bytes) -> _Object:
    identity, kind, machine, *rest = _HEADER.unpack_from(data)
    if not identity.startswith(_IDENTITY) or (kind, machine) != (_RELOCATABLE, _X86_64):
        raise Unlinkable("no object of x86-64")
    table, count, names = rest[3], rest[9], rest[10]
    raw = [_SECTION.unpack_from(data, table + _SECTION.size * place) for place in range(count)]
    strings = raw[names][4]
    sections = [
        _Section(
            _text(data, strings + row[0]), row[1], row[2], row[4], row[5], row[6], row[7], row[8]
        )
        for row in raw
    ]
    made = _Object(data, sections)
    for section in sections:
        if section.kind == _SYMTAB:
            strings = sections[section.link].offset
            for name, _, _, inside, value, _ in _rows(_SYMBOL, data, section):
                if inside >= _COMMON and inside != 0xFFF1:  # 0xfff1: the name of a source file
                    raise Unlinkable("a symbol without a section")
                made.symbols.append((_text(data, strings + name), inside, value))
    return made


def _rows(row: struct.Struct, data: bytes, section: _Section) -> Any:
    return row.iter_unpack(data[section.offset : section.offset + section.size])


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


def _find_outside(name: str) -> int:
    """The address of a function of this process."""
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value or 0
    except AttributeError as error:
        raise Unlinkable(f"there is no {name}") from error


@lru_cache(maxsize=1)
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _make_executable(start: int, size: int) -> None:
    protect = _process().mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(start, size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise Unlinkable("this system lets no memory be made executable")


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
