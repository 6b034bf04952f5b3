"""Weights: what is written comes back, other tools read it, damaged files are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from burnx.dtype import DTYPES, packed_bits
from burnx.errors import BurnxError, UsageError, WeightsError
from burnx.files import atomic_write
from burnx.weights import TensorNotFound, open_weights, save_weights

NUMERIC = [name for name in DTYPES if name != "string"]


def random_array(name: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Any bits that are an element of the dtype, NaNs and infinities among them."""
    dtype = DTYPES[name]
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    limit = 1 if name == "bool" else (1 << min(packed_bits(dtype), 8)) - 1
    return (raw & np.uint8(limit)).view(dtype).reshape(shape)


def write_raw(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(begin: int, end: int, dtype: str = "U8", shape: Any = None) -> dict[str, Any]:
    shape = [end - begin] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def assert_same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


# --- round trips -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (7,), (3, 5)])
@pytest.mark.parametrize("name", NUMERIC)
def test_every_dtype_and_shape_comes_back(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    array = random_array(name, shape)
    save_weights(tmp_path / "w.safetensors", {"a": array, "b": random_array("uint8", (3,))})
    weights = open_weights(tmp_path / "w.safetensors")
    assert_same(weights["a"], array)
    assert not weights["a"].flags.writeable


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])).filter(
            lambda text: text != "__metadata__"
        ),
        st.tuples(st.sampled_from(NUMERIC), st.lists(st.integers(0, 4), max_size=4)),
        max_size=6,
    ),
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.text(st.characters(exclude_categories=["Cs"])),
        max_size=3,
    ),
)
def test_any_names_dtypes_and_shapes_come_back(
    tmp_path: Path, kinds: dict[str, tuple[str, list[int]]], metadata: dict[str, str]
) -> None:
    path = tmp_path / "w.safetensors"
    tensors = {name: random_array(kind, tuple(shape)) for name, (kind, shape) in kinds.items()}
    save_weights(path, tensors, metadata)
    weights = open_weights(path)
    assert list(weights) == list(tensors)
    assert weights.metadata == metadata
    for name, array in tensors.items():
        assert_same(weights[name], array)


def test_layouts_in_memory_do_not_matter(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tensors = {
        "fortran": np.asfortranarray(base),
        "strided": base[:, ::2, ::-1],
        "big_endian": base.astype(">f4"),
        "expanded": np.broadcast_to(np.float32(3), (2, 5)),
    }
    save_weights(tmp_path / "w.safetensors", tensors)
    weights = open_weights(tmp_path / "w.safetensors")
    for name, array in tensors.items():
        assert np.array_equal(weights[name], array)


def test_arrays_are_views_of_one_map(tmp_path: Path) -> None:
    tensors = {"a": random_array("int8", (3,)), "b": random_array("float64", (5,))}
    save_weights(tmp_path / "w.safetensors", tensors)
    weights = open_weights(tmp_path / "w.safetensors")
    assert weights["b"].flags.aligned
    assert not weights["b"].flags.owndata
    assert np.shares_memory(weights["b"], weights["b"])


def test_weights_can_be_written_over_the_file_they_are_mapped_from(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, {"a": random_array("float32", (4,)), "b": random_array("int4", (5,))})
    before = {name: array.copy() for name, array in open_weights(path).items()}
    save_weights(path, open_weights(path))
    for name, array in before.items():
        assert_same(open_weights(path)[name], array)


# --- other tools -------------------------------------------------------------------------------


def test_safetensors_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    names = ["bool", "int8", "uint16", "float16", "bfloat16", "float32", "float64", "complex64"]
    tensors = {name: random_array(name, (2, 3)) for name in names}
    save_weights(path, {**tensors, "scalar": np.array(2.5, np.float32), "none": np.zeros((0, 3))})
    found = load_file(path)
    for name, array in tensors.items():
        assert_same(found[name], array)
    assert found["scalar"] == np.float32(2.5)
    assert found["none"].shape == (0, 3)


@pytest.mark.parametrize("name", NUMERIC)
def test_safetensors_accepts_the_header_of_every_dtype(tmp_path: Path, name: str) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(
        path, {"a": random_array(name, (3, 3)), "b": random_array("float32", (2,))}, {"k": "v"}
    )
    with safe_open(path, "np") as file:
        assert sorted(file.keys()) == ["a", "b"]
        assert file.metadata()["k"] == "v"
        assert np.array_equal(file.get_tensor("b"), random_array("float32", (2,)), equal_nan=True)


def test_files_of_safetensors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    tensors = {name: random_array(name, (2, 3)) for name in ("bool", "int8", "bfloat16", "int64")}
    save_file(tensors, path, {"format": "np"})
    weights = open_weights(path)
    assert weights.metadata == {"format": "np"}
    for name, array in tensors.items():
        assert_same(weights[name], array)


def test_native_4_bit_tensors_are_read(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "w", {"a": entry(0, 2, "F4", [2, 2])}, b"\x21\x43")
    values = open_weights(path)["a"].astype(np.float32)
    assert values.tolist() == [[0.5, 1.0], [1.5, 2.0]]


def test_unaligned_tensors_are_copied(tmp_path: Path) -> None:
    data = b"\x07" + np.arange(3, dtype=np.float32).tobytes()
    header = {"a": entry(0, 1), "b": entry(1, 13, "F32", [3])}
    array = open_weights(write_raw(tmp_path / "w", header, data))["b"]
    assert array.flags.aligned
    assert array.tolist() == [0.0, 1.0, 2.0]


def test_bytes_other_than_0_and_1_are_true(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "w", {"a": entry(0, 3, "BOOL")}, b"\x00\x02\x01")
    assert open_weights(path)["a"].view(np.uint8).tolist() == [0, 1, 1]


# --- what is refused ---------------------------------------------------------------------------

DAMAGED: dict[str, tuple[Any, bytes, str]] = {
    "no object": (b"[1]", b"", "not a safetensors file"),
    "bad json": (b'{"a": ', b"", "header is damaged"),
    "bad utf-8": (b'{"\xff": 1}', b"", "header is damaged"),
    "deep json": (b'{"a":' + b"[" * 100_000, b"", "header is damaged"),
    "twice": (b'{"a": 1, "a": 2}', b"", "stands twice"),
    "metadata": ({"__metadata__": {"a": 1}}, b"", "strings to strings"),
    "no entry": ({"a": [1]}, b"", "dtype, shape and data_offsets, tensor 'a'"),
    "missing key": ({"a": {"dtype": "U8", "shape": [1]}}, b"x", "tensor 'a'"),
    "dtype": ({"a": entry(0, 1, "Q9")}, b"x", "'Q9' is not known, tensor 'a'"),
    "dtype list": ({"a": {**entry(0, 1), "dtype": ["U8"]}}, b"x", "not known, tensor 'a'"),
    "negative": ({"a": entry(0, 1, "U8", [-1])}, b"x", "not a list of sizes, tensor 'a'"),
    "float size": ({"a": entry(0, 1, "U8", [1.0])}, b"x", "not a list of sizes"),
    "true size": ({"a": entry(0, 1, "U8", [True])}, b"x", "not a list of sizes"),
    "huge": ({"a": entry(0, 0, "U8", [0, 1 << 62, 2])}, b"", "too large, tensor 'a'"),
    "rank": ({"a": entry(0, 1, "U8", [1] * 65)}, b"x", "too large, tensor 'a'"),
    "size": ({"a": entry(0, 4, "F32", [2])}, b"abcd", "takes 8 bytes, not 4, tensor 'a'"),
    "backwards": ({"a": entry(4, 0, "U8", [4])}, b"abcd", "begin and an end, tensor 'a'"),
    "one offset": ({"a": {**entry(0, 1), "data_offsets": [0]}}, b"x", "begin and an end"),
    "outside": ({"a": entry(0, 9)}, b"abcd", "tensor 'a' ends at byte"),
    "overlap": ({"a": entry(0, 3), "b": entry(2, 4)}, b"abcd", "'b' overlaps tensor 'a'"),
    "gap": ({"a": entry(0, 1), "b": entry(2, 4)}, b"abcd", "'b' leaves a gap after tensor 'a'"),
    "tail": ({"a": entry(0, 1)}, b"abcd", "3 bytes belong to no tensor"),
    "packed json": ({"__metadata__": {"burnx.packed": "["}}, b"", "is damaged"),
    "packed name": ({"__metadata__": {"burnx.packed": '{"a": 1}'}}, b"", "packed tensor 'a'"),
    "packed size": (
        {
            "__metadata__": {"burnx.packed": '{"a": {"dtype": "int4", "shape": [9]}}'},
            "a": entry(0, 1),
        },
        b"x",
        "takes 5 bytes, not 1, packed tensor 'a'",
    ),
    "packed dtype": (
        {
            "__metadata__": {"burnx.packed": '{"a": {"dtype": "text", "shape": [0]}}'},
            "a": entry(0, 0),
        },
        b"",
        "'text' is not known",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_headers_are_refused(tmp_path: Path, case: str) -> None:
    header, data, message = DAMAGED[case]
    path = write_raw(tmp_path / "bad.safetensors", header, data)
    with pytest.raises(WeightsError, match="bad.safetensors") as caught:
        open_weights(path)
    assert message in str(caught.value)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, {"a": random_array("float32", (3,))})
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(WeightsError, match="w.safetensors"):
            open_weights(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04" + bytes(60), "zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ((1 << 40).to_bytes(8, "little") + b"{}", "not a safetensors file"),
        (b"", "is empty"),
    ],
)
def test_other_files_are_recognised(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=message):
        open_weights(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="does not exist"):
        open_weights(tmp_path / "none.safetensors")
    with pytest.raises(WeightsError, match="is a folder"):
        open_weights(tmp_path)


def test_a_missing_tensor_is_a_key_error_with_a_hint(tmp_path: Path) -> None:
    save_weights(tmp_path / "w", {"layer.weight": np.zeros(1)})
    weights = open_weights(tmp_path / "w")
    with pytest.raises(TensorNotFound, match=r"did you mean 'layer\.weight'"):
        weights["layer.weihgt"]
    assert weights.get("other") is None
    assert "other" not in weights


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"a": np.array(["x", 1], object)}, None, "strings only, tensor 'a'"),
        ({"a": np.zeros(2, "M8[s]")}, None, "tensor 'a'"),
        ({"__metadata__": np.zeros(2)}, None, "cannot have this name"),
        ({"\ud800": np.zeros(2)}, None, "legal Unicode"),
        ({}, {"burnx.packed": "{}"}, "burnx's own"),
        ({}, {"a": 1}, "strings to strings"),
    ],
)
def test_what_cannot_be_said_is_not_written(
    tmp_path: Path, tensors: dict[str, Any], metadata: Any, message: str
) -> None:
    with pytest.raises(WeightsError, match="bad") as caught:
        save_weights(tmp_path / "bad", tensors, metadata)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# --- atomic writing ----------------------------------------------------------------------------


def test_an_error_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(KeyError), atomic_write(path) as file:
        file.write(b"new")
        raise KeyError("stop")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_and_the_mode_of_the_old_file_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "out.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with atomic_write(link, "w") as file:
        file.write("new\n")
    assert link.is_symlink()
    assert path.read_bytes() == b"new\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_and_stays_a_device() -> None:
    with atomic_write(os.devnull) as file:
        file.write(b"x")
    assert not Path(os.devnull).is_file()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write .*none"), atomic_write(tmp_path / "none/a"):
        pass
    with pytest.raises(UsageError, match="directory"), atomic_write(tmp_path):
        pass


def test_a_full_disk_is_one_clear_error() -> None:
    with (
        pytest.raises(BurnxError, match="cannot write '/dev/full'"),
        atomic_write("/dev/full") as file,
    ):
        file.write(b"x")
