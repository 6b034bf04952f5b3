"""Removes the instructions of a program whose results nobody needs."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from burnx.program import Instruction, Program
from burnx.shape import Expr, symbols


def remove_dead(program: Program) -> Program:
    """Drop dead instructions of a program and of the programs inside it; regions keep their places."""
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
    kept.reverse()
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


def _programs(instruction: Instruction) -> list[Program]:
    single = instruction.attributes.get("program")
    return [*instruction.attributes.get("programs", ()), *([single] if single is not None else [])]


def _symbols_of(value: object) -> set[str]:
    if isinstance(value, Expr):
        return set(symbols(value))
    if isinstance(value, tuple):
        return {name for item in value for name in _symbols_of(item)}
    return set()
