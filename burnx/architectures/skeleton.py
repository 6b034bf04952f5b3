"""A skeleton of classes from nothing but the names and shapes of weights; what it computes is for a person to say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from burnx.architectures.layers import layer_expression
from burnx.codegen.expressions import text as expression_text
from burnx.codegen.literal import comment, constant
from burnx.codegen.names import LOCAL_RESERVED, Names
from burnx.dtype import dtype_name
from burnx.nn import Module
from burnx.nn.stored import is_counter, renamer
from burnx.tensor import Array

_RESERVED = frozenset(dir(Module))


@dataclass(frozen=True, slots=True)
class Skeleton:
    """Classes as text, the rules that make their names legal, and what they leave to a person."""

    code: str
    title: str
    renames: Mapping[str, str]
    to_do: tuple[str, ...]


@dataclass(slots=True)
class Tree:
    """A module of the checkpoint: what is in it by name, or the tensor that it is."""

    children: dict[str, Tree] = field(default_factory=dict)
    array: Array | None = None


@dataclass(slots=True)
class Writer:
    """What has been written so far; the rules for names are those of single tensors, of numbers that are no place in a
    list, and of words.
    """

    names: Names
    attributes: Names
    classes: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    loose: list[str] = field(default_factory=list)


def make_skeleton(arrays: Mapping[str, Array], reason: str) -> Skeleton:
    """The modules that tensors of these names are in; ``reason`` says why nothing more is known."""
    writer = Writer(Names(LOCAL_RESERVED), Names(_RESERVED | {"self"}))
    root = _tree(arrays, writer)
    body = _attributes(root, "", writer)
    rules = _rules(writer)
    body += _ties(arrays, renamer(rules, ()))
    code = "\n\n".join(f"class {name}(nn.Module):\n{text}" for text, name in writer.classes.items())
    model = (
        "class Model(nn.Module):\n    def __init__(self):\n"
        + "".join(f"        {line}\n" for line in body or ["pass"])
        + "\n    def forward(self, *inputs: Tensor) -> Tensor:\n"
        + "        raise BurnxError("
        + '"this file is a skeleton: its first lines list what is to be filled in")\n'
    )
    to_do = tuple(_to_do(writer, reason))
    return Skeleton(f"{code}\n\n{model}", "A skeleton", rules, to_do)


def _tree(arrays: Mapping[str, Array], writer: Writer) -> Tree:
    root = Tree()
    for name, array in arrays.items():
        node = root
        for part in name.split("."):
            node = node.children.setdefault(part, Tree())
        node.array = array
    _part_tensors(root, "", writer)
    return root


def _part_tensors(tree: Tree, path: str, writer: Writer) -> None:
    """Give a tensor that is named like a module beside it a name of its own."""
    for name, child in list(tree.children.items()):
        here = f"{path}.{name}" if path else name
        _part_tensors(child, here, writer)
        if child.array is not None and child.children:
            own = f"{name}_tensor"
            while own in tree.children:
                own += "_"
            writer.tensors[f"^{re.escape(here)}$"] = f"{path}.{own}" if path else own
            tree.children[own] = Tree(array=child.array)
            child.array = None


def _is_list(tree: Tree) -> bool:
    return all(re.fullmatch("0|[1-9][0-9]*", name) for name in tree.children)


def _attributes(tree: Tree, path: str, writer: Writer) -> list[str]:
    """The statements of ``__init__`` that make what is in a module."""
    lines = []
    for name, child in tree.children.items():
        here = f"{path}.{name}" if path else name
        if is_counter(name):
            continue
        lines.append(f"self.{_legal(name, here, writer)} = {_expression(child, here, writer)}")
    return lines


def _legal(name: str, path: str, writer: Writer) -> str:
    """An attribute for a part of a name, and the rule that renames it if it differs."""
    legal = writer.attributes.take(name, "part")
    if legal != name and name.isdigit():
        lead = path[: len(path) - len(name)]
        rule = rf"^({re.escape(lead)}){name}(?=\.|$)"
        writer.numbers[rule] = rf"\g<1>{legal}"
    elif legal != name:
        writer.words[rf"(?<![^.]){re.escape(name)}(?=\.|$)"] = legal
    return legal


def _rules(writer: Writer) -> dict[str, str]:
    """All rules in an order in which none meets what another has made: whole names first, then the deepest numbers,
    then words, the last first, since a word may be what an earlier one would have become.
    """
    numbers = sorted(writer.numbers.items(), key=lambda rule: -rule[0].count("."))
    return {**writer.tensors, **dict(numbers), **dict(reversed(writer.words.items()))}


def _expression(tree: Tree, path: str, writer: Writer) -> str:
    """What makes a module or a parameter."""
    if tree.array is not None:
        writer.loose.append(path)
        return _parameter(tree.array)
    arrays = {name: child.array for name, child in tree.children.items() if not is_counter(name)}
    held = {name: array for name, array in arrays.items() if array is not None}
    if len(held) == len(arrays):
        found = layer_expression(path, held)
        if found is not None:
            writer.kinds[found.partition("(")[0]] += 1
            return found
    return _list(tree, path, writer) if _is_list(tree) else _class(tree, path, writer)


def _parameter(array: Array) -> str:
    sizes = [*map(str, array.shape)]
    if array.dtype.name != "float32":
        sizes.append(f'dtype="{dtype_name(array.dtype)}"')
    return f"nn.Parameter({', '.join(sizes)})"


def _list(tree: Tree, path: str, writer: Writer) -> str:
    items = sorted(tree.children.items(), key=lambda item: int(item[0]))
    made = {int(name): _expression(child, f"{path}.{name}", writer) for name, child in items}
    texts = list(made.values())
    if list(made) != list(range(len(made))):
        pairs = ", ".join(f"{place}: {text}" for place, text in made.items())
        return f"nn.ModuleList({{{pairs}}})"
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"nn.ModuleList({texts[0]} for _ in range({len(texts)}))"
    return f"nn.ModuleList([{', '.join(texts)}])"


def _class(tree: Tree, path: str, writer: Writer) -> str:
    lines = _attributes(tree, path, writer)
    body = "    def __init__(self):\n" + "".join(f"        {line}\n" for line in lines or ["pass"])
    if body not in writer.classes:
        words = [part for part in path.split(".") if not part.isdigit()][-1:] or ["Block"]
        title = "".join(word[:1].upper() + word[1:] for word in re.split(r"\W|_", words[0]))
        taken = set(writer.classes.values())
        name = base = writer.names.take(title or "Block", "Block")
        number = 2
        while name in taken:
            name, number = f"{base}{number}", number + 1
        writer.classes[body] = name
    return f"{writer.classes[body]}()"


def _ties(arrays: Mapping[str, Array], rename: Callable[[str], str]) -> list[str]:
    """Statements that make one parameter of tensors that share their memory."""
    first: dict[Any, str] = {}
    lines = []
    for name, array in arrays.items():
        if not array.size:
            continue
        key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        known = first.setdefault(key, name)
        if known != name:
            lines.append(f"{_path(rename(name))} = {_path(rename(known))}")
    return lines


def _path(name: str) -> str:
    text = "self"
    for part in name.split("."):
        text += f"[{part}]" if part.isdigit() else f".{part}"
    return text


def _to_do(writer: Writer, reason: str) -> list[str]:
    lines = [
        f"nothing says what this model computes: {comment(reason, 400)}",
        "Model.inputs and Model.outputs",
        "the forward of each class: the order of its layers, and all that has no weights (activations, pooling, sums)",
    ]
    convolutions = sum(count for kind, count in writer.kinds.items() if "Conv" in kind)
    if convolutions:
        lines.append(f"stride, padding, dilation and groups of the {convolutions} convolutions")
    norms = sum(count for kind, count in writer.kinds.items() if "Norm" in kind)
    if norms:
        lines.append(f"eps of the {norms} normalizations, where it is not 1e-5")
    if writer.loose:
        shown = ", ".join(expression_text(constant(name)) for name in writer.loose[:6])
        more = f" and {len(writer.loose) - 6} more" if len(writer.loose) > 6 else ""
        lines.append(f"what the parameters that are in no known layer are for: {shown}{more}")
    return lines
