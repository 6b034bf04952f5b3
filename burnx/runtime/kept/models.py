"""Programs of model files: found without reading the model.

Two entries belong to a file: what a caller sees of the model (its face), and for each kind of input the whole program.
Both name the files that they were made of, the model's external data among them, and are of no use once one of these
has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from burnx.errors import BurnxError, ModelError
from burnx.files import MappedFile, find_map, map_file, place_in_map
from burnx.graph import Graph, Value
from burnx.program import Program, Var
from burnx.runtime.compiled.symbols import find_bound
from burnx.runtime.compiled.units import Prepared
from burnx.runtime.devices.reference.interpreter import Step, make_steps
from burnx.runtime.kept.codec import Reader, Unkeepable, Writer
from burnx.runtime.kept.constants import Find, Places, read_constant
from burnx.runtime.kept.entries import Constants, Entries, Entry, find_entries
from burnx.runtime.kept.identity import (
    FileKey,
    Stamp,
    file_key,
    is_replaced,
    is_same,
    map_key,
)
from burnx.runtime.kept.shared import SharedConstants, find_shared
from burnx.runtime.kept.sums import Sums

Array = np.ndarray[Any, Any]
DAMAGED = (LookupError, TypeError, ValueError, RecursionError, BurnxError)
Ends = tuple[tuple[Var, ...], tuple[Var, ...]]
# (head, body) of native code, and native code of a head, a way to read its body, its ends and where constants lie
Write = Callable[[Any, Places], tuple[Any, Any]]
Read = Callable[[Any, Callable[[], Any], Ends, Mapping[str, Find]], Any]


@dataclass(slots=True)
class Shelf:
    """What is kept of one model file; ``graph`` and ``maps`` are there once the file has been read.

    ``held`` are the files that the face was made of, as they were when it was found.  Of a ``fresh`` one nothing is taken:
    what is tuned is made anew, and kept under what the tuning finds.
    """

    entries: Entries
    stamp: Callable[[], Stamp]
    key: list[Any]
    file: FileKey
    held: Sequence[MappedFile] = ()
    graph: Graph | None = None
    maps: Sequence[MappedFile] = ()
    fresh: bool = False

    @property
    def face(self) -> str:
        """The name of the face's entry."""
        return self.stamp().key("face", self.key)

    def find_face(self) -> Graph | None:
        """The model without its nodes."""
        entry = None if self.fresh else self.entries.read(self.face)
        if entry is None:
            return None
        try:
            face = _read_face(entry, _finders(entry, self.entries, Sums()))
            held = [map_file(path, BurnxError) for path, *_ in entry.head["files"]]
        except DAMAGED:
            return None
        if [map_key(each) for each in held] != entry.head["files"]:
            return None
        self.held = held
        return face

    def find_map(self) -> MappedFile | None:
        """The file as it was when the face was found; None if no face was.

        Raises: ModelError if it was written to since, or external data has changed.
        """
        for place, each in enumerate(self.held):
            # a model file that was replaced is still there for who has mapped it
            if map_key(each) is None and (place or not is_replaced(each)):
                raise ModelError(f"file {each.path!r} has changed since the model was loaded")
        return self.held[0] if self.held else None

    def learn(self, graph: Graph, maps: Sequence[MappedFile]) -> None:
        """Note what was read, and the files of its external data."""
        self.graph, self.maps = graph, maps

    def find_slot(self, kind: Sequence[Any]) -> Slot:
        """Where the program for a kind of input is kept."""
        return Slot(self, list(kind))

    def list_files(self) -> list[FileKey] | None:
        """The files that the model was read from, it first; None if one has changed since."""
        keys = [map_key(each) for each in self.maps if each.path != self.file[0]]
        if not is_same(self.file) or any(key is None for key in keys):
            return None
        return [self.file, *(key for key in keys if key is not None)]


@dataclass(slots=True)
class Slot:
    """Where the program of a model for one kind of input is kept."""

    shelf: Shelf
    kind: list[Any]
    _shared: SharedConstants | None = None

    @property
    def name(self) -> str:
        """The name of the entry, which tuning changes."""
        return self.shelf.stamp().key("program", self.shelf.key, self.kind)

    @property
    def shared(self) -> SharedConstants:
        """The constants of the program, once it is made."""
        if self._shared is None:
            self._shared = SharedConstants(self.shelf.entries, self.shelf.stamp())
        return self._shared

    def find(self, read: Read) -> tuple[Program, Prepared] | None:
        """A program, of which only the ends are there, and what runs it; ``read`` gives None where that is gone."""
        entry = None if self.shelf.fresh else self.shelf.entries.read(self.name)
        if entry is None:
            return None
        sums, entries = Sums(), self.shelf.entries
        try:
            found = _read_program(entry, _finders(entry, entries, sums), read)
        except DAMAGED:
            found = None
        return None if sums.settle() else found

    def keep(self, program: Program, made: Prepared, write: Write) -> None:
        """Keep a program that has run."""
        files = self.shelf.list_files()
        if files is None or self.shelf.graph is None:
            return
        constants, defaults = Constants(), Constants()
        locate = _locate_in(files)
        try:
            face = _write_face(self.shelf.graph, Places(defaults, locate, lambda array: None))
            places = Places(constants, locate, self.shared.place)
            head, body = _write_program(program, made, places, write)
        except Unkeepable:
            return
        more = {"files": files, "about": dict(self.shelf.stamp().describe())}
        entries = self.shelf.entries
        shared = list(self.shared.made.values())
        entries.write(self.name, {**head, **more}, body, constants, shared)
        entries.write(self.shelf.face, {**face, **more}, None, defaults)


def find_shelf(
    path: Path, base_dir: Path | None, options: Mapping[str, Any], stamp: Callable[[], Stamp]
) -> Shelf | None:
    """What is kept of a model file for ``fuse`` and ``tune``; None where nothing is, or the file was changed a moment ago."""
    entries = find_entries()
    if entries is None:
        return None
    try:
        file = file_key(os.path.abspath(path), os.stat(path))
    except (OSError, ValueError):
        return None
    if file is None:
        return None
    folder = None if base_dir is None else os.path.abspath(base_dir)
    key = [file, folder, options.get("fuse", True)]
    return Shelf(entries, stamp, key, file, fresh=bool(options.get("tune")))


def _locate_in(files: Sequence[FileKey]) -> Callable[[Array], list[Any] | None]:
    numbers = {key[0]: place for place, key in enumerate(files)}

    def locate(array: Array) -> list[Any] | None:
        base = find_map(array)
        if not isinstance(base, MappedFile) or base.path not in numbers:
            return None
        return ["file", numbers[base.path], place_in_map(array, base)]

    return locate


@dataclass(slots=True)
class _Maps:
    """The files of an entry, each mapped when it is needed."""

    files: Sequence[FileKey]
    maps: dict[int, Array] = field(default_factory=dict)

    def __call__(self, number: int) -> Array:
        if number not in self.maps:
            found = map_file(self.files[number][0], BurnxError)
            if map_key(found) != self.files[number]:
                raise ValueError("a file has changed")
            self.maps[number] = np.frombuffer(found, np.uint8)
        return self.maps[number]


def _finders(entry: Entry, entries: Entries, sums: Sums) -> Mapping[str, Find]:
    """Where the constants of an entry lie; of those that are shared, ``sums`` has yet to settle whether they are good.

    Raises: ValueError if a file has changed.
    """
    files = [[str(path), *map(int, numbers)] for path, *numbers in entry.head["files"]]
    if not all(map(is_same, files)):
        raise ValueError("a file has changed")
    shared = partial(find_shared, entries, sums)
    return {"kept": lambda number: entry.constants, "shared": shared, "file": _Maps(files)}


# --- faces ------------------------------------------------------------------------------------------------------------


def _write_face(graph: Graph, places: Places) -> dict[str, Any]:
    to = Writer()
    return {
        "name": graph.name,
        "inputs": [[value.name, to.type(value.type)] for value in graph.inputs],
        "outputs": [
            [name, to.type(value.type)]
            for name, value in zip(graph.output_names, graph.outputs, strict=True)
        ],
        "defaults": [
            places.write(graph.defaults[value]) if value in graph.defaults else None
            for value in graph.inputs
        ],
        "dims": to.dims,
    }


def _read_face(entry: Entry, find: Mapping[str, Find]) -> Graph:
    head = entry.head
    reader = Reader(head["dims"])
    inputs = [Value(reader.type(kind), name) for name, kind in head["inputs"]]
    defaults = {
        value: read_constant(place, find)
        for value, place in zip(inputs, head["defaults"], strict=True)
        if place is not None
    }
    outputs = [Value(reader.type(kind), name) for name, kind in head["outputs"]]
    names = [name for name, _ in head["outputs"]]
    return Graph(head["name"], inputs, outputs, names, defaults=defaults)


# --- programs ---------------------------------------------------------------------------------------------------------


def _write_program(
    program: Program, made: Prepared, places: Places, write: Write
) -> tuple[Any, Any]:
    to = Writer(places.write)
    units: list[Any] = []
    natives: list[Any] = []
    bodies: list[Any] = []
    inputs = [to.var(var) for var in program.inputs]
    for unit in made.units:
        if not isinstance(unit, Step):
            head, body = write(unit, places)
            ends = [[to.var(var) for var in part] for part in (unit.inputs, unit.outputs)]
            units.append(["native", len(natives), *ends])
            natives.append(head)
            bodies.append(body)
        else:
            units.append(["step", to.instruction(unit.instruction)])
    head = {
        "inputs": inputs,
        "results": [to.var(var) for var in made.results],
        "units": units,
        "natives": natives,
        "vars": to.vars,
        "dims": to.dims,
    }
    return head, bodies


def _read_program(
    entry: Entry, find: Mapping[str, Find], read: Read
) -> tuple[Program, Prepared] | None:
    head = entry.head
    reader = Reader(head["dims"], head["vars"])
    for var, (_, *constant) in zip(reader.vars, head["vars"], strict=True):
        if constant:
            var.array = read_constant(constant[0], find)
    bodies: list[Any] = []

    def find_body(number: int) -> Any:
        if not bodies:
            bodies.extend(entry.read_body())
        return bodies[number]

    units: list[Any] = []
    for kind, *rest in head["units"]:
        if kind == "step":
            instruction = reader.instruction(rest[0])
            units.extend(make_steps([instruction], instruction.outputs))
            continue
        number, *parts = rest
        ends = _vars(reader, parts[0]), _vars(reader, parts[1])
        body = partial(find_body, number)
        native = read(head["natives"][number], body, ends, find)
        if native is None:
            return None
        units.append(native)
    inputs, results = _vars(reader, head["inputs"]), _vars(reader, head["results"])
    made = Prepared(tuple(units), results, find_bound(inputs))
    return Program(inputs, results), made


def _vars(reader: Reader, places: Sequence[int]) -> tuple[Var, ...]:
    return tuple([reader.vars[place] for place in places])
