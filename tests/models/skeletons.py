"""Architectures without their weights: ONNX exports of well-known models, kept small by replacing each large float or 8-bit
initializer with the recipe of a random one of the same shape and statistics.

    python skeletons.py list
    python skeletons.py fill NAME [-o model.onnx]      rebuild a full, runnable model (deterministic)
    python skeletons.py strip model.onnx -o NAME.onnx.gz

Only `numpy` and `onnx` are needed. The weights are random, so outputs mean nothing; shapes, operators, names and
sizes are those of the real export, which is what speed, memory, import and round-trip checks need.
"""

import argparse
import gzip
import json
import pathlib
import re
import zlib

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

HERE = pathlib.Path(__file__).parent / "skeletons"
SMALL_BYTES = 2048
BYTES = {TensorProto.INT8, TensorProto.UINT8}
RANDOM = BYTES | {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
KEY = "burnx.recipe"


def tensors(graph):
    """Every initializer and Constant tensor of a graph and of its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for subgraph in [attribute.g, *attribute.graphs]:
                yield from tensors(subgraph)


def without_source_lines(model):
    """Exporters put stack traces into metadata; keep the frames, drop absolute paths and the quoted source lines."""
    for node in model.graph.node:
        for entry in node.metadata_props:
            if entry.key.endswith("stack_trace"):
                frames = [
                    line.strip()
                    for line in entry.value.splitlines()
                    if line.strip().startswith("File ")
                ]
                entry.value = re.sub(
                    r'"/[^"]*?/(site-packages/[^"]*|[^"/]+)"', r'"\1"', "\n".join(frames)
                )


def strip(model):
    """Replace large float and 8-bit tensors by (mean, std, min, max) in their doc string."""
    without_source_lines(model)
    for tensor in tensors(model.graph):
        if tensor.data_type not in RANDOM:
            continue
        value = numpy_helper.to_array(tensor)
        if value.nbytes <= SMALL_BYTES:
            continue
        wide = value.astype(np.float64)
        recipe = [float(x) for x in (wide.mean(), wide.std(), wide.min(), wide.max())]
        if (
            not wide.any() and tensor.data_type not in BYTES
        ):  # an untrained zero head or bias would hide errors
            recipe = [0.0, 0.02, -0.1, 0.1]
        for field in ("raw_data", "float_data", "int32_data", "double_data"):
            tensor.ClearField(field)
        tensor.doc_string = f"{KEY} {json.dumps(recipe)}"
    return model


def fill(model):
    """Put random tensors of the recorded statistics back, seeded by each tensor's name and shape."""
    for tensor in tensors(model.graph):
        if not tensor.doc_string.startswith(KEY):
            continue
        mean, std, low, high = json.loads(tensor.doc_string[len(KEY) :])
        shape = tuple(tensor.dims)
        rng = np.random.default_rng(zlib.crc32(f"{tensor.name}{shape}".encode()))
        value = np.clip(rng.standard_normal(shape, np.float32) * std + mean, low, high)
        name, data_type = tensor.name, tensor.data_type
        value = np.rint(value) if data_type in BYTES else value
        tensor.CopyFrom(
            numpy_helper.from_array(
                value.astype(onnx.helper.tensor_dtype_to_np_dtype(data_type)), name
            )
        )
    return model


def load(name):
    """The full model of a skeleton as a ModelProto."""
    return fill(
        onnx.load_model_from_string(gzip.decompress((HERE / f"{name}.onnx.gz").read_bytes()))
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=["list", "fill", "strip"])
    parser.add_argument("model", nargs="?")
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    if arguments.verb == "list":
        print(
            *sorted(path.name.removesuffix(".onnx.gz") for path in HERE.glob("*.onnx.gz")), sep="\n"
        )
    elif arguments.verb == "fill":
        onnx.save(load(arguments.model), arguments.output or f"{arguments.model}.onnx")
    else:
        model = strip(onnx.load(arguments.model))
        pathlib.Path(arguments.output).write_bytes(gzip.compress(model.SerializeToString(), 9))


if __name__ == "__main__":
    main()
