"""Removes the instructions of a program whose results nobody needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

from burnx.program import Instruction, Program
from burnx.shape import Expr, symbols


def remove_dead(program: Program) -> Program:
    """Drop dead instructions of a program and of the programs inside it, and what those no longer capture.

    An instruction that binds a size which something needs stays.  Regions keep their places.
    """
    for instruction in program.instructions:
        _clean_inside(instruction)
    kept = _kept(program)
    places = [0, *accumulate(map(int, kept))]
    program.instructions = [
        each for each, alive in zip(program.instructions, kept, strict=True) if alive
    ]
    regions = (
        replace(region, start=places[region.start], stop=places[region.stop])
        for region in program.regions
    )
    program.regions = [region for region in regions if region.stop > region.start]
    return program


def _kept(program: Program) -> list[bool]:
    """For each instruction whether it is needed, the last first settled."""
    needed = {id(var) for var in program.outputs}
    wanted: set[str] = set()
    for var in (*program.outputs, *program.inputs):
        wanted |= _symbols_of(getattr(var.type, "shape", None))
    kept: list[bool] = []
    for instruction in reversed(program.instructions):
        alive = any(id(var) in needed for var in instruction.outputs)
        alive = alive or any(binding.name in wanted for binding in instruction.binds)
        kept.append(alive)
        if alive:
            needed |= {id(var) for var in instruction.inputs if var is not None}
            wanted |= _used_symbols(instruction)
    return kept[::-1]


def _clean_inside(instruction: Instruction) -> None:
    """Clean the programs that an instruction runs; their captures are the last of its inputs, program by program."""
    programs = list(_programs(instruction))
    if not programs:
        return
    place = len(instruction.inputs) - sum(len(each.captures) for each in programs)
    inputs = list(instruction.inputs[:place])
    for program in programs:
        given = instruction.inputs[place : place + len(program.captures)]
        place += len(program.captures)
        remove_dead(program)
        read = {id(var) for var in program.outputs}
        read |= {id(var) for each in program.instructions for var in each.inputs}
        stays = [id(var) in read for var in program.captures]
        inputs += _chosen(given, stays)
        program.captures = _chosen(program.captures, stays)
        program.captured = _chosen(program.captured, stays)
    instruction.inputs = tuple(inputs)


def _chosen(items: tuple[Any, ...], chosen: list[bool]) -> tuple[Any, ...]:
    return tuple(item for item, stays in zip(items, chosen, strict=True) if stays)


def _used_symbols(instruction: Instruction) -> set[str]:
    found: set[str] = set()
    for value in instruction.attributes.values():
        found |= _symbols_of(value)
    for inner in _programs(instruction):
        for each in inner.instructions:
            found |= _used_symbols(each)
        for var in (*inner.inputs, *inner.outputs):
            found |= _symbols_of(getattr(var.type, "shape", None))
    return found


def _programs(instruction: Instruction) -> Iterator[Program]:
    yield from instruction.attributes.get("programs", ())
    if "program" in instruction.attributes:
        yield instruction.attributes["program"]


def _symbols_of(value: object) -> set[str]:
    if isinstance(value, Expr):
        return set(symbols(value))
    if isinstance(value, tuple):
        return {name for item in value for name in _symbols_of(item)}
    return set()
