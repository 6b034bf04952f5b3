"""Keys of a checkpoint's dictionaries: none may take years to hash, and sets are passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_pickle_file import (
    SIMPLE,
    VALUES,
    call,
    dict_of,
    name,
    refusal,
    tuple_of,
    value,
    write_legacy,
    write_zip,
)

from burnx.checkpoints.pickle_file import read_checkpoint


def doubled(count: int = 60) -> bytes:
    """A tuple of the one before, twice, and so on: a hash of the last visits 2**count items."""
    turn = b"".join(b"h%ch%c\x86q%c0" % (place, place, place + 1) for place in range(count))
    return b")q\x000" + turn + b"h%c" % count


def wide(levels: int = 5, count: int = 1000) -> bytes:
    turn = b"".join(
        b"(" + b"h%c" % place * count + b"tq%c0" % (place + 1) for place in range(levels)
    )
    return b")q\x000" + turn + b"h%c" % levels


KEYS = {
    "set item": b"}" + doubled() + value(1) + b"s",
    "set items": b"}(" + doubled() + value(1) + b"u",
    "wide": b"}" + wide() + value(1) + b"s",
    "doubled on the stack": b"})" + b"2\x86" * 60 + value(1) + b"s",
    "add items": b"\x8f(" + doubled() + b"\x90",
    "frozen set": b"(" + doubled() + b"\x91",
    "given back": b"}"
    + call(name("torch._utils", "_rebuild_parameter"), doubled())
    + value(1)
    + b"s",
}


@pytest.mark.parametrize("content", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_a_key_that_takes_years_to_hash_is_refused(
    tmp_path: Path, content: bytes, write: Any
) -> None:
    path = write(tmp_path / "w.pt", dict_of({"w": SIMPLE, "x": content}), {"0": VALUES})
    assert "a key of more than 64 parts" in refusal(path)


@pytest.mark.parametrize("content", [b"]" + doubled() + b"a", b"]" + doubled(3) + b"a"])
@pytest.mark.parametrize("builder", [("builtins", "set"), ("__builtin__", "set")])
def test_sets_are_passed_over(tmp_path: Path, content: bytes, builder: tuple[str, str]) -> None:
    items = {"w": SIMPLE, "x": call(name(*builder), content)}
    path = write_zip(tmp_path / "w.pt", dict_of(items), {"0": VALUES})
    assert list(read_checkpoint(path)) == ["w"]


def test_an_ordered_dict_keeps_what_has_a_name(tmp_path: Path) -> None:
    pairs = b"](" + tuple_of(doubled(), value(1)) + tuple_of(value("w"), SIMPLE) + b"e"
    path = write_zip(
        tmp_path / "w.pt", call(name("collections", "OrderedDict"), pairs), {"0": VALUES}
    )
    assert list(read_checkpoint(path)) == ["w"]


def test_keys_of_a_few_parts_are_as_before(tmp_path: Path) -> None:
    items: dict[Any, bytes] = {"w": SIMPLE, (1, (2, 3)): value({(4, "a"): 5})}
    path = write_zip(tmp_path / "w.pt", dict_of(items), {"0": VALUES})
    assert list(read_checkpoint(path)) == ["w"]
