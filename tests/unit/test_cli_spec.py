"""SPECs of the command line and made-up inputs."""

from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from burnx.cli.arrays import load_archive, save_outputs
from burnx.cli.dims import Growth
from burnx.cli.spec import read_inputs, split_name
from burnx.errors import UsageError


@dataclass(frozen=True)
class Entry:
    name: str
    dtype: str = "float32"
    dims: tuple[int | str | None, ...] | None = ()
    optional: bool = False
    kind: str = "tensor"


X = Entry("x", dims=("batch", 3))
IDS = Entry("ids", "int64", ("batch", "seq"))
MASK = Entry("mask", "int64", ("batch", "past + seq"))


def test_the_longest_known_name_wins() -> None:
    names = ["a", "a=b", "serving_default:0", '{"k": "v=w"}', "/x/y"]
    assert split_name("a=b=1x3", names) == ("a=b", "1x3")
    assert split_name("a=1x3:int64", names) == ("a", "1x3:int64")
    assert split_name("serving_default:0=2:int8", names) == ("serving_default:0", "2:int8")
    assert split_name('{"k": "v=w"}=scalar', names) == ('{"k": "v=w"}', "scalar")
    assert split_name("/x/y=@a=b.npy", names) == ("/x/y", "@a=b.npy")
    assert split_name("@a=b.npy", names) == (None, "@a=b.npy")


@pytest.mark.parametrize(
    ("spec", "shape", "dtype"),
    [
        ("x=2x3", (2, 3), "float32"),
        ("2x3:float16", (2, 3), "float16"),
        ("0x4:bfloat16", (0, 4), "bfloat16"),
        ("scalar:uint8", (), "uint8"),
        ("7:bool", (7,), "bool"),
        ("2:string", (2,), "object"),
        ("2:int4", (2,), "int4"),
        ("2:f8", (2,), "float64"),
    ],
)
def test_a_shape_is_made_up(spec: str, shape: tuple[int, ...], dtype: str) -> None:
    inputs = read_inputs([spec], [X])
    assert inputs.values["x"].shape == shape
    assert inputs.values["x"].dtype.name == dtype
    assert len(inputs.notes) == 1


def test_what_is_made_up_follows_the_dtype() -> None:
    declared = [
        Entry("f", dims=(64,)),
        Entry("i", "int32", (64,)),
        Entry("b", "bool", (2,)),
        Entry("s", "string", (2,)),
        Entry("never", optional=True),
    ]
    inputs = read_inputs([], declared)
    assert np.array_equal(
        inputs.values["f"], np.random.default_rng(0).standard_normal(64).astype(np.float32)
    )
    assert set(inputs.values["i"].tolist()) == {0, 1}
    assert inputs.values["b"].tolist() == [True, True]
    assert inputs.values["s"].tolist() == ["a", "a"]
    assert "never" not in inputs.values
    assert inputs.notes[0] == "made up input 'f': float32 64, standard normal, seed 0"


def test_named_dims_are_one_unless_given_or_seen() -> None:
    past = Entry("past", dims=("batch", "past"))
    assert read_inputs([], [X]).values["x"].shape == (1, 3)
    assert read_inputs([], [X], {"batch": 5}).values["x"].shape == (5, 3)
    assert read_inputs(["ids=4x7"], [IDS, X]).values["x"].shape == (4, 3)
    made = read_inputs([], [IDS, past, MASK], {"past": 6, "seq": 2}).values
    assert made["mask"].shape == (1, 8)
    assert read_inputs([], [Entry("u", dims=None), Entry("v", dims=(None,))]).values["u"].size == 1


@pytest.mark.parametrize("dims", [(), (1,), (1, 1), ("batch", "seq")])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int4"])
def test_an_integer_by_itself_is_one(dims: tuple[int | str, ...], dtype: str) -> None:
    for seed in range(8):  # it may be a count or a length
        inputs = read_inputs([], [Entry("n", dtype, dims)], seed=seed)
        assert inputs.values["n"].astype(int).sum() == 1
        assert inputs.notes[0].endswith(", 1")


def test_what_nothing_sets_grows_and_nothing_else() -> None:
    state = Entry("state", dims=(2, None, 8))
    images = Entry("images", dims=(None, 3, None, None))
    larger, all_of_it = Growth(16), Growth(16, batches=True)

    def shapes(growth: Growth, *specs: str) -> list[tuple[int, ...]]:
        made = read_inputs(specs, [IDS, MASK, state, images], {"past": 5}, growth=growth)
        return [value.shape for value in made.values.values()]

    assert shapes(Growth()) == [(1, 1), (1, 6), (2, 1, 8), (1, 3, 1, 1)]
    assert shapes(larger) == [(1, 16), (1, 21), (2, 1, 8), (1, 3, 16, 16)]
    assert shapes(all_of_it)[2:] == [(2, 16, 8), (16, 3, 16, 16)]
    assert shapes(larger, "ids=2x7")[:2] == [(2, 7), (2, 12)]
    assert read_inputs([], [X], {"batch": 5}).open == frozenset()
    assert read_inputs([], [X]).open == {"batches"}
    assert read_inputs([], [IDS], {"batch": 5}).open == {"others"}


@pytest.mark.parametrize(
    ("spec", "entry", "value"),
    [
        ("n=5", Entry("n", "int64"), 5),
        ("-3", Entry("n", "int8"), -3),
        ("n=2.5", Entry("n"), 2.5),
        ("n=5", Entry("n", "float16"), 5.0),
        ("n=true", Entry("n", "bool"), True),
        ("n=1e3", Entry("n", "float64"), 1000.0),
        ("n=a:b=c", Entry("n", "string"), "a:b=c"),
        ("n=[3, 4]", Entry("n", "int64", (2,)), [3, 4]),
        ("[[1], [2.5]]", Entry("n", "float32", ("a", "b")), [[1], [2.5]]),
        ("n=[7]", Entry("n", "uint8", None), [7]),
        ('["a=b", "@c"]', Entry("n", "string", (2,)), ["a=b", "@c"]),
        ("n=[]", Entry("n", "float32", ("k",)), []),
    ],
)
def test_a_value_stands_on_the_command_line(spec: str, entry: Entry, value: object) -> None:
    inputs = read_inputs([spec], [entry])
    found = inputs.values["n"]
    assert found.dtype == read_inputs([], [entry]).values["n"].dtype
    assert found.tolist() == value
    assert inputs.notes == []


@pytest.mark.parametrize(
    ("spec", "entry"),
    [
        ("n=2.5", Entry("n", "int64")),
        ("n=300", Entry("n", "uint8")),
        ("n=-1", Entry("n", "uint64")),
        ("n=8", Entry("n", "int4")),
        ("n=1", Entry("n", "bool")),
        ("n=true", Entry("n")),
        ("n=1x3", Entry("n")),
        ("n=five", Entry("n", "int64")),
        ("n=[1, [2]]", Entry("n", "int64", None)),
        ('n=["a"]', Entry("n", "int64", None)),
        ("n=[1, 2", Entry("n", "int64", None)),
        ("n=[null]", Entry("n", "float32", None)),
    ],
)
def test_what_a_dtype_does_not_hold_is_no_value(spec: str, entry: Entry) -> None:
    with pytest.raises(UsageError, match="value"):
        read_inputs([spec], [entry])


def test_a_scalar_is_made_up_by_that_word() -> None:
    assert read_inputs(["n=scalar:int32"], [Entry("n")]).values["n"].dtype == np.int32
    assert read_inputs(["scalar"], [Entry("n")]).notes[0].startswith("made up input 'n'")


def test_an_input_is_called_by_its_parameter_too(tmp_path: Path) -> None:
    declared = [Entry("input", dims=(2, 3)), Entry("a.b", "int64", (2,)), Entry("x", dims=(4,))]
    parameters = {"input_2": "input", "a_b": "a.b"}

    def read(*specs: str) -> dict[str, np.ndarray]:
        return read_inputs(specs, declared, parameters=lambda: parameters).values

    assert read("a_b=[1, 2]")["a.b"].tolist() == [1, 2]
    assert list(read("input_2=2x3", "x=4")) == ["input", "a.b", "x"]
    np.savez(tmp_path / "in.npz", input_2=np.ones((2, 3), np.float32))
    assert read(f"@{tmp_path}/in.npz")["input"].tolist() == [[1] * 3] * 2
    with pytest.raises(UsageError, match="given twice"):
        read("a_b=2", "a.b=2")
    with pytest.raises(UsageError, match=r"'input' \(or 'input_2'\), 'a.b' \(or 'a_b'\), 'x'$"):
        read("y=2x3")


def test_specs_without_a_name_go_in_order() -> None:
    inputs = read_inputs(["2x9", "x=2x3"], [X, IDS])
    assert inputs.values["ids"].shape == (2, 9)
    assert list(inputs.values) == ["x", "ids"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("y=1x3", "names no input"),
        ("1y3", "found '1y3'"),
        ("1x3:", "found '1x3:'"),
        ("x=", "found ''"),
        ("-1x3", "found '-1x3'"),
        ("1x3:float33", "'float33' is not a dtype"),
        ("1x3:object", "'object' is not a dtype"),
        ("@missing.npy", "there is no file 'missing.npy'"),
        ("x=@missing.npz", "there is no file 'missing.npz'"),
        (f"@{__file__}", "cannot be"),
    ],
)
def test_a_wrong_spec_is_a_usage_error(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_inputs([spec], [X])
    assert says in str(caught.value) or "no array file" in str(caught.value)


def test_too_many_or_doubled_specs_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="one SPEC more"):
        read_inputs(["1x3", "1x3"], [X])
    with pytest.raises(UsageError, match="given twice"):
        read_inputs(["x=1x3", "x=1x3"], [X])
    with pytest.raises(UsageError, match="no input has a dimension 'depth'"):
        read_inputs([], [X], {"depth": 2})


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evil.npy"
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(UsageError, match="read safely"):
        read_inputs([f"@{path}"], [X])


def test_archives_hold_all_inputs(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, **{"x": np.ones((2, 3), np.float32), "words/0": np.array(["ä"])})
    declared = [X, Entry("words", "sequence(string(?))"), IDS]
    inputs = read_inputs([f"@{path}"], declared)
    assert inputs.values["words"][0].tolist() == ["ä"]
    assert inputs.values["ids"].shape == (2, 1)
    with pytest.raises(UsageError, match="holds 'words/0'"):
        read_inputs([f"@{path}"], [X])
    with pytest.raises(UsageError, match="cannot be made up"):
        read_inputs([], declared)


def test_outputs_come_back_as_inputs(tmp_path: Path) -> None:
    notices: list[str] = []
    outputs = {
        "file": np.ones((2, 3), np.float32),
        "b/c": np.ones(2, ml_dtypes.bfloat16),
        "text": np.array(["a", "bc"], object),
        "items": [np.zeros(1, np.int64), np.ones(2, np.int64)],
        "nothing": None,
    }
    path = tmp_path / "out.npz"
    save_outputs(str(path), outputs, notices.append)
    with np.load(path) as stored:
        assert set(stored.files) == {"file", "b/c", "text", "items/0", "items/1"}
        assert stored["b/c"].dtype == np.float32
    assert [path.name] == [entry.name for entry in tmp_path.iterdir()]
    assert len(notices) == 1
    names = [Entry("file"), Entry("b/c"), Entry("text", "string"), Entry("items", "sequence")]
    again = read_inputs([f"@{path}"], names)
    assert again.values["text"].tolist() == ["a", "bc"]
    assert [item.tolist() for item in again.values["items"]] == [[0], [1, 1]]


def test_maps_are_read_as_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    np.savez(path, **{"m/keys": np.array(["a", "b"]), "m/values": np.array([1.5, 2.5])})
    assert load_archive(str(path), {"m": "string"}) == {"m": {"a": 1.5, "b": 2.5}}
    np.savez(path, **{"m/keys": np.array(["a", "b"])})
    with pytest.raises(UsageError, match="as many m/keys as m/values"):
        load_archive(str(path), {"m": "string"})
