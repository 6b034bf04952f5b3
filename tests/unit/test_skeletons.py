"""Weights of no known family become a skeleton: modules, layers, lists and ties, and what is left to a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_pickle_file import dict_of, storage, tensor, value, write_zip

import burnx
from burnx.errors import BurnxError
from burnx.nn.sources import load_network
from burnx.weights import save_weights


def import_shapes(folder: Path, shapes: dict[str, tuple[int, ...]], **dtypes: Any) -> Any:
    arrays = {
        name: np.full(shape, place, dtypes.get(name, np.float32))
        for place, (name, shape) in enumerate(shapes.items())
    }
    save_weights(folder / "w.safetensors", arrays)
    report = burnx.import_onnx(folder / "w.safetensors", folder / "w.py")
    network = load_network(folder / "w.py")
    loaded = {each.original or path: each.data for path, each in network.named_parameters()}
    for name, array in loaded.items():
        assert (array == arrays[name]).all()
    wanted = {name for name in shapes if not name.endswith("num_batches_tracked")}
    assert set(loaded) == wanted
    return report, (folder / "w.py").read_text()


BLOCK = {
    "attn.qkv.weight": (12, 4),
    "attn.qkv.bias": (12,),
    "ln_1.weight": (4,),
    "ln_1.bias": (4,),
    "conv.weight": (4, 4, 3, 3),
    "bn.weight": (4,),
    "bn.bias": (4,),
    "bn.running_mean": (4,),
    "bn.running_var": (4,),
    "bn.num_batches_tracked": (),
    "norm.weight": (4,),
    "gamma": (4,),
}


def test_layers_lists_and_repeated_blocks(tmp_path: Path) -> None:
    blocks = {f"blocks.{i}.{name}": shape for i in range(3) for name, shape in BLOCK.items()}
    report, text = import_shapes(
        tmp_path, {"tok_embeddings.weight": (9, 4), **blocks, "head.weight": (9, 4)}
    )
    for expected in (
        "self.tok_embeddings = nn.Embedding(9, 4)",
        "self.blocks = nn.ModuleList(Blocks() for _ in range(3))",
        "self.qkv = nn.Linear(4, 12)",
        "self.ln_1 = nn.LayerNorm(4)",
        "self.conv = nn.Conv2d(4, 4, 3, bias=False)",
        "self.bn = nn.BatchNorm(4)",
        "self.norm = nn.RMSNorm(4)",
        "self.gamma = nn.Parameter(4)",
        "self.head = nn.Linear(4, 9, bias=False)",
    ):
        assert expected in text
    assert report.classes == 3 and not report.left_out
    assert "skeleton" in str(report) and "to fill in: stride, padding" in str(report)
    assert "To fill in:\n- nothing says what this model computes" in text
    assert "'blocks.0.gamma'" in report.to_do[-1]


def test_a_skeleton_says_that_it_does_not_run(tmp_path: Path) -> None:
    import_shapes(tmp_path, {"fc.weight": (2, 2)})
    with pytest.raises(BurnxError, match="skeleton: its first lines list"):
        load_network(tmp_path / "w.py")(np.ones((1, 2), np.float32))


@pytest.mark.parametrize(
    "names",
    [
        ["class.weight", "def.weight", "self.weight"],
        ["forward.weight", "load_weights.weight", "parameters.bias"],
        ["a b.weight", "a-b.weight", "é.weight"],
        ["a.0.weight", "a.x.weight", "a.1"],
        ["w", "w.scale", "x.w"],
        ["0.weight", "2.weight", "3.0.weight"],
        ['"); evil("', "'''\n.weight", "\\1.weight", "\u202e.weight"],
        ["class.weight", "class_.weight", "class__.weight"],
        ["a.0.y.1.weight", "a.0.y.x", "a.x.weight", "a.1.weight"],
        ["w", "w.scale", "w_tensor"],
        ["Model.weight", "nn.x.weight", "ops.weight"],
        ["layer.01.weight", "layer.1.weight"],
    ],
)
def test_any_names_become_legal_and_find_their_weights(tmp_path: Path, names: list[str]) -> None:
    import_shapes(tmp_path, dict.fromkeys(names, (2, 3)))


def test_dtypes_are_kept(tmp_path: Path) -> None:
    shapes = {"fc.weight": (2, 3), "fc.bias": (2,), "q.weight": (4, 4), "q.scale": (4,)}
    _, text = import_shapes(
        tmp_path, shapes, **{"fc.weight": np.float16, "fc.bias": np.float16, "q.weight": np.int8}
    )
    assert 'self.fc = nn.Linear(3, 2, dtype="float16")' in text
    assert 'self.weight = nn.Parameter(4, 4, dtype="int8")' in text


def test_tied_weights_are_one_parameter(tmp_path: Path) -> None:
    same = tensor(storage("0", 8), (4, 2), (2, 1))
    content = dict_of({"embed.weight": same, "layers.0.weight": same, "epoch": value(1)})
    write_zip(tmp_path / "w.pt", content, {"0": np.arange(8, dtype=np.float32)})
    burnx.import_onnx(tmp_path / "w.pt", tmp_path / "w.py")
    assert "self.layers[0].weight = self.embed.weight" in (tmp_path / "w.py").read_text()
    network = load_network(tmp_path / "w.py")
    assert [path for path, _ in network.named_parameters()] == ["embed.weight"]


def test_why_it_is_a_skeleton_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "other\'\'\'\\n\\"\\"\\""}')
    report, _ = import_shapes(tmp_path, {"fc.weight": (2, 2)})
    assert "is not one that burnx knows (bert" in report.to_do[0]
    (tmp_path / "config.json").unlink()
    shapes = {f"layer{n}.0.conv2.weight": (4, 4, 3, 3) for n in range(1, 5)}
    shapes |= {f"layer{n}.0.bn2.weight": (4,) for n in range(1, 5)}
    shapes |= {"conv1.weight": (4, 3, 7, 7), "bn1.running_mean": (4,), "fc.weight": (2, 4)}
    save_weights(tmp_path / "r.safetensors", {k: np.ones(s, np.float32) for k, s in shapes.items()})
    report = burnx.import_onnx(tmp_path / "r.safetensors", tmp_path / "r.py")
    assert "it is no ResNet that burnx knows" in report.to_do[0]
