"""Graph to ONNX model: the opset is chosen, the nodes are spelled, and the checker has the last word."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, helper

import burnx
from burnx.errors import ExportError, UsageError
from burnx.exporter.checking import check_file, check_model
from burnx.exporter.graph_proto import write_graph
from burnx.exporter.model_file import replaced_files
from burnx.exporter.onnx_tensors import DataFile, array_size_bytes
from burnx.exporter.opset_choice import choose
from burnx.graph import Graph

INLINE_BYTES = 3 << 29  # protobuf ends at 2 GiB; the rest of the model needs room too
LIMIT_BYTES = (1 << 31) - (1 << 20)


def export_model(graph: Graph, opset: int | None = None) -> Any:
    """The model in memory, its weights inside.

    Raises: ExportError if it is too large for that, the opset cannot say it, or the checker refuses it.
    """
    spelled, opsets = choose(graph, opset)
    size = weights_size_bytes(spelled)
    if size > LIMIT_BYTES:
        raise ExportError(f"a model in memory is below 2 GiB: its weights take {size} bytes")
    model = build_model(spelled, opsets, None)
    check_model(model)
    return model


def write_model(
    graph: Graph,
    path: str | os.PathLike[str],
    opset: int | None = None,
    *,
    inline_bytes: int = INLINE_BYTES,
) -> Path:
    """Write the model as a file, whole or not at all, and give its path.

    Weights of more than ``inline_bytes`` go to ``<name>.data`` beside it.

    Raises: ExportError if the opset cannot say it or the checker refuses it, UsageError if the file cannot be
    written.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise UsageError(f"an ONNX model is written to a regular file: {str(target)!r} is none")
    spelled, opsets = choose(graph, opset)
    is_large = weights_size_bytes(spelled) > inline_bytes
    data = DataFile(f"{target.name}.data") if is_large else None
    model = build_model(spelled, opsets, data)
    with replaced_files(target) as folder:
        if data is not None:
            _write_data(folder / data.location, data)
        part = folder / target.name
        part.write_bytes(model.SerializeToString())
        del model
        check_file(part)
    return target


def _write_data(path: Path, data: DataFile) -> None:
    with path.open("wb") as file:
        for offset, chunk in data.chunks():
            file.seek(offset)
            chunk.tofile(file)


def weights_size_bytes(graph: Graph) -> int:
    """How many bytes the constants of a graph and its subgraphs take in a file."""
    constants = {value for node in graph.all_nodes() for value in node.inputs if value is not None}
    sizes = [array_size_bytes(value.array) for value in constants if value.array is not None]
    return sum(sizes) + sum(map(array_size_bytes, graph.defaults.values()))


def build_model(graph: Graph, opsets: dict[str, int], data: DataFile | None) -> Any:
    """The message of a spelled graph, not checked."""
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    newest = int(onnx.IR_VERSION)
    model = ModelProto(
        ir_version=min(newest, helper.find_min_ir_version_for(imports, ignore_unknown=True)),
        producer_name=graph.producer or "burnx",
        doc_string=graph.doc,
    )
    if not graph.producer:
        model.producer_version = burnx.__version__
    model.opset_import.extend(imports)
    for key, text in graph.metadata.items():
        model.metadata_props.add(key=key, value=text)
    write_graph(graph, model.graph, opsets, data)
    return model
