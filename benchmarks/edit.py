"""From an edit of the source to a result: how long a fresh process takes that runs the changed model.

    python benchmarks/edit.py [--models REGEX] [--repeats 5] [--json FILE]

The source is written and run, which fills a cache of its own.  Then its text is changed as a person would (another
activation, a layer more, half of the layers), and a new process imports the file, loads the weights, runs the model once
and prints a number: that is the time to a result.  It is measured several times, each with the cache as it was before the
edit, and the best is taken; the parts come from that process itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from listed_models import file_and_inputs, models_module

LIMIT_S = 1.0
SETTLES_S = 2.5  # a file that was written later than that before is not known by its times
WARM, EDITED = "cache", "cache-of-edit"
# what is changed in the source of a model: each pattern is found in it, and replaced once
EDITS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "resnet50.ts": (
        ("another activation", r"return ops\.relu\(self\.conv3", "return ops.sigmoid(self.conv3"),
        ("one block less", r"for _ in range\(5\)", "for _ in range(4)"),
        ("no head", r"return self\.fc\(.*\)", "return x"),
        (
            "a gate more",
            r"return ops\.relu\(self\.conv3\(conv\) \+ x\)",
            """conv = self.conv3(conv)
        conv = conv * ops.sigmoid(ops.global_average_pool(conv))
        return ops.relu(conv + x)""",
        ),
    ),
    "bert_base.dynamo": (
        ("another activation", r"ops\.gelu\(", "ops.relu("),
        ("six layers", r"for _ in range\(12\)", "for _ in range(6)"),
        ("another eps", r"eps=1e-12", "eps=1e-6"),
        (
            "a mean more",
            r"return self\.output\(self\.intermediate\(x\), x\)",
            """x = x + ops.reduce_mean(x, [1])
        return self.output(self.intermediate(x), x)""",
        ),
    ),
}
CHILD = """
import json, sys, time
start = time.perf_counter()
sys.path.insert(0, sys.argv[1])
import numpy as np
import burnx
parts = {"import burnx": time.perf_counter() - start}
def part(name):
    parts[name] = time.perf_counter() - start - sum(parts.values())
net = burnx.load(sys.argv[1] + "/edited.py:Model")
part("source and graph")
given = dict(np.load(sys.argv[1] + "/inputs.npz"))
part("inputs")
results = net.run(given)
part("compile and first run")
cpu = time.process_time()
results = net.run(given)
part("second run")
print(json.dumps({**parts, "cpu": cpu}))
"""


def measure(name: str, repeats: int) -> list[dict[str, Any]]:
    """The times of every edit of a model."""
    import numpy as np

    import burnx

    path, inputs = file_and_inputs(models_module().entries()[name])
    with tempfile.TemporaryDirectory(prefix="burnx-edit-") as folder:
        source = Path(folder) / "model.py"
        burnx.import_onnx(str(path), source)
        np.savez(Path(folder) / "inputs.npz", **inputs)
        text = source.read_text(encoding="utf-8")
        time.sleep(SETTLES_S)
        for _ in range(2):
            run(folder, text, WARM)
        readings = [("nothing", text)]
        for label, pattern, new in EDITS[name]:
            changed, count = re.subn(pattern, new, text, count=1)
            if not count:
                raise SystemExit(f"{name}: its source has no {pattern!r} to change")
            readings.append((label, changed))
        return [reading(name, label, folder, each, repeats) for label, each in readings]


def reading(name: str, label: str, folder: str, text: str, repeats: int) -> dict[str, Any]:
    """One edit: processes that meet it for the first time, and those after them; the best of either."""
    firsts, again = [], []
    for _ in range(repeats):
        shutil.rmtree(Path(folder) / EDITED, ignore_errors=True)
        shutil.copytree(Path(folder) / WARM, Path(folder) / EDITED, copy_function=os.link)
        (Path(folder) / EDITED).chmod(0o700)
        firsts.append(run(folder, text, EDITED))
        again.append(run(folder, text, EDITED))
    first, later = (min(each, key=lambda one: one[0]) for each in (firsts, again))
    return {
        "model": name,
        "edit": label,
        "first_s": first[0],
        "first_cpu_s": first[2],
        "first_parts_s": first[1],
        "all_first_s": [each[0] for each in firsts],
        "again_s": later[0],
        "again_parts_s": later[1],
    }


def run(folder: str, text: str, cache: str) -> tuple[float, dict[str, float], float]:
    """Seconds from saving the text to the end of the process that runs it, its parts, and what all threads computed."""
    start = time.perf_counter()
    (Path(folder) / "edited.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", CHILD, folder]
    here = str(Path(__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": here, "BURNX_CACHE": str(Path(folder) / cache)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # a warm cache has burnx's own bytecode
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(done.stderr)
    parts: dict[str, float] = json.loads(done.stdout)
    elapsed = time.perf_counter() - start - parts.pop("second run")  # not on the way to a result
    return elapsed, parts, parts.pop("cpu")


def table(readings: Sequence[dict[str, Any]]) -> str:
    """The readings as a Markdown table, in milliseconds."""
    head = "| model | edit | first, ms | again, ms | of the first: import | source and graph | run | CPU |"
    rows = [head, "| --- | --- |" + " --: |" * 6]
    for each in readings:
        parts = each["first_parts_s"]
        named = (
            parts[key] for key in ("import burnx", "source and graph", "compile and first run")
        )
        times = (each["first_s"], each["again_s"], *named, each["first_cpu_s"])
        cells = [each["model"], each["edit"], *(f"{1e3 * seconds:.0f}" for seconds in times)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def readme_part(results: Sequence[dict[str, Any]]) -> str:
    """What the README says of results that were kept."""
    changed = [each for each in results if each["edit"] != "nothing"]
    said = []
    for name in dict.fromkeys(each["model"] for each in changed):
        mine = [each for each in changed if each["model"] == name]
        edits = ", ".join(f"{each['edit']} {each['first_s']:.2f} s" for each in mine)
        again = max(each["again_s"] for each in mine)
        said.append(f"{name}: {edits}; run again, at most {again:.2f} s")
    return (
        "From saving an edit to a result, in a fresh process with the cache of the model before it (the best of several): "
        + ". ".join(said)
        + "."
    )


def main() -> int:
    """The command; returns its exit status: 1 if an edit takes longer than a second."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--models", default="", help="names of models, a regular expression")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the readings here")
    options = parser.parse_args()
    names = [name for name in EDITS if re.search(options.models, name)]
    readings = [each for name in names for each in measure(name, options.repeats)]
    print(table(readings))
    if options.json:
        options.json.write_text(json.dumps(readings, indent=1) + "\n")
    return int(any(each["first_s"] > LIMIT_S for each in readings))


if __name__ == "__main__":
    sys.exit(main())
