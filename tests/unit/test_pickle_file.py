"""Checkpoints: tensors come back without PyTorch, and whatever a pickle wants to run is refused.

The checkpoints are assembled from pickle opcodes here, as PyTorch writes them.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burnx.checkpoints import pickle_file
from burnx.checkpoints.pickle_file import read_checkpoint
from burnx.checkpoints.pickle_names import NAMES
from burnx.errors import WeightsError

Array = np.ndarray[Any, Any]
KINDS: dict[str, Any] = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "ByteStorage": np.uint8,
    "CharStorage": np.int8,
    "ShortStorage": np.int16,
    "IntStorage": np.int32,
    "LongStorage": np.int64,
    "BoolStorage": np.bool_,
    "ComplexFloatStorage": np.complex64,
    "ComplexDoubleStorage": np.complex128,
}


# --- an assembler for pickles ------------------------------------------------------------------


def value(item: Any) -> bytes:
    return pickletools.optimize(pickle.dumps(item, 2))[2:-1]


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + tuple_of(*arguments) + b"R"


def dict_of(items: dict[Any, bytes]) -> bytes:
    return b"}(" + b"".join(value(key) + item for key, item in items.items()) + b"u"


def storage(key: Any, count: Any, kind: str = "FloatStorage", *view: bytes) -> bytes:
    parts = (value("storage"), name("torch", kind), value(key), value("cpu"), value(count))
    return tuple_of(*parts, *view) + b"Q"


def tensor(source: bytes, size: Any, stride: Any, offset: Any = 0) -> bytes:
    hooks = call(name("collections", "OrderedDict"))
    parts = (source, value(offset), value(size), value(stride), value(False), hooks)
    return call(name("torch._utils", "_rebuild_tensor_v2"), *parts)


def whole(content: bytes) -> bytes:
    return b"\x80\x02" + content + b"."


SIMPLE = tensor(storage("0", 6), (2, 3), (3, 1))
VALUES = np.arange(6, dtype=np.float32)


def write_zip(
    path: Path,
    content: bytes,
    storages: dict[str, Array],
    *,
    compression: int = zipfile.ZIP_STORED,
    align: bool = True,
    more: dict[str, bytes] | None = None,
) -> Path:
    entries = {"data.pkl": whole(content), "byteorder": b"little", **(more or {})}
    entries |= {f"data/{key}": array.tobytes() for key, array in storages.items()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for entry, data in entries.items():
            info = zipfile.ZipInfo(f"archive/{entry}")
            info.compress_type = compression
            if align:
                start = archive.fp.tell() + 30 + len(info.filename) + 4  # type: ignore[union-attr]
                padding = -start % 64
                info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
            archive.writestr(info, data)
    return path


def write_legacy(path: Path, content: bytes, storages: dict[str, Array]) -> Path:
    head = [value(0x1950A86A20F9469CFC6C), value(1001), value({"little_endian": True})]
    pickles = [*head, content, value(list(storages))]
    data = b"".join(
        len(array).to_bytes(8, "little") + array.tobytes() for array in storages.values()
    )
    path.write_bytes(b"".join(whole(item) for item in pickles) + data)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(WeightsError, match=path.name) as caught:
        read_checkpoint(path)
    return str(caught.value)


# --- tensors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_every_storage_dtype(tmp_path: Path, kind: str, write: Any) -> None:
    array = np.array([0, 1, 1, 0, 1, 1]).astype(KINDS[kind])
    content = dict_of({"w": tensor(storage("0", 6, kind), (2, 3), (3, 1))})
    found = read_checkpoint(write(tmp_path / "w.pt", content, {"0": array}))
    assert found["w"].dtype == array.dtype
    assert np.array_equal(found["w"], array.reshape(2, 3))


def test_stored_tensors_are_views_of_the_file(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "w.pt", dict_of({"w": SIMPLE}), {"0": VALUES})
    array = read_checkpoint(path)["w"]
    assert not array.flags.writeable
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert type(base).__name__ in ("mmap", "memoryview")


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_tied_tensors_share_memory(tmp_path: Path, compression: int, align: bool) -> None:
    content = dict_of({"a": SIMPLE, "b": tensor(storage("0", 6), (3, 2), (1, 3))})
    path = tmp_path / "w.pt"
    write_zip(path, content, {"0": VALUES}, compression=compression, align=align)
    found = read_checkpoint(path)
    assert np.shares_memory(found["a"], found["b"])
    assert np.array_equal(found["b"], found["a"].T)
    assert found["a"].flags.aligned


@pytest.mark.parametrize(
    ("size", "stride", "offset", "expected"),
    [
        ((2, 2), (3, 1), 1, [[1, 2], [4, 5]]),
        ((3, 2), (1, 3), 0, [[0, 3], [1, 4], [2, 5]]),
        ((2, 3), (0, 1), 3, [[3, 4, 5], [3, 4, 5]]),
        ((), (), 5, 5),
        ((0, 3), (3, 1), 0, []),
        ((0,), (1,), 99, []),
    ],
)
def test_strides_and_offsets(
    tmp_path: Path, size: Any, stride: Any, offset: int, expected: Any
) -> None:
    content = dict_of({"w": tensor(storage("0", 6), size, stride, offset)})
    found = read_checkpoint(write_zip(tmp_path / "w.pt", content, {"0": VALUES}))["w"]
    assert found.shape == size
    assert found.tolist() == expected


def test_parameters_and_newer_dtypes(tmp_path: Path) -> None:
    hooks = call(name("collections", "OrderedDict"))
    parameter = call(name("torch._utils", "_rebuild_parameter"), SIMPLE, value(True), hooks)
    untyped = tuple_of(
        value("storage"),
        name("torch.storage", "UntypedStorage"),
        value("1"),
        value("cpu"),
        value(4),
    )
    parts = (untyped + b"Q", value(1), value((3,)), value((1,)), value(False), hooks)
    rebuild = name("torch._utils", "_rebuild_tensor_v3")
    small = call(rebuild, *parts, name("torch", "float8_e4m3fn"), value(None))
    content = dict_of({"p": parameter, "f": small})
    storages = {"0": VALUES, "1": np.array([0, 1, 2, -1]).astype(ml_dtypes.float8_e4m3fn)}
    found = read_checkpoint(write_zip(tmp_path / "w.pt", content, storages))
    assert found["p"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["f"].astype(np.float32).tolist() == [1, 2, -1]


def test_a_state_dict_with_attributes(tmp_path: Path) -> None:
    ordered = call(name("collections", "OrderedDict"))
    items = b"(" + value("w") + SIMPLE + b"u"
    state = dict_of({"_metadata": call(name("collections", "OrderedDict")), "items": value(3)})
    path = write_zip(tmp_path / "w.pt", ordered + items + state + b"b", {"0": VALUES})
    assert list(read_checkpoint(path)) == ["w"]


def test_a_pickle_of_protocol_4_by_names_on_the_stack(tmp_path: Path) -> None:
    ordered = value("collections") + value("OrderedDict") + b"\x93" + b")R"
    path = write_zip(tmp_path / "w.pt", ordered + b"(" + value("w") + SIMPLE + b"u", {"0": VALUES})
    assert list(read_checkpoint(path)) == ["w"]


def test_an_old_file_with_a_view_of_a_storage(tmp_path: Path) -> None:
    view = value(("1", 2, 3))
    content = dict_of({"v": tensor(storage("0", 6, "FloatStorage", view), (2,), (1,), 1)})
    path = write_legacy(tmp_path / "w.pt", content, {"0": VALUES})
    assert read_checkpoint(path)["v"].tolist() == [3, 4]


# --- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ({"a.w": SIMPLE}, ["a.w"]),
        ({"state_dict": dict_of({"w": SIMPLE}), "epoch": value(3)}, ["w"]),
        ({"model": dict_of({"w": SIMPLE}), "optimizer": dict_of({"m": SIMPLE})}, ["w"]),
        ({"model": dict_of({"w": SIMPLE}), "net": dict_of({"w": SIMPLE})}, ["model.w", "net.w"]),
        ({"model": dict_of({"w": SIMPLE}), "scale": SIMPLE}, ["model.w", "scale"]),
        ({"model": dict_of({"state_dict": dict_of({"w": SIMPLE})})}, ["w"]),
        ({"g": dict_of({0: SIMPLE}), "d": value([]) + SIMPLE + b"a"}, ["g.0", "d.0"]),
        ({"model": value({"width": 3}), "state_dict": dict_of({"w": SIMPLE})}, ["w"]),
    ],
)
def test_names(tmp_path: Path, items: dict[str, bytes], expected: list[str]) -> None:
    path = write_zip(tmp_path / "w.pt", dict_of(items), {"0": VALUES})
    assert list(read_checkpoint(path)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SIMPLE, "a dictionary of tensors"),
        (value({"epoch": 3}), "holds no tensors"),
        (value([1, 2]), "a dictionary of tensors"),
        (dict_of({"a.b": SIMPLE, "a": dict_of({"b": SIMPLE})}), "two tensors"),
    ],
)
def test_contents_without_one_meaning(tmp_path: Path, content: bytes, message: str) -> None:
    assert message in refusal(write_zip(tmp_path / "w.pt", content, {"0": VALUES}))


def test_a_dictionary_that_holds_itself(tmp_path: Path) -> None:
    content = b"}q\x00" + value("model") + b"h\x00s"
    assert "more than 64 deep" in refusal(write_zip(tmp_path / "w.pt", content, {}))


def test_a_list_that_holds_itself_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_file, "MAX_ITEMS", 1000)
    content = dict_of({"w": b"]q\x00h\x00ah\x00a"})
    assert "more than" in refusal(write_zip(tmp_path / "w.pt", content, {}))


# --- code --------------------------------------------------------------------------------------

FORBIDDEN = [
    ("os", "system"),
    ("posix", "system"),
    ("builtins", "eval"),
    ("__builtin__", "getattr"),
    ("builtins", "exec"),
    ("subprocess", "Popen"),
    ("torch", "load"),
    ("torch.hub", "load"),
    ("torch._utils", "_rebuild_sparse_tensor"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("collections", "OrderedDict.fromkeys"),
    ("burnx.checkpoints.pickle_names", "Name"),
]


@pytest.mark.parametrize(("module", "attribute"), FORBIDDEN)
@pytest.mark.parametrize("form", ["global", "stack", "inst", "object", "new"])
@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_code_is_named_and_not_run(
    tmp_path: Path, module: str, attribute: str, form: str, write: Any
) -> None:
    marker = tmp_path / "ran"
    argument = value(f"touch {marker}")
    content = {
        "global": call(name(module, attribute), argument),
        "stack": value(module) + value(attribute) + b"\x93" + argument + b"\x85R",
        "inst": b"(" + argument + b"i" + f"{module}\n{attribute}\n".encode(),
        "object": b"(" + name(module, attribute) + argument + b"o",
        "new": name(module, attribute) + argument + b"\x85\x81",
    }[form]
    path = write(tmp_path / "w.pt", dict_of({"w": SIMPLE, "x": content}), {"0": VALUES})
    message = refusal(path)
    assert f"wants to call {module}.{attribute}; burnx reads tensors only" in message
    assert not marker.exists()


def test_a_bare_pickle_with_code_is_not_run(tmp_path: Path) -> None:
    path, marker = tmp_path / "w.bin", tmp_path / "ran"
    path.write_bytes(whole(call(name("os", "system"), value(f"touch {marker}"))))
    assert "wants to call os.system" in refusal(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "target",
    [
        name("torch._utils", "_rebuild_tensor_v2"),
        name("collections", "OrderedDict"),
        name("torch", "float32"),
        SIMPLE,
        storage("0", 6),
    ],
)
@pytest.mark.parametrize("slots", [False, True])
def test_nothing_of_ours_can_be_changed(tmp_path: Path, target: bytes, slots: bool) -> None:
    before = {key: (known.name, known.build, known.dtype) for key, known in NAMES.items()}
    state = dict_of({"build": name("collections", "OrderedDict"), "dtype": value(1)})
    state = tuple_of(value(None), state) if slots else state
    content = dict_of({"w": SIMPLE, "x": target + state + b"b"})
    refusal(write_zip(tmp_path / "w.pt", content, {"0": VALUES}))
    assert before == {key: (known.name, known.build, known.dtype) for key, known in NAMES.items()}


@pytest.mark.parametrize(
    "content",
    [
        call(name("torch", "float32"), value(1)),
        call(name("torch", "Tensor"), value(1)),
        call(name("collections", "OrderedDict"), value(1)),
        call(name("_codecs", "encode"), value("a"), value("rot13")),
        call(name("torch._utils", "_rebuild_tensor_v2"), value(1)),
        call(name("torch._tensor", "_rebuild_from_type_v2"), *[value(1)] * 4),
        call(value("text")),
        b"\x82\x01",
        b"\x97",
        b"r\xff\xff\xff\x7f",
        b"h\x63",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x00abc",
        b"\x8b\xff\xff\xff\x7f",
        b"I" + b"9" * 5000 + b"\n",
        b"P0\n",
        b"S'\\o'\n",
        value(("storage", 1)) + b"Q",
        b"(" * 50_000,
        b"\xfe",
    ],
)
def test_pickles_that_build_no_tensors(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.pt"
    refusal(write_zip(path, dict_of({"w": SIMPLE, "x": content}), {"0": VALUES}))


@pytest.mark.parametrize(
    "content",
    [
        tensor(storage("0", 6), (2, 4), (3, 1)),
        tensor(storage("0", 6), (2, 3), (3, 1), 1),
        tensor(storage("0", 6), (2, 3), (3,)),
        tensor(storage("0", 6), (-1,), (1,)),
        tensor(storage("0", 6), (2,), (-1,), 5),
        tensor(storage("0", 6), (True,), (1,)),
        tensor(storage("0", 6), (2.0,), (1,)),
        tensor(storage("0", 6), (1 << 62, 4), (0, 0)),
        tensor(storage("0", 6), (1,) * 65, (1,) * 65),
        tensor(storage("0", 1 << 60), (2,), (1,)),
        tensor(storage("0", -6), (2,), (1,)),
        tensor(storage("0", 5), (2,), (1,)),
        tensor(storage("0", 3, "DoubleStorage"), (9,), (1,)),
        tensor(storage("1", 6), (2,), (1,)),
        tensor(storage("../0", 6), (2,), (1,)),
        tensor(storage(0, 6), (2,), (1,)),
        tensor(storage("0", 6, "FloatStorage", value(("1", 5, 2))), (2,), (1,)),
        tensor(value("storage"), (2,), (1,)),
    ],
)
@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_tensors_that_do_not_fit_their_storage(tmp_path: Path, content: bytes, write: Any) -> None:
    refusal(write(tmp_path / "w.pt", dict_of({"w": content}), {"0": VALUES}))


def test_one_storage_with_two_dtypes(tmp_path: Path) -> None:
    other = tensor(storage("0", 6, "IntStorage"), (6,), (1,))
    path = write_zip(tmp_path / "w.pt", dict_of({"a": SIMPLE, "b": other}), {"0": VALUES})
    assert "two dtypes" in refusal(path)


# --- damaged files -----------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_every_truncation_is_refused(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path / "w.pt", dict_of({"w": SIMPLE}), {"0": VALUES})
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        refusal(path)


@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_no_changed_byte_gives_another_error(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path / "w.pt", dict_of({"w": SIMPLE}), {"0": VALUES})
    data = path.read_bytes()
    random = np.random.default_rng(0)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] = int(random.integers(256))
        path.write_bytes(changed)
        refused = ""
        try:
            assert set(map(type, read_checkpoint(path).values())) == {np.ndarray}
        except WeightsError as error:
            refused = str(error)
        assert not refused or "w.pt" in refused


@pytest.mark.parametrize(
    "entry", ["../evil", "archive/../../evil", "/etc/evil", "a\\..\\evil", "C:/evil"]
)
def test_archives_with_unsafe_names(tmp_path: Path, entry: str) -> None:
    path = write_zip(tmp_path / "w.pt", dict_of({"w": SIMPLE}), {"0": VALUES})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, b"x")
    assert "unsafe name" in refusal(path)


def test_archives_with_two_entries_of_one_name(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "w.pt", dict_of({"w": SIMPLE}), {"0": VALUES})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("archive/data/0", VALUES.tobytes())
    assert "twice" in refusal(path)


def test_compressed_storages_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    write_zip(path, dict_of({"w": SIMPLE}), {"0": VALUES}, compression=zipfile.ZIP_LZMA)
    assert "not known" in refusal(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"archive/version": b"3"}, "has 0"),
        ({"a/data.pkl": b"", "b/data.pkl": b""}, "has 2"),
        ({"a.npy": b""}, ".npz"),
        ({"a/data.pkl": whole(value({})), "a/constants.pkl": b""}, "TorchScript"),
        ({"a/data.pkl": whole(value({})), "a/byteorder": b"big"}, "little-endian"),
        ({"a/data.pkl": b""}, "pickle"),
    ],
)
def test_other_archives(tmp_path: Path, entries: dict[str, bytes], message: str) -> None:
    path = tmp_path / "w.pt"
    with zipfile.ZipFile(path, "w") as archive:
        for entry, data in entries.items():
            archive.writestr(entry, data)
    assert message in refusal(path)


def npy_bytes() -> bytes:
    file = io.BytesIO()
    np.save(file, VALUES)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (whole(value({"w": 1})), "seems to be a pickle"),
        (b"plain text\n", "a text file"),
        (npy_bytes(), "NumPy"),
        (bytes(257) + b"ustar" + bytes(100), "tar archive"),
        (b"\xff" * 100, "damaged"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(content)
    assert message in refusal(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none.pt")
    assert "is a folder" in refusal(tmp_path)
