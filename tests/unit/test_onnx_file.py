"""ONNX files: every way to say a tensor, external data only from the model's folder, clear refusals."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from burnx.dtype import DTYPES, code_of_dtype, packed_bits
from burnx.errors import ModelError
from burnx.importer.onnx_file import OnnxFile, read_model, sparse_array, tensor_array

Array = np.ndarray[Any, Any]
NUMERIC = [name for name in DTYPES if name != "string"]


def make_model(*tensors: TensorProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [value], [], list(tensors))
    return helper.make_model(graph)


def in_memory() -> OnnxFile:
    return OnnxFile(make_model())


def random_array(name: str, shape: tuple[int, ...]) -> Array:
    dtype = DTYPES[name]
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    limit = 1 if name == "bool" else (1 << min(packed_bits(dtype), 8)) - 1
    return (raw & np.uint8(limit)).view(dtype).reshape(shape)


def assert_same(found: Array, expected: Array) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


# --- tensors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)])
@pytest.mark.parametrize("name", NUMERIC)
def test_raw_data_of_every_dtype(name: str, shape: tuple[int, ...]) -> None:
    array = random_array(name, shape)
    assert_same(tensor_array(numpy_helper.from_array(array, "w"), in_memory()), array)


@pytest.mark.parametrize("name", NUMERIC)
def test_typed_fields_of_every_dtype(name: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(DTYPES[name])
    code = code_of_dtype(DTYPES[name])
    tensor = helper.make_tensor("w", code, array.shape, array.reshape(-1).tolist())
    assert not tensor.HasField("raw_data")
    assert_same(tensor_array(tensor, in_memory()), array)


@pytest.mark.parametrize(
    ("name", "entries", "expected"),
    [
        ("int8", [-128, 127], [-128, 127]),
        ("int16", [-32768, 5], [-32768, 5]),
        ("uint16", [65535, 5], [65535, 5]),
        ("float16", [0x3C00, 0xBC00], [1.0, -1.0]),
        ("bfloat16", [0x3F80, 0xBF80], [1.0, -1.0]),
        ("float8_e4m3fn", [0x38, 0xB8], [1.0, -1.0]),
        ("bool", [2, 0], [True, False]),
    ],
)
def test_int32_entries_hold_the_bits(name: str, entries: list[int], expected: list[Any]) -> None:
    code = code_of_dtype(DTYPES[name])
    tensor = TensorProto(name="w", data_type=code, dims=[2], int32_data=entries)
    array = tensor_array(tensor, in_memory())
    assert array.dtype == DTYPES[name]
    assert array.astype(object).tolist() == expected or array.tolist() == expected


def test_complex_entries_are_pairs() -> None:
    tensor = TensorProto(name="w", data_type=14, dims=[2], float_data=[1, 2, 3, 4])
    assert tensor_array(tensor, in_memory()).tolist() == [1 + 2j, 3 + 4j]


def test_strings_keep_bytes_that_are_not_utf_8() -> None:
    items = ["é".encode(), b"\xff\x00", b""]
    tensor = TensorProto(name="w", data_type=8, dims=[3, 1], string_data=items)
    array = tensor_array(tensor, in_memory())
    assert array.dtype == object
    assert array.shape == (3, 1)
    assert [text.encode("utf-8", "surrogateescape") for text in array[:, 0]] == items


def test_raw_bytes_other_than_0_and_1_are_true() -> None:
    tensor = TensorProto(name="w", data_type=9, dims=[3], raw_data=b"\x00\x02\x01")
    assert tensor_array(tensor, in_memory()).view(np.uint8).tolist() == [0, 1, 1]


IMPOSSIBLE = {
    "short raw": TensorProto(name="w", data_type=1, dims=[2], raw_data=b"1234"),
    "long raw": TensorProto(name="w", data_type=1, dims=[1], raw_data=b"12345678"),
    "short packed": TensorProto(name="w", data_type=22, dims=[5], raw_data=b"12"),
    "short field": TensorProto(name="w", data_type=1, dims=[2], float_data=[1]),
    "wrong field": TensorProto(name="w", data_type=7, dims=[1], int32_data=[1]),
    "half complex": TensorProto(name="w", data_type=14, dims=[1], float_data=[1]),
    "no data": TensorProto(name="w", data_type=1, dims=[]),
    "negative": TensorProto(name="w", data_type=1, dims=[-1]),
    "huge": TensorProto(name="w", data_type=1, dims=[1 << 40, 1 << 40, 0]),
    "undefined": TensorProto(name="w", data_type=0, dims=[1]),
    "unknown": TensorProto(name="w", data_type=99, dims=[1]),
    "few strings": TensorProto(name="w", data_type=8, dims=[2], string_data=[b"a"]),
    "raw strings": TensorProto(name="w", data_type=8, dims=[1], raw_data=b"a"),
    "one field": TensorProto(name="w", data_type=1, dims=[1], float_data=[1], raw_data=b"\0\0\0\0"),
    "segment": TensorProto(
        name="w", data_type=1, dims=[1], float_data=[1], segment=TensorProto.Segment(begin=0, end=1)
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible_tensors_are_named(case: str) -> None:
    with pytest.raises(ModelError, match="tensor 'w'"):
        tensor_array(IMPOSSIBLE[case], in_memory())


# --- external data -----------------------------------------------------------------------------


def external(location: str | None, array: Array, **entries: Any) -> TensorProto:
    tensor = TensorProto(name="w", data_type=code_of_dtype(array.dtype), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": location} | entries).items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def save_model(folder: Path, tensor: TensorProto) -> OnnxFile:
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(make_model(tensor).SerializeToString())
    return read_model(folder / "m.onnx")


ARRAY = np.arange(6, dtype=np.float32)


def test_external_data_is_mapped_once_and_read_only(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(64) + ARRAY.tobytes() + b"tail")
    file = save_model(tmp_path, external("w.bin", ARRAY, offset=64, length=24))
    first = tensor_array(file.proto.graph.initializer[0], file)
    second = tensor_array(file.proto.graph.initializer[0], file)
    assert_same(first, ARRAY)
    assert np.shares_memory(first, second)
    assert not first.flags.writeable
    assert len(file.maps) == 1


@pytest.mark.parametrize("name", ["int4", "uint2", "float6_e2m3fn", "bool", "complex128"])
def test_external_data_of_other_dtypes_and_unaligned(tmp_path: Path, name: str) -> None:
    array = random_array(name, (3, 3))
    raw = numpy_helper.from_array(array).raw_data
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/w.bin").write_bytes(b"x" + raw)
    file = save_model(tmp_path, external("sub/w.bin", array, offset=1))
    assert_same(tensor_array(file.proto.graph.initializer[0], file), array)


def test_external_data_written_by_onnx(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(40, 10))
    path = tmp_path / "m.onnx"
    model = make_model(numpy_helper.from_array(array, "w"))
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    file = read_model(path)
    assert not file.proto.graph.initializer[0].raw_data
    assert_same(tensor_array(file.proto.graph.initializer[0], file), array)


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(ARRAY.tobytes())
    (tmp_path / "w.bin").symlink_to("real.bin")
    file = save_model(tmp_path, external("w.bin", ARRAY))
    assert_same(tensor_array(file.proto.graph.initializer[0], file), ARRAY)


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("", {}, "is empty"),
        (None, {}, "is empty"),
        ("{outside}", {}, "is absolute"),
        ("../secret.bin", {}, "'..'"),
        ("sub/../../secret.bin", {}, "'..'"),
        ("sub\\..\\..\\secret.bin", {}, "'..'"),
        ("C:\\secret.bin", {}, "is absolute"),
        ("\\secret.bin", {}, "is absolute"),
        ("link.bin", {}, "is a link out of"),
        ("out/secret.bin", {}, "is a link out of"),
        ("loop.bin", {}, "cannot be read"),
        ("none.bin", {}, "is not in"),
        ("w.bin/x", {}, "is not in"),
        ("a" * 300, {}, "cannot be read"),
        (".", {}, "regular file"),
        ("sub", {}, "regular file"),
        ("pipe", {}, "regular file"),
        ("empty.bin", {}, "truncated"),
        ("w.bin", {"offset": 1}, "truncated"),
        ("w.bin", {"offset": 1 << 62}, "truncated"),
        ("w.bin", {"offset": -1}, "count of bytes"),
        ("w.bin", {"offset": "1e3"}, "count of bytes"),
        ("w.bin", {"offset": "9" * 5000}, "count of bytes"),
        ("w.bin", {"length": "²"}, "count of bytes"),
        ("w.bin", {"length": 20}, "takes 24 bytes: found 20"),
    ],
)
def test_external_data_that_may_not_be_read(
    tmp_path: Path, location: str | None, entries: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "w.bin").write_bytes(ARRAY.tobytes())
    (folder / "empty.bin").write_bytes(b"")
    (tmp_path / "secret.bin").write_bytes(ARRAY.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "out").symlink_to(tmp_path)
    (folder / "loop.bin").symlink_to("loop.bin")
    os.mkfifo(folder / "pipe")
    if location is not None:
        location = location.replace("{outside}", str(tmp_path / "secret.bin"))
    file = save_model(folder, external(location, ARRAY, **entries))
    with pytest.raises(ModelError, match="tensor 'w'") as caught:
        tensor_array(file.proto.graph.initializer[0], file)
    assert message in str(caught.value)
    assert "m.onnx" in str(caught.value)
    assert file.maps == {}


def test_a_folder_with_the_same_start_is_another_folder(tmp_path: Path) -> None:
    (tmp_path / "model-other").mkdir()
    (tmp_path / "model-other/w.bin").write_bytes(ARRAY.tobytes())
    (tmp_path / "model").mkdir()
    (tmp_path / "model/w.bin").symlink_to(tmp_path / "model-other/w.bin")
    file = save_model(tmp_path / "model", external("w.bin", ARRAY))
    with pytest.raises(ModelError, match="is a link out of"):
        tensor_array(file.proto.graph.initializer[0], file)


def test_models_in_memory_need_a_folder_for_external_data(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(ARRAY.tobytes())
    model = make_model(external("w.bin", ARRAY))
    file = read_model(model)
    with pytest.raises(ModelError, match="base_dir, tensor 'w', a model in memory"):
        tensor_array(model.graph.initializer[0], file)
    file = read_model(model.SerializeToString(), base_dir=tmp_path)
    assert_same(tensor_array(file.proto.graph.initializer[0], file), ARRAY)


# --- sparse tensors ----------------------------------------------------------------------------


def sparse(values: Array, indices: Array, dims: list[int]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values, "s"), numpy_helper.from_array(indices, "i"), dims
    )


@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_sparse_tensors_become_dense(indices: Array) -> None:
    values = np.array([3, 4], np.float32)
    array = sparse_array(sparse(values, indices, [2, 3]), in_memory())
    assert array.dtype == np.float32
    assert array.tolist() == [[0, 3, 0], [0, 0, 4]]


def test_sparse_tensors_without_values() -> None:
    empty = sparse(np.zeros(0, np.float32), np.zeros((0, 2), np.int64), [2, 2])
    assert sparse_array(empty, in_memory()).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("indices", "dims", "message"),
    [
        (np.array([0, 6]), [2, 3], "outside"),
        (np.array([-1, 0]), [2, 3], "outside"),
        (np.array([[0, 3], [0, 0]]), [2, 3], "outside"),
        (np.array([1, 1]), [2, 3], "twice"),
        (np.array([1]), [2, 3], "need indices"),
        (np.array([0, 1], np.int32), [2, 3], "int64"),
        (np.array([0, 1]), [-2], "legal shape"),
        (np.array([0, 1]), [1 << 59], "no memory"),
    ],
)
def test_sparse_tensors_that_do_not_fit(indices: Array, dims: list[int], message: str) -> None:
    values = np.array([3, 4], np.float32)
    with pytest.raises(ModelError, match="sparse tensor 's'") as caught:
        sparse_array(sparse(values, indices, dims), in_memory())
    assert message in str(caught.value)


# --- files that are no models ------------------------------------------------------------------


def test_the_three_sources_give_the_same_model(tmp_path: Path) -> None:
    model = make_model(numpy_helper.from_array(ARRAY, "w"))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    from_path, from_bytes = read_model(str(path)), read_model(model.SerializeToString())
    assert from_path.proto == from_bytes.proto == read_model(model).proto
    assert (from_path.path, from_path.base_dir) == (path, tmp_path)
    assert (from_bytes.path, from_bytes.base_dir) == (None, None)


def test_every_truncation_is_refused() -> None:
    data = make_model(numpy_helper.from_array(ARRAY, "w")).SerializeToString()
    for size in range(len(data)):
        with pytest.raises(ModelError, match="a model in memory"):
            read_model(data[:size])


def zip_bytes(tmp_path: Path) -> bytes:
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("a", "b")
    return (tmp_path / "z").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x00", "not an ONNX model"),
        (b"\xff" * 40, "not an ONNX model"),
        (b"zip", "zip archive"),
        (b"\x80\x02}q\x00.", "a pickle"),
        (b"hello, this is text\n", "a text file"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b'\x02\x00\x00\x00\x00\x00\x00\x00{"a', "a safetensors file"),
        (helper.make_opsetid("", 20).SerializeToString(), "not a whole ONNX model"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "it has no graph"),
        (onnx.ModelProto(graph=onnx.GraphProto(name="g")).SerializeToString(), "it has no IR"),
        (
            onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(name="g")).SerializeToString(),
            "it has no opset import",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(zip_bytes(tmp_path) if content == b"zip" else content)
    with pytest.raises(ModelError, match="m.onnx") as caught:
        read_model(path)
    assert message in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        read_model(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="is a folder"):
        read_model(tmp_path)


def test_files_beyond_2_gib_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 31)
    with pytest.raises(ModelError, match="external data"):
        read_model(path)


def test_large_initializers_stay_in_the_file(tmp_path: Path) -> None:
    values = np.arange(100_003, dtype=np.float32)
    small = np.arange(3, dtype=np.int64)
    tensors = [numpy_helper.from_array(values, "w"), numpy_helper.from_array(small, "s")]
    graph = helper.make_graph([], "g", [], [], tensors)
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    file = read_model(path)
    large, rest = file.proto.graph.initializer
    assert len(file.proto.SerializeToString()) < 1000
    array = tensor_array(large, file)
    assert not array.flags.owndata
    np.testing.assert_array_equal(array, values)
    np.testing.assert_array_equal(tensor_array(rest, file), small)


def test_large_initializers_of_a_wrong_size_are_refused(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(100_000, np.float32), "w")
    tensor.dims[:] = [99_999]
    path = tmp_path / "m.onnx"
    model = helper.make_model(helper.make_graph([], "g", [], [], [tensor]))
    path.write_bytes(model.SerializeToString())
    file = read_model(path)
    with pytest.raises(ModelError, match="takes 399996 bytes: found 400000"):
        tensor_array(file.proto.graph.initializer[0], file)


def test_damage_in_large_files_is_found_as_in_small_ones(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(40_000, np.float32), "w")
    data = helper.make_model(helper.make_graph([], "g", [], [], [tensor])).SerializeToString()
    path = tmp_path / "m.onnx"
    for length in (10, 40, 200, 100_000, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError, match=r"m\.onnx"):
            tensor_array(read_model(path).proto.graph.initializer[0], read_model(path))
