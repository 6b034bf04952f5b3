"""ONNX's checker, and the models that it cannot look at as they are.

It wants a shape for every input and output of the main graph, so it cannot pass one whose rank nobody knows.  Such a
model is checked with the input taken from a sequence, and with the output's shape in place of the output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
from onnx import NodeProto, TensorProto, checker, helper

from burnx.errors import ExportError

_INDEX = "burnx checks at"


def check_file(path: Path) -> None:
    """Check a file, which is only read again if it does not pass as it is; then it may be changed.

    Raises: ExportError with what the checker says, the node's name in it.
    """
    try:
        _check(str(path))
    except ExportError:
        check_model(onnx.load(str(path), load_external_data=False), path)


def check_model(model: Any, path: Path | None = None) -> None:
    """Check a model, as the file that it was written to where there is one.

    The shapes of inner values, which are only notes, are given up if ONNX infers others: it looks into branches that
    are never taken.

    Raises: ExportError with what the checker says, the node's name in it.
    """
    try:
        _check_whole(model, path)
    except ExportError as error:
        if not _forget_shapes(model.graph):
            raise
        if path is not None:
            path.write_bytes(model.SerializeToString())
        try:
            _check_whole(model, path)
        except ExportError:
            raise error from None


def _forget_shapes(graph: Any, is_main: bool = True) -> bool:
    """Take away the notes on inner values and the shapes of subgraphs' outputs; gives whether there were any."""
    found = bool(graph.value_info)
    del graph.value_info[:]
    for info in () if is_main else graph.output:
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
            info.type.tensor_type.ClearField("shape")
            found = True
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            found |= _forget_shapes(inner, False)
    return found


def _check_whole(model: Any, path: Path | None) -> None:
    open_inputs = [info for info in model.graph.input if _has_open_rank(info)]
    open_outputs = [info for info in model.graph.output if _has_open_rank(info)]
    if not open_inputs and not open_outputs:
        _check(model if path is None else str(path))
        return
    with _stand_in(model, open_inputs, open_outputs):
        if path is None:
            _check(model)
            return
        copy = path.with_name(f"{path.name}.checked")
        try:
            copy.write_bytes(model.SerializeToString())
            _check(str(copy))
        finally:
            copy.unlink(missing_ok=True)


def _has_open_rank(info: Any) -> bool:
    kind = info.type
    return kind.HasField("tensor_type") and not kind.tensor_type.HasField("shape")


def _check(model: Any) -> None:
    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        said = re.sub(r"\s+", " ", str(error)).strip()
        raise ExportError(f"the model does not pass ONNX's checker: {said[:2000]}") from error


@contextmanager
def _stand_in(model: Any, open_inputs: list[Any], open_outputs: list[Any]) -> Iterator[None]:
    """The model with other inputs and outputs in place of those of open rank, for a while."""
    graph = model.graph
    saved = {name: list(getattr(graph, name)) for name in ("input", "output", "node")}
    for name, items in saved.items():
        copies = [type(item)() for item in items]
        for copy, item in zip(copies, items):
            copy.CopyFrom(item)
        saved[name] = copies
    names = {info.name for info in open_inputs}
    takes = [_take(info) for info in graph.input if info.name in names]
    if takes:
        graph.initializer.append(helper.make_tensor(_INDEX, TensorProto.INT64, [], [0]))
    nodes = [*takes, *saved["node"], *(_measure(info) for info in open_outputs)]
    del graph.node[:]
    graph.node.extend(nodes)
    try:
        yield
    finally:
        if takes:
            graph.initializer.pop()
        for name, items in saved.items():
            field = getattr(graph, name)
            del field[:]
            field.extend(items)


def _take(info: Any) -> Any:
    """Make an input a sequence; gives the node that takes the tensor from it."""
    name, element = info.name, info.type.tensor_type.elem_type
    info.name = f"{name} in a sequence"
    info.type.Clear()
    info.type.sequence_type.elem_type.tensor_type.elem_type = element
    return NodeProto(op_type="SequenceAt", input=[info.name, _INDEX], output=[name])


def _measure(info: Any) -> Any:
    """Make an output its shape; gives the node that has it."""
    name = info.name
    info.name = f"shape of {name}"
    info.type.tensor_type.elem_type = TensorProto.INT64
    info.type.tensor_type.shape.dim.add()
    return NodeProto(op_type="Shape", input=[name], output=[info.name])
