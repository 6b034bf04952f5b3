"""Module paths that exporters leave in the names of nodes and parameters, part by part."""

from __future__ import annotations

import re
from typing import Final

# what is put before the names of a function that is inlined, in a branch or elsewhere
_INLINED: Final = re.compile(
    r"(\w+?_\d+_(?P<branch>then_branch|else_branch|body)__)?(\w+?__)??Inline_\d+__"
)
# how Caffe2, Keras, Paddle and others end the name of a layer's weight, and what they begin it with
_WEIGHT: Final = re.compile(
    r"^(?:[cg]pu_\d+/)?(?P<layer>.+?)[./_](?:(?:weights?|kernel|gamma|scale|w|s)(?:_0)?)(?::0)?$"
)
# functions that TensorFlow calls: no module of the author's
_CALL: Final = re.compile(r"(Stateful)?PartitionedCall(_\d+)?$")
# a kind of layer and a number, which says no more than the layer itself
_KIND: Final = re.compile(
    r"(?:(?:depthwise_|separable_)?conv(?:_transpose)?|batch_norm(?:alization)?|layer_norm(?:alization)?|linear|dense"
    r"|embedding|lstm|gru|p_?re_?lu)(?:_?[123]d)?(?:_transpose)?(?:_\d+)?$"
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|\d+|[A-Z]+")


def is_place(text: str) -> bool:
    """Whether a part of a path is a place in a list."""
    return text.isascii() and text.isdigit()


def snake_case(text: str) -> str:
    """``LayerNorm`` and ``layer norm`` are ``layer_norm``."""
    return "_".join(word.lower() for word in _WORDS.findall(text))


def split_parts(text: str) -> tuple[str, ...]:
    """A dotted path as its parts, without empty ones."""
    return tuple(part for part in text.split(".") if part)


def split_scope(text: str) -> tuple[str, ...]:
    """The module path in a node name, the node's own word (the last) left out.

    ``/layer1/layer1.0/conv1/Conv`` is ``("layer1", "0", "conv1")``: a component that repeats the
    dotted path before it adds only what is new, so do ``/encoder/layer.0/attention`` components
    that repeat nothing.
    """
    path: tuple[str, ...] = ()
    for component in [part for part in text.split("/") if part and not _CALL.match(part)][:-1]:
        parts = split_parts(component)
        path += parts[_repeated(path, parts) :]
    return path


def _repeated(path: tuple[str, ...], parts: tuple[str, ...]) -> int:
    """How many leading ``parts`` repeat the end of ``path``, where more parts follow."""
    for length in range(min(len(path), len(parts) - 1), 0, -1):
        if path[-length:] == parts[:length]:
            return length
    return 0


def own_part(text: str, operator: str) -> str:
    """The name of a node that was made of several: that of the last which is called like ``operator``, else the first.

    TensorFlow joins them: ``m/relu/Relu;m/conv/BiasAdd;m/conv/Conv2D`` are one Conv.
    """
    parts = text.split(";")
    alike = [part for part in parts if part.rpartition("/")[2].startswith(operator)]
    return alike[-1] if alike else parts[0]


def split_parameter(text: str) -> tuple[tuple[str, ...], str]:
    """Module path and own name of a parameter: ``layer1.0.conv1.weight`` is ``(("layer1", "0",
    "conv1"), "weight")``.
    """
    inlined = _INLINED.match(text)
    branch = (inlined["branch"],) if inlined and inlined["branch"] else ()
    parts = (*branch, *split_parts(text[inlined.end() :] if inlined else text))
    return (parts[:-1], parts[-1]) if parts else ((), "")


def split_weight(text: str) -> tuple[str, ...]:
    """The path of the layer that a weight's name says in other words than PyTorch's; () if it says none.

    ``conv2_expand_weights``, ``top/kernel:0``, ``gpu_0/conv1_w_0`` and ``stem.w_0`` are weights of a layer; a name
    that is only its kind and a number is none.
    """
    found = _WEIGHT.match(text)
    if found is None or "::" in text:
        return ()
    path = tuple(part for part in re.split(r"[./]", found["layer"]) if part)
    return () if not path or _KIND.match(path[-1].lower()) else path
