"""Write the generated parts of the README: conformance, the example of source, how source reads, and the benchmarks.

    python tools/update_readme.py results.json   keep the numbers of a run and write the table
    python tools/update_readme.py                write the table from the kept numbers
    python tools/update_readme.py --check        exit 1 if the README says something else

``results.json`` is what ``burnx conformance --json`` wrote; its summary is kept in the repository,
so that the README can be checked without running the suite.  The example is taken from a golden
file of the tests, which those compare with what burnx writes; the rest from the newest results
that benchmarks/cpu.py, readability.py and edit.py left.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from burnx.conformance.report import readme_table

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
KEPT = ROOT / "docs" / "conformance.json"
GOLDEN = ROOT / "tests" / "golden" / "distilbert_base_ts.py"
SHOWN = ("Attention", "Ffn", "Layer", "Transformer")
BEGIN, END = "<!-- conformance:begin -->", "<!-- conformance:end -->"
EXAMPLE = "<!-- example:begin -->", "<!-- example:end -->"
TIMES = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
READING = "<!-- readability:begin -->", "<!-- readability:end -->"
CUDA = "<!-- cuda:begin -->", "<!-- cuda:end -->"
UNMEASURED = "Not measured yet: `python benchmarks/cpu.py` does it."


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("results", nargs="?", type=Path, help="JSON of burnx conformance")
    parser.add_argument("--check", action="store_true", help="change nothing, compare")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--kept", type=Path, default=KEPT)
    options = parser.parse_args(arguments)
    try:
        return update(options.readme, options.kept, options.results, options.check)
    except (OSError, ValueError, KeyError) as error:
        print(f"update_readme: {type(error).__name__}: {error}", file=sys.stderr)
        return 1


def update(readme: Path, kept: Path, results: Path | None, check: bool) -> int:
    """Write or check the region of ``readme``; 1 if a check finds a difference."""
    summary = read_summary(results or kept)
    old = readme.read_text(encoding="utf-8")
    new = replace_region(old, readme_table(summary))
    if EXAMPLE[0] in old:
        new = replace_region(new, example(GOLDEN.read_text(encoding="utf-8")), EXAMPLE)
    if TIMES[0] in old:
        new = replace_region(new, times(BENCHMARKS / "results"), TIMES)
    if READING[0] in old:
        new = replace_region(new, reading(BENCHMARKS / "results"), READING)
    if CUDA[0] in old:
        new = replace_region(new, cuda_times(BENCHMARKS / "results"), CUDA)
    if check:
        same = new == old
        print(
            f"{readme.name} is {'as generated' if same else 'not what tools/update_readme.py writes'}"
        )
        return int(not same)
    if results is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    readme.write_text(new, encoding="utf-8")
    return 0


def read_summary(path: Path) -> dict[str, Any]:
    """The part of the results that the table needs."""
    results = json.loads(path.read_text(encoding="utf-8"))
    return {key: results[key] for key in ("versions", "summary")}


def times(folder: Path) -> str:
    """The table of the newest results of benchmarks/cpu.py."""
    files = sorted(folder.glob("cpu-*.json"))
    if not files:
        return UNMEASURED
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    results = json.loads(files[-1].read_text(encoding="utf-8"))
    table: str = importlib.import_module("results_table").readme_table(results)
    return table


def reading(folder: Path) -> str:
    """The tables of the newest results of benchmarks/readability.py and edit.py."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    parts = []
    for name in ("readability", "edit"):
        files = sorted(folder.glob(f"{name}-*.json"))
        if files:
            module = importlib.import_module(name)
            parts.append(module.readme_part(json.loads(files[-1].read_text(encoding="utf-8"))))
    return "\n\n".join(parts) or UNMEASURED


def cuda_times(folder: Path) -> str:
    """The table of the newest results of benchmarks/cuda_torch.py."""
    files = sorted(folder.glob("cuda-*.json"))
    if not files:
        return UNMEASURED
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    results = json.loads(files[-1].read_text(encoding="utf-8"))
    table: str = importlib.import_module("cuda_table").readme_part(results)
    return table


def example(source: str) -> str:
    """The classes of a generated file that the README shows, as a block of code."""
    lines = source.splitlines()
    spans = {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }
    parts = ["\n".join(spans[name]) for name in SHOWN]
    return "```python\n" + "\n\n\n".join(parts) + "\n```"


def replace_region(text: str, table: str, markers: tuple[str, str] = (BEGIN, END)) -> str:
    """The text with the table between the two markers; each marker stands there once."""
    begin, end = markers
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the README has one {begin} and after it one {end}")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table.strip()}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
