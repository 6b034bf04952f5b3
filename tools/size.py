"""Check that what a reader must read stays small: files, functions, classes, nesting, rooms.

    python tools/size.py [--all]      --all also lists what the exceptions let through

Lines are counted as ``wc -l`` counts them.  A function's body is counted without its docstring,
a nested function as part of the one around it.  Exit status 1 if anything is too large without
an exception.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("burnx", "tools", "tests", "benchmarks", "examples")
GOLDEN = ROOT / "tests" / "golden"  # what burnx wrote
TEXT = (".py", ".j2")

LIMITS = {
    "file": 500,
    "function": 50,
    "class": 250,
    "nesting": 4,
    "parameters": 7,
    "room": 6_000,
    "all": 30_000,
}

# (pattern of "path" or "path::name", what is let through, why)
EXCEPTIONS = (
    ("burnx", "all", "a compiler of kernels beside the importer, the generator and the exporter"),
    ("burnx/gpu", "room", "a product is written for threads, for warps and for warpgroups"),
    ("burnx/llvm", "room", "a product is written for vectors, for bytes and for a matrix unit"),
    ("burnx/ops", "room", "one small file for each family of the standard's 240 operators"),
    ("burnx/ops/*", "parameters", "an operator's signature is the standard's schema"),
    ("burnx/primitives/*", "parameters", "a primitive's function takes its attributes"),
    ("burnx/waist.py::*", "parameters", "a primitive's function takes its attributes"),
    ("burnx/nn/*", "parameters", "a layer's settings are its operator's attributes"),
    ("burnx/cli/*", "parameters", "a verb has one parameter for each option of the contract"),
    ("tests/golden/*", "function", "what burnx writes for real models, kept to see it change"),
    ("tests/cases/cases.py", "file", "a list of cases: data that is looked up, not read through"),
    ("tests/cases/*", "function", "one behaviour with its tables of models and right answers"),
    ("tests/cases/*", "parameters", "what a case may say, by keyword, all with defaults"),
)

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Finding:
    """Something larger than its limit."""

    place: str
    line: int
    what: str
    size: int

    def __str__(self) -> str:
        where = f"{self.place}:{self.line}" if self.line else self.place
        return f"{where}: {self.what} {self.size}, at most {LIMITS[self.what]}"


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def body_lines(function: Function) -> int:
    """Lines of a function below its signature and docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if not body:
        return 0
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def parameter_count(function: Function) -> int:
    """Parameters of a function, ``self`` and ``cls`` aside."""
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    starred = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    return len(names) - (names[:1] in (["self"], ["cls"])) + len(starred)


def nesting_depth(node: ast.AST, depth: int = 0) -> int:
    """How many blocks stand inside each other; ``elif`` is no deeper than its ``if``."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            continue
        chained = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        inner = depth + (isinstance(child, BLOCKS) and not chained)
        deepest = max(deepest, nesting_depth(child, inner))
    return deepest


def measure_tree(tree: ast.AST, place: str) -> Iterator[Finding]:
    """Every size in a syntax tree, whether too large or not."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            name = f"{place}::{node.name}"
            yield Finding(name, node.lineno, "function", body_lines(node))
            yield Finding(name, node.lineno, "nesting", nesting_depth(node))
            yield Finding(name, node.lineno, "parameters", parameter_count(node))
        elif isinstance(node, ast.ClassDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            yield Finding(f"{place}::{node.name}", node.lineno, "class", size)


def room_of(path: Path) -> str:
    """``burnx/ops`` for ``burnx/ops/math.py``; each device is a room, a module is its own."""
    parts = path.parts
    if parts[1:3] == ("runtime", "devices") and len(parts) > 4:
        return "/".join(parts[:4])
    return "/".join(parts[:2])


def source_files() -> list[Path]:
    """Files that a reader reads, relative to the project."""
    found = (
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if GOLDEN not in path.parents
    )
    return sorted(path.relative_to(ROOT) for path in found if path.suffix in TEXT)


def measure(paths: list[Path]) -> Iterator[Finding]:
    """Every size of every file, and of the rooms and the whole package."""
    rooms: Counter[str] = Counter()
    for path in paths:
        lines = count_lines(ROOT / path)
        yield Finding(path.as_posix(), 0, "file", lines)
        if path.parts[0] == "burnx":
            rooms[room_of(path)] += lines
        if path.suffix == ".py":
            yield from measure_tree(ast.parse((ROOT / path).read_text()), path.as_posix())
    yield from (Finding(room, 0, "room", lines) for room, lines in rooms.items())
    families = rooms[
        "burnx/ops"
    ]  # the standard's operators grow with the standard, and are read one by one
    yield Finding("burnx", 0, "all", rooms.total() - families)


def excuse(finding: Finding) -> tuple[str, str, str] | None:
    """The exception that lets a finding through."""
    for exception in EXCEPTIONS:
        if exception[1] == finding.what and fnmatch(finding.place, exception[0]):
            return exception
    return None


def main(arguments: list[str]) -> int:
    paths = source_files()
    too_large = [item for item in measure(paths) if item.size > LIMITS[item.what]]
    excused = [item for item in too_large if excuse(item) is not None]
    offending = [item for item in too_large if excuse(item) is None]
    for item in offending:
        print(item)
    if "--all" in arguments:
        for item in excused:
            print(f"{item}; let through: {(excuse(item) or ('', '', ''))[2]}")
    lines = sum(count_lines(ROOT / path) for path in paths if path.parts[0] == "burnx")
    print(f"{len(offending)} too large, {len(excused)} let through, burnx/ has {lines} lines")
    return 1 if offending else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
