"""Values as text, without recursion: what is used twice, or is long, gets a name of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from burnx.kernels.ir import Constant, Local, Value, operands

LONG = 88  # characters of an expression that still reads well inside of another one

Write = Callable[[Value, list[str]], str]  # a value, from its operands' texts
Name = Callable[[Value, str], str]  # the name that a value's text is given
Parts = Callable[[Value], tuple[Value, ...]]  # the values that a value's text is made of


def spell(
    values: Sequence[Value], write: Write, name: Name, parts_of: Parts = operands
) -> list[str]:
    """The texts of values; ``name`` is called for the parts that are named, operands first."""
    uses = Counter(id(part) for node in every_node(values, parts_of) for part in parts_of(node))
    uses.update(id(value) for value in values)
    texts: dict[int, str] = {}
    todo = list(reversed(values))
    while todo:
        current = todo[-1]
        parts = parts_of(current)
        missing = [part for part in reversed(parts) if id(part) not in texts]
        if id(current) in texts or not missing:
            todo.pop()
        if id(current) in texts:
            continue
        if missing:
            todo.extend(missing)
            continue
        text = write(current, [texts[id(part)] for part in parts])
        is_leaf = isinstance(current, (Constant, Local))
        if not is_leaf and (uses[id(current)] > 1 or len(text) > LONG):
            text = name(current, text)
        texts[id(current)] = text
    return [texts[id(value)] for value in values]


def every_node(values: Sequence[Value], parts_of: Parts = operands) -> list[Value]:
    """All values that these are made of, themselves included, each once, in order of appearance."""
    seen: dict[int, Value] = {}
    todo = list(reversed(values))
    while todo:
        value = todo.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            todo.extend(reversed(parts_of(value)))
    return list(seen.values())
