"""Regular expressions in the syntax of RE2, which RegexFullMatch takes, in that of Python.

They differ in what ``\\d``, ``\\w`` and ``\\s`` are (ASCII), in ``[[:alpha:]]``, ``\\pL``, ``\\z``, ``\\Q…\\E``, ``\\x{…}``, in
flags that hold from where they stand, and in what RE2 does not have: references, looking around, possessive repetition.
Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from burnx.errors import ModelError, UnsupportedError

_LAST = sys.maxunicode
_SETS = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\t\n\f\r "}
_NAMED = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\x00-\x7f",
    "blank": "\t ",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@[-`{-~",
    "space": "\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PLAIN = {"a": "\\a", "f": "\\f", "n": "\\n", "r": "\\r", "t": "\\t", "v": "\\v", "A": "\\A"}
_EDGES = {"z": "\\Z", "b": "(?a:\\b)", "B": "(?a:\\B)"}
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAME = re.compile(r"\(\?P?<(\w+)>")
_REPEAT = re.compile(r"[*+?]\??|\{\d+(?:,\d*)?\}\??")
_CLASS = re.compile(r"\[:(\^?)(\w+):\]")
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")
_HEX = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile(r"\\0[0-7]{0,2}|\\[1-7][0-7]{2}")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)


@dataclass(slots=True)
class _Group:
    """An open group: flags that were set inside of it, and whether lines have ends."""

    opened: list[str] = field(default_factory=list)
    is_multiline: bool = False


def as_python(pattern: str) -> str:
    """The pattern as Python writes it.

    Raises: ModelError if it is none of RE2; UnsupportedError for scripts and single bytes.
    """
    found: list[str] = []
    groups = [_Group()]
    place, repeats = 0, False
    while place < len(pattern):
        repeat = _REPEAT.match(pattern, place)
        if repeat is not None:
            if repeats or not found:
                raise _wrong(pattern, "nothing is repeated twice", repeat[0])
            found.append(repeat[0])
            place, repeats = repeat.end(), True
            continue
        repeats = False
        text, place = _next(pattern, place, groups)
        found.append(text)
    return "".join(found) + ")" * len(groups[-1].opened)


def _next(pattern: str, place: int, groups: list[_Group]) -> tuple[str, int]:
    """What stands at a place, and the place behind it."""
    char, here = pattern[place], groups[-1]
    if char == "\\":
        return _escaped(pattern, place, False)
    if char == "[":
        return _bracket(pattern, place)
    if char == "(":
        return _opening(pattern, place, groups)
    if char == ")":
        if len(groups) > 1:
            groups.pop()
        return ")" * (len(here.opened) + 1), place + 1
    if char == "|":
        return ")" * len(here.opened) + "|" + "".join(here.opened), place + 1
    if char == "$":
        return "$" if here.is_multiline else "\\Z", place + 1
    return char if char in "^." else re.escape(char), place + 1


def _opening(pattern: str, place: int, groups: list[_Group]) -> tuple[str, int]:
    here = groups[-1]
    flags, name = _FLAGS.match(pattern, place), _NAME.match(pattern, place)
    if flags is not None:
        on, off = (re.sub("U", "", each or "") for each in flags.group(1, 2))
        multiline = (here.is_multiline or "m" in on) and "m" not in off
        text = f"(?{on}{'-' + off if off else ''}:"
        if flags[3] == ":":
            groups.append(_Group([], multiline))
        else:
            here.opened.append(text)
            here.is_multiline = multiline
        return text, flags.end()
    if pattern.startswith("(?", place) and name is None:
        raise _wrong(pattern, "groups are plain, named or have flags", pattern[place : place + 3])
    groups.append(_Group([], here.is_multiline))
    return ("(", place + 1) if name is None else (f"(?P<{name[1]}>", name.end())


def _escaped(pattern: str, place: int, in_class: bool) -> tuple[str, int]:
    """An escape, inside of brackets as what stands there."""
    letter = pattern[place + 1 : place + 2]
    if quoted := _QUOTED.match(pattern, place):
        return "".join(map(re.escape, quoted[1])), quoted.end()
    if number := _HEX.match(pattern, place):
        return re.escape(chr(int(number[1] or number[2], 16))), number.end()
    if number := _OCTAL.match(pattern, place):
        return re.escape(chr(int(number[0][1:], 8))), number.end()
    if kind := _PROPERTY.match(pattern, place):
        members = _members(kind[3] or kind[4], (kind[1] == "P") != bool(kind[2]))
        return members if in_class else f"[{members}]", kind.end()
    if letter.lower() in _SETS and letter:
        members = _ranges(_SETS[letter.lower()])
        members = members if letter.islower() else _others(members)
        return members if in_class else f"[{members}]", place + 2
    known = _PLAIN if in_class else _PLAIN | _EDGES
    if letter in known and not (in_class and letter == "A"):
        return known[letter], place + 2
    if letter == "C":
        raise UnsupportedError(
            f"a regular expression matches letters, not bytes: \\C in {pattern!r}"
        )
    if not letter or letter.isalnum():
        raise _wrong(pattern, "RE2 has no such escape", f"\\{letter}")
    return re.escape(letter), place + 2


def _bracket(pattern: str, place: int) -> tuple[str, int]:
    """A set of letters in brackets."""
    is_negated = pattern.startswith("[^", place)
    found, start = "", place + 1 + is_negated
    place = start
    while place < len(pattern) and (pattern[place] != "]" or place == start):
        if named := _CLASS.match(pattern, place):
            if named[2] not in _NAMED:
                raise _wrong(pattern, f"a named set is one of {', '.join(_NAMED)}", named[0])
            members = _ranges(_NAMED[named[2]])
            found, place = found + (_others(members) if named[1] else members), named.end()
        elif pattern[place] == "\\":
            text, place = _escaped(pattern, place, True)
            found += text
        else:
            found += "-" if pattern[place] == "-" else re.escape(pattern[place])
            place += 1
    if place >= len(pattern):
        raise _wrong(pattern, "brackets are closed", "[")
    return f"[{'^' * is_negated}{found}]", place + 1


def _ranges(members: str) -> str:
    """A set as Python takes it in brackets: all but the dashes of ranges escaped."""
    return "".join(
        each if each == "-" and 0 < at < len(members) - 1 else re.escape(each)
        for at, each in enumerate(members)
    )


def _others(members: str) -> str:
    """All letters that a set of ASCII does not have."""
    inside = re.compile(f"[{members}]")
    outside = [code for code in range(128) if not inside.match(chr(code))]
    return f"{_spans(outside)}\x80-{chr(_LAST)}"


@lru_cache(maxsize=64)
def _members(category: str, is_negated: bool) -> str:
    """The letters of a category of Unicode, as L or Lu, or all others."""
    kinds = [unicodedata.category(chr(code)) for code in range(_LAST + 1)]
    if not any(kind.startswith(category) for kind in set(kinds)):
        raise UnsupportedError(f"a set of letters is a category of Unicode, not {category!r}")
    return _spans(
        [code for code, kind in enumerate(kinds) if kind.startswith(category) != is_negated]
    )


def _spans(codes: list[int]) -> str:
    ends = [-2, *codes, _LAST + 2]
    starts = [b for a, b in pairwise(ends) if b != a + 1][:-1]
    stops = [a for a, b in pairwise(ends) if b != a + 1][1:]
    pairs = zip(starts, stops, strict=True)
    return "".join(f"{re.escape(chr(a))}-{re.escape(chr(b))}" for a, b in pairs)


def _wrong(pattern: str, rule: str, found: str) -> ModelError:
    return ModelError(f"{rule}: {found!r} in the regular expression {pattern!r}")
