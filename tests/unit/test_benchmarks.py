"""The tables and options of the benchmarks, from made-up results."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import cpu
import dynamic
import edit
import machine
import numpy as np
import onnx.parser
import original_sources
import pytest
import readability
import results_table as tables
import update_readme

import burnx
from burnx.cli.inspecting import seen_sizes

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"cuda", "cudnn", "cupy", "nvmath", "onnxruntime", "openvino", "torch", "transformers"}

PEAKS = (100e9, 10e9)


def figures(median_ms: float, peak_bytes: int = 50_000_000) -> dict[str, Any]:
    """What the report holds of one engine."""
    starts = {"load_ms": 10.0, "first_ms": 2.0, "load_cold_ms": 30.0, "first_cold_ms": 4.0}
    times = {"median_ms": median_ms, "min_ms": median_ms / 2, "calls": 9}
    return {**times, **starts, "peak_bytes": peak_bytes}


def model(flops: float = 1e9, weight_bytes: float = 1e6, **medians_ms: float) -> dict[str, Any]:
    return {
        "flops": flops,
        "weight_bytes": weight_bytes,
        "differs": {},
        "failures": {},
        "engines": {name: figures(median) for name, median in medians_ms.items()},
    }


def results(models: dict[str, Any]) -> dict[str, Any]:
    versions = {"burnx": "1.0", "numpy": "2.0", "onnxruntime": "1.32.0"}
    return {
        "machine": {"cpu": "A CPU", "features": ["avx2"], "versions": versions},
        "best_peaks": PEAKS,
        "threads": 2,
        "date": "2020-02-02",
        "overhead": {"burnx": {"median_ms": 0.0125}},
        "models": models,
    }


def test_geometric_mean_weighs_ratios_alike() -> None:
    assert tables.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert tables.geometric_mean([]) is None


def test_ratios_say_how_many_times_as_long_the_others_take() -> None:
    found = model(burnx=2.0, onnxruntime=3.0, openvino=8.0)
    assert tables.ratio(found, "onnxruntime") == 1.5
    assert tables.best_ratio(found) == 1.5
    assert tables.ratio(found, "torch") is None
    assert tables.best_ratio(model(burnx=1.0)) is None


def test_a_model_is_bound_by_what_takes_longer_at_the_peak() -> None:
    assert tables.bound_by(model(flops=2e9, weight_bytes=1e7), PEAKS) == ("compute", 0.02)
    assert tables.bound_by(model(flops=1e7, weight_bytes=1e9), PEAKS) == ("bandwidth", 0.1)
    assert tables.peak_fraction(model(flops=2e9, burnx=40.0), "burnx", PEAKS) == 0.5


def test_start_is_opening_and_first_call() -> None:
    assert tables.start_ms(model(burnx=1.0), "burnx") == 12.0
    assert tables.start_ms(model(burnx=1.0), "burnx", "_cold") == 34.0
    assert tables.start_ms(model(burnx=1.0), "openvino") is None


def test_the_summary_names_what_misses_its_goal() -> None:
    slow = model(weight_bytes=3e7, burnx=4.0, onnxruntime=1.0)
    slow["engines"]["burnx"]["peak_bytes"] = 60_000_000
    slow["differs"] = {"burnx": {"reason": "1 of 2 elements differ", "within": False}}
    summary = tables.summarise({"slow": slow, "fast": model(burnx=1.0, onnxruntime=4.0)})
    assert summary["ratio_onnxruntime"] == pytest.approx(1.0)
    assert summary["slower_than_onnxruntime"] == ["slow"]
    assert summary["more_memory_than_onnxruntime"] == ["slow"]
    assert summary["differing"] == ["slow"]
    assert summary["later_start_than_onnxruntime"] == summary["long_cold_start"] == []
    assert summary["ratio_openvino"] is None


def test_the_table_shows_measured_engines_and_a_dash_where_one_failed() -> None:
    broken = model(burnx=1.0, onnxruntime=2.0)
    broken["failures"] = {"openvino": "it refuses the file"}
    models = {"whole": model(burnx=1.0, onnxruntime=2.0, openvino=250.0), "broken": broken}
    heading, whole, second = tables.text_table(models, PEAKS).splitlines()
    assert "ov ms (min)" in heading and "torch" not in heading
    assert "1.00 (0.500)" in whole and "250.0 (125.0)" in whole
    assert " - " in second
    assert "broken: openvino failed: it refuses the file" in tables.summary_lines(models)


def test_columns_are_aligned() -> None:
    assert tables.aligned([["a", "bcd"], ["long", "1"]]) == "a     bcd\nlong    1"


def test_the_readme_has_a_row_for_each_model_and_marks_wrong_ones() -> None:
    wrong = model(burnx=1.0, onnxruntime=1.5)
    wrong["differs"] = {"burnx": {"reason": "values", "within": False}}
    text = tables.readme_table(results({"net": model(burnx=2.0, onnxruntime=3.0), "off": wrong}))
    assert "| net | 2.00 | 3.00 | - | 1.50 | 34 | 12 | 12 | 50 | 50 | 500% (compute) |" in text
    assert "| off (differs) |" in text
    assert "geometric mean: 1.50 against onnxruntime" in text
    assert "burnx 1.0, onnxruntime 1.32.0; 2020-02-02" in text
    assert "in µs: burnx 12.5." in text


def test_the_newest_results_go_into_the_readme(tmp_path: Path) -> None:
    assert update_readme.times(tmp_path) == update_readme.UNMEASURED
    for date, name in (("2020-01-01", "old"), ("2020-02-02", "new")):
        found = results({name: model(burnx=1.0, onnxruntime=2.0)})
        (tmp_path / f"cpu-{date}.json").write_text(json.dumps(found))
    assert "| new |" in update_readme.times(tmp_path)
    assert "| old |" not in update_readme.times(tmp_path)


def test_only_whole_runs_are_kept_without_being_asked() -> None:
    whole = cpu.target_file(cpu.parse_options([]), "2020-02-02")
    assert whole is not None and whole.name == "cpu-2020-02-02.json"
    for part in (["--quick"], ["--models", "resnet"], ["--engines", "onnxruntime"]):
        assert cpu.target_file(cpu.parse_options(part), "2020-02-02") is None
    assert cpu.target_file(cpu.parse_options(["--quick", "--json", "a"]), "") == Path("a")


def test_rounds_win_over_quick() -> None:
    assert cpu.plan_for(cpu.parse_options(["--quick"])) == cpu.QUICK
    assert cpu.plan_for(cpu.parse_options(["--quick", "--rounds", "5"])).rounds == 5


@pytest.mark.parametrize("wrong", (["--engines", "tvm"], ["--rounds", "0"], ["--threads", "0"]))
def test_wrong_options_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        cpu.parse_options(wrong)


def test_random_shapes_start_with_the_largest_and_are_the_same_again() -> None:
    sizes = {"batch": (1, 4), "seq": (2, 9)}
    found = dynamic.shapes(sizes, 50)
    assert found[0] == {"batch": 4, "seq": 9}
    assert found == dynamic.shapes(sizes, 50)
    assert all(1 <= each["batch"] <= 4 and 2 <= each["seq"] <= 9 for each in found)
    assert len({tuple(each.values()) for each in found}) > 10


def test_a_run_is_at_fault_if_kernels_or_memory_grow() -> None:
    warm = dynamic.State(3, 3, 100 << 20)
    assert dynamic.faults(dynamic.Run((1.0,), warm, warm, 101 << 20)) == []
    grown = dynamic.Run((1.0,), warm, dynamic.State(4, 5, 200 << 20), 200 << 20)
    assert len(dynamic.faults(grown)) == 3


def test_sizes_are_read_as_ranges() -> None:
    assert dynamic.parse_size("seq=1-160") == ("seq", (1, 160))
    with pytest.raises(Exception, match="NAME=LOW-HIGH"):
        dynamic.parse_size("seq=9-1")


def test_the_loop_that_finds_the_peak_does_what_it_counts() -> None:
    text = machine.fma_source(8)
    assert text.count("call <8 x float> @llvm.fma.v8f32") == machine.CHAINS
    assert machine.best_peaks({"matmul_flops": 2, "copy_bytes": 3, "read_bytes": 4}) == (2, 4)


def test_operations_are_counted_for_dims_without_a_name_too() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> f (float[n, ?] x, float[3, 5] w) => (y) { y = MatMul(x, w) }'
    model_proto = onnx.parser.parse_model(text)
    loaded = burnx.load(model_proto, device="reference")
    given = {"x": np.ones((7, 3), np.float32), "w": np.ones((3, 5), np.float32)}
    sizes = seen_sizes(loaded.graph.inputs, given)
    assert sizes["n"] == 7
    assert sorted(sizes.values()) == [3, 7]


# --- how source reads ----------------------------------------------------------------------------
SOURCE = """class Model(nn.Module):
    def forward(self, x, x_2):
        conv_3 = x
        return conv_3

"""


def test_a_source_in_numbers() -> None:
    found = readability.measure("resnet50.ts", 8, SOURCE * 2, 0)
    assert (found.lines, found.classes, found.longest) == (8, 2, 30)
    assert (found.names, found.numbered) == (8, 4)  # self, x, x_2 and conv_3, twice
    assert (found.original, found.wanted, found.other) == (171, 100, 0)


def test_the_readme_says_how_source_reads(tmp_path: Path) -> None:
    known = readability.measure("resnet50.ts", 122, SOURCE, 466)
    other = readability.measure("mine", 10, SOURCE, None)
    failing = readability.measure("swin_t.ts", 10, SOURCE, 0)
    text = readability.readme_table([known, other, failing])
    assert "| resnet50.ts | 122 | 4 | 0.03 | 1 | 50% | 171 | 466 |" in text
    assert "| swin_t.ts | 10 | 4 | 0.40 | 1 | 50% | 349 | fails |" in text and "mine" not in text
    assert (
        "All 3 models of the tests together: 12 lines for 142 nodes in the files (0.08 a node)"
        in text
    )
    assert update_readme.reading(tmp_path) == update_readme.UNMEASURED
    kept = tmp_path / "readability-2026-01-02.json"
    kept.write_text(json.dumps([asdict(each) for each in (known, other, failing)]))
    assert update_readme.reading(tmp_path) == text


def test_a_python_without_onnxscript_leaves_its_column_empty(tmp_path: Path) -> None:
    assert not readability.has_onnxscript(str(tmp_path / "python"))
    assert readability.lines_of_onnxscript(tmp_path / "model.onnx", "") is None


def test_lines_of_definitions_are_counted() -> None:
    assert original_sources.count_lines(f"import this\n\n{SOURCE}", "Model") == 4


def test_times_from_an_edit_to_a_result() -> None:
    parts = {"import burnx": 0.1, "source and graph": 0.2, "compile and first run": 0.3}
    row = {"model": "m", "edit": "six layers", "first_s": 0.7, "first_cpu_s": 0.8, "again_s": 0.4}
    readings = [{**row, "first_parts_s": parts}, {**row, "edit": "nothing", "first_parts_s": parts}]
    assert "| m | six layers | 700 | 400 | 100 | 200 | 300 | 800 |" in edit.table(readings)
    said = edit.readme_part(readings)
    assert "m: six layers 0.70 s; run again, at most 0.40 s." in said and "nothing" not in said


def test_no_script_is_called_like_a_package_that_others_import() -> None:
    """A script's own folder comes first where modules are looked for, and pytest puts some of them there."""
    taken = OTHERS | set(packages_distributions()) | set(sys.stdlib_module_names)
    folders = [ROOT / "benchmarks", ROOT / "tools", ROOT / "tests", *(ROOT / "tests").rglob("*/")]
    found = {path.stem: path for folder in folders for path in folder.glob("*.py")}
    assert [found[name] for name in sorted(found.keys() & taken)] == []
