"""Checkpoints as source: every family answers as the original model does; what is not known is said, nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source_checks import passes_tools
from test_pickle_file import dict_of, name, storage, tensor, tuple_of, value, write_zip
from tiny_models import CASES, Case, fill, make_inputs, read_reference

import burnx
from burnx.architectures.family import families
from burnx.architectures.shapes import far_buckets
from burnx.checkpoints import open_tensors
from burnx.cli.app import main
from burnx.errors import BurnxError, ModelError, UnsupportedError, UsageError, WeightsError
from burnx.nn.sources import load_network
from burnx.weights import open_weights, save_weights

Array = np.ndarray[Any, Any]
# What a dtype may part from the original: sums are taken in another order, and rounded elsewhere.
TOLERANCE = {"float32": 2e-5, "bfloat16": 0.05}


def weights_of(case_name: str) -> dict[str, Array]:
    shapes, _ = read_reference(case_name)
    arrays = {each: fill(each, shape) for each, shape in shapes.items()}
    dtype = CASES[case_name].dtype
    return {
        each: array if array.dtype == np.int64 else array.astype(dtype)
        for each, array in arrays.items()
    }


def write_config(folder: Path, case: Case, **changes: Any) -> None:
    if case.config or changes:
        (folder / "config.json").write_text(json.dumps({**case.config, **changes}))


def write_model(folder: Path, case_name: str, file: str = "model.safetensors") -> Path:
    save_weights(folder / file, weights_of(case_name))
    write_config(folder, CASES[case_name])
    return folder / file


def run(source: Path, case: Case, device: str = "reference") -> dict[str, Array]:
    inputs = {
        each: array.astype(case.dtype) if array.dtype == np.float32 else array
        for each, array in make_inputs(case).items()
    }
    return burnx.load(f"{source}:Model", device=device).run(inputs)


def check(source: Path, case_name: str, device: str = "reference") -> None:
    """What a written file answers is what the original model answered."""
    case = CASES[case_name]
    _, expected = read_reference(case_name)
    found = run(source, case, device)
    assert list(found) == list(case.outputs) == list(expected)
    for each, array in expected.items():
        error = np.abs(found[each].astype(np.float32) - array).max()
        assert error <= TOLERANCE[case.dtype] * max(1, np.abs(array).max()), each


# --- families ----------------------------------------------------------------------------------
@pytest.mark.parametrize("case_name", CASES)
def test_source_answers_as_the_original(tmp_path: Path, case_name: str) -> None:
    write_model(tmp_path, case_name)
    report = burnx.import_onnx(tmp_path, tmp_path / "model.py")
    assert report.to_do == report.left_out == ()
    assert report.weights == str(tmp_path / "model.safetensors")
    assert sorted(each.suffix for each in tmp_path.iterdir() if each.name[0] == "m") == [
        ".py",
        ".safetensors",
    ]
    check(tmp_path / "model.py", case_name)


HALVES = ("bert", "t5", "vit", "whisper", "clip", "mamba", "convnext", "mobilenet_v3_small")


@pytest.mark.parametrize("case_name", HALVES)
def test_half_precision_stays_half_precision(tmp_path: Path, case_name: str) -> None:
    weights = {
        each: array if array.dtype == np.int64 else array.astype(np.float16)
        for each, array in weights_of(case_name).items()
    }
    save_weights(tmp_path / "model.safetensors", weights)
    write_config(tmp_path, CASES[case_name])
    burnx.import_onnx(tmp_path, tmp_path / "model.py")
    _, expected = read_reference(case_name)
    found = run(tmp_path / "model.py", replace(CASES[case_name], dtype="float16"))
    for each, array in expected.items():
        assert found[each].dtype == np.float16
        error = np.abs(found[each].astype(np.float32) - array).max()
        assert error <= 0.01 * np.abs(array).max(), each


@pytest.mark.parametrize("case_name", ["bert", "llama", "resnet18"])
def test_source_answers_the_same_on_the_cpu(tmp_path: Path, case_name: str) -> None:
    write_model(tmp_path, case_name)
    burnx.import_onnx(tmp_path, tmp_path / "model.py")
    check(tmp_path / "model.py", case_name, "cpu")


def test_every_family_has_a_case() -> None:
    kinds = {case.config.get("model_type") for case in CASES.values()}
    for family in families():
        assert kinds & set(family.model_types) or family.name in {
            each.removesuffix("18").partition("_small")[0].partition("_large")[0] for each in CASES
        }


def test_buckets_of_t5_are_those_of_its_class() -> None:
    assert far_buckets(16, 128) == [12, 16, 23, 32, 46, 64, 91]
    later = [19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert far_buckets(32, 128) == later


def test_source_is_what_a_person_would_write(
    tmp_path: Path, golden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for case_name in ("bert", "llama", "resnet50"):
        write_model(tmp_path, case_name, f"{case_name}.safetensors")
        burnx.import_onnx(f"{case_name}.safetensors", "model.py", force=True)
        text = Path("model.py").read_text()
        golden(f"checkpoint_{case_name}.py", re.sub(r"\A# Generated.*\n", "", text))
        (tmp_path / "config.json").unlink(missing_ok=True)


# --- where weights lie, and what they are called -----------------------------------------------
def test_shards_are_read_where_they_lie(tmp_path: Path) -> None:
    weights = weights_of("llama")
    parts = {"a.safetensors": list(weights)[::2], "b.safetensors": list(weights)[1::2]}
    for file, names in parts.items():
        save_weights(tmp_path / file, {each: weights[each] for each in names})
    places = {each: file for file, names in parts.items() for each in names}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    write_config(tmp_path, CASES["llama"])
    burnx.import_onnx(tmp_path, tmp_path / "model.py")
    assert f'WEIGHTS = "{index.name}"' in (tmp_path / "model.py").read_text()
    check(tmp_path / "model.py", "llama")


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "cannot be read"),
        ("[]", "no weight_map"),
        ('{"weight_map": {"w": "../w.safetensors"}}', "lie beside their index"),
        ('{"weight_map": {"w": "gone.safetensors"}}', "does not exist"),
        ('{"weight_map": {"w": "there.safetensors"}}', "it is not"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path: Path, content: str, message: str) -> None:
    save_weights(tmp_path / "there.safetensors", {"v": np.ones(2, np.float32)})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    with pytest.raises(WeightsError, match=message):
        dict(open_tensors(index))


@pytest.mark.parametrize(
    "lead, pattern",
    [
        ("module.", r"^module\."),
        ("_orig_mod.", r"\b_orig_mod\."),
        ("model.module.", r"^model\.module\."),
        ("module._orig_mod.", r"^module\."),
    ],
)
def test_what_wraps_a_model_is_taken_off_its_names(tmp_path: Path, lead: str, pattern: str) -> None:
    weights = {lead + each: array for each, array in weights_of("densenet").items()}
    save_weights(tmp_path / "net.safetensors", weights)
    report = burnx.import_onnx(tmp_path / "net.safetensors", tmp_path / "net.py")
    assert report.family == "DenseNet" and report.left_out == ()
    assert repr(pattern)[1:-1] in (tmp_path / "net.py").read_text()
    check(tmp_path / "net.py", "densenet")


def test_pytorch_files_are_read_where_they_lie(tmp_path: Path) -> None:
    weights = weights_of("bert")
    items = {
        each: tensor(storage(each, array.size), array.shape, strides_of(array))
        for each, array in weights.items()
    }
    content = dict_of({"epoch": value(3), "state_dict": dict_of(items)})
    write_zip(tmp_path / "pytorch_model.bin", content, weights)
    write_config(tmp_path, CASES["bert"])
    burnx.import_onnx(tmp_path, tmp_path / "model.py")
    assert 'WEIGHTS = "pytorch_model.bin"' in (tmp_path / "model.py").read_text()
    check(tmp_path / "model.py", "bert")


def strides_of(array: Array) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def test_weights_are_mapped_not_copied(tmp_path: Path) -> None:
    write_model(tmp_path, "llama")
    burnx.import_onnx(tmp_path, tmp_path / "model.py")
    network = load_network(tmp_path / "model.py")
    assert not any(
        each.data.flags.owndata or each.data.flags.writeable for each in network.parameters()
    )


def test_weights_are_copied_when_asked(tmp_path: Path) -> None:
    write_model(tmp_path, "llama")
    burnx.import_onnx(tmp_path, tmp_path / "model.py", weights=tmp_path / "copy.safetensors")
    assert set(open_weights(tmp_path / "copy.safetensors")) == set(weights_of("llama"))
    (tmp_path / "model.safetensors").unlink()
    check(tmp_path / "model.py", "llama")


def test_weights_of_several_dtypes_become_one(tmp_path: Path) -> None:
    weights = weights_of("llama-bfloat16")
    norms = {each: array.astype(np.float32) for each, array in weights.items() if array.ndim == 1}
    save_weights(tmp_path / "given.safetensors", {**weights, **norms})
    write_config(tmp_path, CASES["llama-bfloat16"])
    report = burnx.import_onnx(tmp_path, tmp_path / "model.py")
    assert report.weights == str(tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="need another file"):
        burnx.import_onnx(tmp_path / "model.safetensors", tmp_path / "n.py", weights=report.weights)
    check(tmp_path / "model.py", "llama-bfloat16")


def test_saved_weights_keep_their_names(tmp_path: Path) -> None:
    write_model(tmp_path, "bert-classes")
    burnx.import_onnx(tmp_path, tmp_path / "model.py")
    load_network(tmp_path / "model.py").save_weights(tmp_path / "again.safetensors")
    assert set(open_weights(tmp_path / "again.safetensors")) == set(weights_of("bert-classes"))
    (tmp_path / "again.safetensors").replace(tmp_path / "model.safetensors")
    check(tmp_path / "model.py", "bert-classes")


# --- load_weights ------------------------------------------------------------------------------
class Pair(burnx.nn.Module):
    def __init__(self) -> None:
        self.first = burnx.nn.Linear(2, 3)
        self.last = burnx.nn.Linear(3, 1)


def save_pair(folder: Path, **others: Array) -> Path:
    ones = {
        "enc.0.weight": np.ones((3, 2), np.float32),
        "enc.0.bias": np.ones(3, np.float32),
        "enc.1.weight": np.ones((1, 3), np.float32),
        "enc.1.bias": np.ones(1, np.float32),
    }
    save_weights(folder / "w.safetensors", {**ones, **others})
    return folder / "w.safetensors"


RULES = {r"^enc\.0\.": "first.", r"^enc\.(1)\.(.*)": r"last.\2"}


@pytest.mark.parametrize(
    "remap",
    [
        RULES,
        lambda each: each.replace("enc.0", "first").replace("enc.1", "last"),
        {**RULES, "enc.0.bias": "first.bias"},
    ],
)
def test_names_are_remapped(tmp_path: Path, remap: Any) -> None:
    net = Pair()
    assert net.load_weights(save_pair(tmp_path), remap=remap) == []
    assert all((each.data == 1).all() for each in net.parameters())


def test_a_partial_load_reports_every_key(tmp_path: Path) -> None:
    file = save_pair(tmp_path, extra=np.ones(1, np.float32))
    rules = {r"^enc\.0\.": "first.", r"^enc\.1\.bias": "last.bias", r"^enc\.1\.weight": "last.old"}
    net = Pair()
    assert net.load_weights(file, remap=rules, strict=False) == [
        "unexpected: last.old",
        "unexpected: extra",
        "missing: last.weight (1, 3)",
    ]
    with pytest.raises(WeightsError, match=r"missing: last\.weight"):
        net.load_weights(file, remap=rules)
    wrong = save_pair(tmp_path, **{"enc.1.weight": np.ones((2, 3), np.float32)})
    (line,) = net.load_weights(wrong, remap=RULES, strict=False)
    assert line.startswith("mismatched: last.weight")


@pytest.mark.parametrize(
    "remap, error, message",
    [
        ({"(": ""}, UsageError, "regular expressions"),
        ({"enc": r"\9"}, UsageError, "no replacement"),
        ({r"enc\.[01]": "first"}, WeightsError, "of both"),
    ],
)
def test_a_wrong_remap_is_refused(
    tmp_path: Path, remap: Mapping[str, str], error: type[BurnxError], message: str
) -> None:
    with pytest.raises(error, match=message):
        Pair().load_weights(save_pair(tmp_path), remap=remap)


# --- what cannot be written --------------------------------------------------------------------
@pytest.mark.parametrize(
    "case_name, changes, error, message",
    [
        ("llama", {"rope_scaling": {"type": "yarn"}}, UnsupportedError, "rope_scaling.*'yarn'"),
        ("llama", {"rope_scaling": {"type": "linear"}}, ModelError, "positive factor"),
        ("llama", {"hidden_act": "x'); evil("}, UnsupportedError, "hidden_act"),
        ("llama", {"hidden_size": "16"}, ModelError, "hidden_size must be of type int"),
        ("llama", {"hidden_size": 1e400}, ModelError, "hidden_size"),
        ("llama", {"num_hidden_layers": -1}, ModelError, "num_hidden_layers"),
        ("llama", {"hidden_size": 20}, UnsupportedError, "are not those of Llama"),
        ("llama", {"num_hidden_layers": 3}, UnsupportedError, "missing: layers.2"),
        ("llama", {"quantization_config": {"bits": 4}}, UnsupportedError, "quantization_config"),
        ("bert", {"position_embedding_type": "relative_key"}, UnsupportedError, "relative_key"),
        ("clip", {"text_config": 3}, ModelError, "text_config must be an object"),
        ("qwen2", {"use_sliding_window": True}, UnsupportedError, "use_sliding_window"),
    ],
)
def test_a_config_that_cannot_be_followed_is_refused_by_name(
    tmp_path: Path, case_name: str, changes: dict[str, Any], error: type[BurnxError], message: str
) -> None:
    write_model(tmp_path, case_name)
    write_config(tmp_path, CASES[case_name], **changes)
    with pytest.raises(error, match=message):
        burnx.import_onnx(tmp_path, tmp_path / "model.py")
    assert not (tmp_path / "model.py").exists()


def test_a_head_that_is_not_known_is_left_out_and_named(tmp_path: Path) -> None:
    write_model(tmp_path, "bert-tokens")
    write_config(tmp_path, CASES["bert-tokens"], architectures=["BertForMultipleChoice"])
    report = burnx.import_onnx(tmp_path, tmp_path / "model.py")
    assert report.left_out == ("classifier.weight", "classifier.bias")
    assert "left out, as no part of this forward: classifier.weight" in str(report)


def test_a_tensor_more_makes_it_another_model(tmp_path: Path) -> None:
    more = {"model.layers.1.self_attn.q_norm.weight": np.ones(4, np.float32)}
    save_weights(tmp_path / "model.safetensors", {**weights_of("llama"), **more})
    write_config(tmp_path, CASES["llama"])
    with pytest.raises(
        UnsupportedError, match=r"no place for tensor 'layers\.1\.self_attn\.q_norm"
    ):
        burnx.import_onnx(tmp_path, tmp_path / "model.py")
    save_weights(
        tmp_path / "net.safetensors", {**weights_of("densenet"), "aux.weight": more.popitem()[1]}
    )
    (tmp_path / "config.json").unlink()
    report = burnx.import_onnx(tmp_path / "net.safetensors", tmp_path / "net.py")
    assert "no place for tensor 'aux.weight'" in report.to_do[0]


def test_weights_in_eight_bits_are_refused(tmp_path: Path) -> None:
    weights = {each: array.astype("float8_e4m3fn") for each, array in weights_of("llama").items()}
    save_weights(tmp_path / "model.safetensors", weights)
    write_config(tmp_path, CASES["llama"])
    with pytest.raises(UnsupportedError, match="found float8_e4m3fn"):
        burnx.import_onnx(tmp_path, tmp_path / "model.py")


def test_a_hostile_pickle_is_refused(tmp_path: Path) -> None:
    evil = name("os", "system") + tuple_of(value("touch PWNED")) + b"R"
    write_zip(tmp_path / "w.pt", dict_of({"w": evil}), {})
    with pytest.raises(WeightsError, match=r"os\.system; burnx reads tensors only"):
        burnx.import_onnx(tmp_path / "w.pt", tmp_path / "model.py")
    with pytest.raises(WeightsError, match="reads tensors only"):
        Pair().load_weights(tmp_path / "w.pt")
    assert [each.name for each in tmp_path.iterdir()] == ["w.pt"]


@pytest.mark.parametrize("files", [[], ["a.safetensors", "b.safetensors"]])
def test_a_folder_has_one_file_of_weights(tmp_path: Path, files: list[str]) -> None:
    for each in files:
        save_weights(tmp_path / each, {"w": np.ones(2, np.float32)})
    with pytest.raises(WeightsError, match="one file of weights"):
        burnx.import_onnx(tmp_path, tmp_path / "model.py")


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path, "bert")
    assert main(["import", "model.safetensors", "--json", "report.json"]) == 0
    assert json.loads(Path("report.json").read_text())["report"]["family"] == "BERT"
    assert main(["import", "model.safetensors", "--check"]) == 2
    assert main(["import", "model.safetensors", "--flat"]) == 2
    assert main(["import", "model.safetensors", "--name", "BertLayer"]) == 2
    assert main(["import", ".", "-o", "net.py", "--name", "Net"]) == 0
    assert main(["run", "net.py:Net", "--dim", "batch=2", "--dim", "seq=4"]) == 0
    said = capsys.readouterr()
    assert "BERT, complete" in said.out + said.err


def test_the_tools_find_nothing_in_any_family(tmp_path: Path) -> None:
    """What ruff and mypy say of the source of every family, as people run them."""
    files = []
    for case_name in CASES:
        folder = tmp_path / case_name
        folder.mkdir()
        write_model(folder, case_name)
        files.append(tmp_path / f"{re.sub('[^0-9a-z]', '_', case_name)}.py")
        burnx.import_onnx(folder, files[-1])
    passes_tools(files)
