"""From starting Python to a first result, each time in a fresh process: empty caches, warm ones, imported ones.

    python benchmarks/fresh.py FILE.onnx... [--device cuda:0] [--dim NAME=N] [--runs 3] [--json FILE]

*empty*: nothing is kept; *warm*: what that process has left; *imported*: what ``burnx env export`` wrote of it and
``burnx env import`` brought into an empty folder.  Parts of a start, in ms: ``python`` until its first line, ``import``
of burnx, ``driver`` (opening the device, with the package that knows it), ``load``, ``first`` call, ``second`` call.
``start`` is load and first call together.  Exit status 1 if any start gives other outputs than the first.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PARTS = ("python", "import", "driver", "load", "first", "start", "second")
SETTLED_S = 2.5  # a file that was changed a moment ago is not known by its times
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    rows = []
    print(f"{'model':24} {'caches':9}" + "".join(f"{name:>9}" for name in PARTS), flush=True)
    with tempfile.TemporaryDirectory(prefix="burnx-fresh-") as folder:
        for number, file in enumerate(options.files):
            rows += _measure(file, Path(folder) / str(number), options)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["same"] for row in rows) else 1


def _measure(file: str, folder: Path, options: argparse.Namespace) -> list[Row]:
    folder.mkdir()
    job = folder / "job"
    job.write_bytes(pickle.dumps(_job(file, options)))
    time.sleep(max(0.0, SETTLED_S - (time.time() - os.stat(file).st_mtime)))
    rows = [_start(file, "empty", folder, folder / "one")]
    rows += [_start(file, "warm", folder, folder / "one") for _ in range(options.runs)]
    _burnx("env", "export", str(folder / "kept"), cache=folder / "one")
    _burnx("env", "import", str(folder / "kept"), cache=folder / "two")
    rows += [_start(file, "imported", folder, folder / "two") for _ in range(options.runs)]
    return rows


def _start(file: str, caches: str, folder: Path, cache: Path) -> Row:
    """One start in a process of its own; its line is printed as soon as it is there."""
    command = [sys.executable, __file__, "--child", str(folder / "job"), str(folder / "outputs")]
    environment = _environment(cache)
    environment["BURNX_STARTED"] = repr(time.time())
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    row = {"model": Path(file).stem, "caches": caches, **json.loads(done.stdout)}
    numbers = "".join(f"{row[name]:9.1f}" for name in PARTS)
    wrong = "" if row["same"] else "  OTHER OUTPUTS"
    print(f"{row['model'][:24]:24} {caches:9}{numbers}{wrong}", flush=True)
    return row


def _environment(cache: Path) -> dict[str, str]:
    found = {k: v for k, v in os.environ.items() if k != "BURNX_ENV"}
    return found | {"BURNX_CACHE": str(cache), "CUPY_CACHE_DIR": str(cache) + "-cupy"}


def _burnx(*words: str, cache: Path) -> None:
    command = [sys.executable, "-m", "burnx", *words]
    subprocess.run(command, env=_environment(cache), check=True, stdout=subprocess.DEVNULL)


def _job(file: str, options: argparse.Namespace) -> Row:
    """The model and inputs for it, as ``burnx run`` makes them up."""
    import burnx
    from burnx.cli.options import parse_dim
    from burnx.cli.spec import read_inputs

    dims = dict(map(parse_dim, options.dim))
    inputs = read_inputs((), burnx.load(file, device="reference").inputs, dims, 0)
    return {"file": file, "device": options.device, "inputs": inputs.values}


# --- the process that is measured -------------------------------------------------------------------------------------


def child(job_path: str, outputs_path: str) -> int:
    """A start; its parts as JSON.  The first one leaves its outputs for the others to be compared with."""
    marks = [float(os.environ["BURNX_STARTED"]), time.time()]
    import burnx

    marks.append(time.time())
    job = pickle.loads(Path(job_path).read_bytes())  # the parent has just written it
    began = time.time()
    where = burnx.Device(job["device"])
    _open_driver(where.name)
    driver_s = time.time() - began
    spent = _calls(burnx, job, where)
    outputs = spent.pop("outputs")
    parts = {
        "python": marks[1] - marks[0],
        "import": marks[2] - marks[1],
        "driver": driver_s,
        **spent,
        "start": spent["load"] + spent["first"],
    }
    same = _is_same(Path(outputs_path), outputs)
    print(json.dumps({**{name: value * 1e3 for name, value in parts.items()}, "same": same}))
    return 0


def _open_driver(name: str) -> None:
    if ":" in name:
        from burnx.runtime.devices.gpu import find_driver

        driver = find_driver(name)
        driver.allocate(256)
        driver.finish()


def _calls(burnx: Any, job: Mapping[str, Any], where: Any) -> dict[str, Any]:
    began = time.perf_counter()
    model = burnx.load(job["file"], device=where)
    loaded = time.perf_counter()
    outputs = model.run(job["inputs"])
    first = time.perf_counter()
    model.run(job["inputs"])
    second = time.perf_counter()
    spent = {"load": loaded - began, "first": first - loaded, "second": second - first}
    return {**spent, "outputs": outputs}


def _is_same(path: Path, outputs: Mapping[str, Any]) -> bool:
    """Whether outputs have the same bits as those of the first start."""
    if not path.exists():
        path.write_bytes(pickle.dumps(outputs))
        return True
    expected = pickle.loads(path.read_bytes())  # a process of ours has written it
    return all(expected[name].tobytes() == value.tobytes() for name, value in outputs.items())


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE.onnx")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--runs", type=int, default=3, help="warm and imported starts (3)")
    parser.add_argument("--json", metavar="FILE", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(*sys.argv[2:]))
    sys.exit(main())
