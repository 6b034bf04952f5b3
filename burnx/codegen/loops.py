"""Loops over the modules of a list, in the three forms that calls in a row have."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnx.codegen.dims import type_text
from burnx.codegen.expressions import binary, call, group, index, name
from burnx.codegen.layout import Assign, For
from burnx.codegen.literal import constant
from burnx.codegen.selfpath import self_path
from burnx.structure.paths import is_place, snake_case
from burnx.structure.runs import Growth, Round, Run, inputs_of
from burnx.structure.tree import writes

_ELEMENT = re.compile(r"(\w+)\[(\d+)\]$")
if TYPE_CHECKING:
    from burnx.codegen.block import Block


def write_loop(block: Block, run: Run | Growth | Round) -> None:
    """Add the statements of a loop to a block."""
    _FORMS[type(run)](block, run)


def _run(block: Block, run: Run) -> None:
    """``for block in self.blocks: x = block(x)``"""
    first, last = run.calls[0], run.calls[-1]
    start = block.given(first, inputs_of(first)[run.place])
    later = [value for each in run.calls[1:] for value in inputs_of(each) if value in block.env]
    dying = block.read([*block.leaves(first), *later])
    (value,) = writes(last)
    started = [each for each in dying if each not in later]  # all turns need the others
    chosen = block.choose(first, value, started)
    word = singular(run.path[-1]) if run.path else "block"
    if chosen == word:
        chosen = block.free_name("out", {block.env[each] for each in started})
    if not (isinstance(start, ast.Name) and start.id == chosen):
        block.statements.append(Assign(name(chosen), start))
    each_name = block.free_name(word, set(), chosen)
    args = [
        name(chosen) if place == run.place else block.given(first, each)
        for place, each in enumerate(inputs_of(first))
    ]
    body = Assign(name(chosen), call(each_name, *args), _note(run))
    block.statements.append(For(each_name, _modules(block, run), (body,)))
    block.bind(value, chosen, dying)


def _grow(block: Block, run: Growth) -> None:
    """``for layer in self.layers: features = [*features, layer(*features)]``"""
    start = [block.given(run.calls[0], value) for value in run.calls[0].inputs]
    block.read([value for each in run.calls for value in each.inputs])
    chosen = block.free_name("features", set())
    each_name = block.free_name(singular(run.path[-1]), set(), chosen)
    every = ast.Starred(name(chosen), ast.Load())
    grown = ast.List([every, call(each_name, every)], ast.Load())
    block.statements.append(Assign(name(chosen), ast.List(start, ast.Load())))
    block.statements.append(For(each_name, _modules(block, run), (Assign(name(chosen), grown),)))
    block.pack(chosen, [*run.calls[-1].inputs, *run.calls[-1].outputs])


def _round(block: Block, run: Round) -> None:
    """``for place, block in enumerate(self.blocks): key, value, x = block(x, *past[2 * place : 2 * place + 2])``"""
    first, last = run.calls[0], run.calls[-1]
    turning = _Turning.read(block, run)
    if turning is None:
        for each in run.calls:
            block.statement(each)
        return
    start = block.given(first, first.inputs[run.carried])
    later = [value for each in run.calls[1:] for value in each.inputs if value in block.env]
    dying = block.read([*block.leaves(first), *later])
    carried = last.outputs[run.given]
    chosen = block.choose(first, carried, [each for each in dying if each not in later])
    if not (isinstance(start, ast.Name) and start.id == chosen):
        block.statements.append(Assign(name(chosen), start))
    taken = [chosen]
    word = block.free_name(singular(run.path[-1]), set(), *taken)
    taken.append(word)
    place = block.free_name("place", set(), *taken)
    others = [each for each in range(len(first.outputs)) if each != run.given]
    pack = block.free_name(_pack_label(block, run, others), set(), *taken, place)
    targets = _targets(block, run, (chosen, [*taken, place, pack]))
    called = call(word, *turning.arguments(chosen, place))
    results = [targets[each] for each in others]
    grown = ast.List([ast.Starred(name(pack), ast.Load()), *results], ast.Load())
    body = (Assign(group(targets), called), Assign(name(pack), grown))
    modules = _modules(block, run)
    several = turning.places
    loop = For(f"{place}, {word}", call("enumerate", modules), body)
    empty = ast.List([], ast.Load())
    block.statements.append(Assign(name(pack), empty, kind="list[Tensor]"))
    block.statements.append(loop if several else For(word, modules, body))
    block.bind(carried, chosen, dying)
    block.pack(pack, [each.outputs[number] for each in run.calls for number in others])


def _targets(block: Block, run: Round, taken: tuple[str, list[str]]) -> list[ast.expr]:
    """What the results of one call are called."""
    chosen, names = taken
    targets: list[ast.expr] = []
    for number, value in enumerate(run.calls[0].outputs):
        label = chosen
        if number != run.given:
            label = block.free_name(block.context.results.get(value, "result"), set(), *names)
            names.append(label)
        targets.append(name(label))
    return targets


def _pack_label(block: Block, run: Round, others: Sequence[int]) -> str:
    """What all results of the calls are called: the family of outputs that they are, if they are one."""
    values = {each.outputs[number] for each in run.calls for number in others}
    for family in block.context.families:
        if values == set(family.values):
            return family.label
    return "results"


@dataclass(frozen=True, slots=True)
class _Turning:
    """The arguments of a round's calls: the carried one, those that stay, and members of packs.

    A member is (pack, step, first): in turn k it is number step * k + first.
    """

    fixed: dict[int, ast.expr]
    members: dict[int, tuple[str, int, int]]
    carried: int

    @property
    def places(self) -> bool:
        """Whether the number of the turn is needed."""
        return bool(self.members)

    @classmethod
    def read(cls, block: Block, run: Round) -> _Turning | None:
        """None where an argument is neither."""
        fixed: dict[int, ast.expr] = {}
        members: dict[int, tuple[str, int, int]] = {}
        for place in range(len(run.calls[0].inputs)):
            values = [each.inputs[place] for each in run.calls]
            if place == run.carried:
                continue
            if len(set(values)) == 1:
                fixed[place] = block.given(run.calls[0], values[0])
                continue
            member = _member([block.env.get(value, "") for value in values])
            if member is None:
                return None
            members[place] = member
        return cls(fixed, members, run.carried)

    def arguments(self, chosen: str, turn: str) -> list[ast.expr]:
        """The arguments of a turn; members that stand side by side are a slice."""
        found: list[ast.expr] = []
        count = len(self.fixed) + len(self.members) + 1
        place = 0
        while place < count:
            if place in self.members:
                pack, step, first = self.members[place]
                width = 1
                while self.members.get(place + width) == (pack, step, first + width):
                    width += 1
                start = _number(turn, step, first)
                if width == 1:
                    found.append(index(name(pack), start))
                else:
                    part = ast.Slice(start, _number(turn, step, first + width))
                    found.append(ast.Starred(index(name(pack), part), ast.Load()))
                place += width
                continue
            found.append(name(chosen) if place == self.carried else self.fixed[place])
            place += 1
        return found


def _member(texts: Sequence[str]) -> tuple[str, int, int] | None:
    """The pack and the numbers that variables like ``past[3]`` are, if they are evenly apart."""
    matches = [_ELEMENT.match(each) for each in texts]
    numbers = [int(each[2]) for each in matches if each is not None]
    packs = {each[1] for each in matches if each is not None}
    if len(numbers) != len(texts) or len(packs) != 1:
        return None
    step = numbers[1] - numbers[0]
    even = all(number == numbers[0] + step * turn for turn, number in enumerate(numbers))
    return (packs.pop(), step, numbers[0]) if even and step > 0 else None


def _number(turn: str, step: int, first: int) -> ast.expr:
    """``step * turn + first``"""
    product = name(turn) if step == 1 else binary("*", constant(step), name(turn))
    return binary("+", product, constant(first)) if first else product


def _modules(block: Block, run: Run | Growth | Round) -> ast.expr:
    """The modules of a run: their list, or a part of it."""
    modules = self_path(block.context, run.path)
    if not run.first and run.is_last:
        return modules
    lower = constant(run.first) if run.first else None
    upper = None if run.is_last else constant(run.first + len(run.calls))
    return index(modules, ast.Slice(lower, upper))


def _note(run: Run) -> str:
    """The shape that a run carries, where it stays the same."""
    types = {type_text(value.type) for each in run.calls for value in writes(each)}
    return types.pop() if len(types) == 1 else ""


def singular(word: str) -> str:
    """What one of several is called."""
    word = snake_case(word)
    return (
        word[:-1]
        if word.endswith("s") and len(word) > 2
        else "block"
        if is_place(word[-1:])
        else word
    )


_FORMS: dict[type, Callable[[Block, Any], None]] = {Run: _run, Growth: _grow, Round: _round}
