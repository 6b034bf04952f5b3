"""Values as Python: the only way by which model text and values reach generated source.

``constant`` gives an expression, ``comment`` the words of a one-line comment, ``docstring_text`` the
inside of a triple-quoted docstring. None of them can be left by what a model file says. A character
stands as itself only if a reader sees it and it keeps its place: control, invisible, combining and
right-to-left characters, and all beyond the basic plane, are escaped.
"""

from __future__ import annotations

import ast
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from burnx.errors import UnsupportedError

# Letters by category, but drawn as nothing.
_INVISIBLE: Final = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})
_SHORT_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LARGEST: Final = float(np.finfo(np.float32).max)
_PRAGMA: Final = re.compile(
    r"(?i)\b(noqa|nosec|nopycln"
    r"|(fmt|yapf|isort|ruff|type|mypy|pyright|pylint|flake8|pragma|vim?|ex|region)\s*:"
    r"|coding\s*[:=])|-\*-"
)


def constant(value: Any, *, float32: bool = False) -> ast.expr:
    """An expression whose value is ``value``: a number, text, None, an array, a container of these.

    With ``float32`` a float has the fewest digits that give the same float32 (0.1, not 0.10000000149011612).
    Raises: UnsupportedError for a value of another type.
    """
    if isinstance(value, np.ndarray | np.generic):
        single = value.dtype.kind in "fV" and value.dtype.itemsize <= 4
        plain = value.astype(np.float32) if value.dtype.kind == "V" else value
        return constant(plain.tolist(), float32=float32 or single)
    write = _WRITERS.get(type(value))
    if write is None:
        raise UnsupportedError(
            "generated source can hold numbers, text and containers of these: "
            f"found {type(value).__name__}"
        )
    return write(value, float32)


def as_seen(code: str) -> str:
    """Source with what is not plain escaped; it stands in no place but text literals."""
    if code.isascii():
        return code
    return "".join(char if is_plain(char) else _escape(char) for char in code)


def comment(text: str, width: int) -> str:
    """The words of a one-line comment that shows ``text`` in ``width`` characters; may be empty.

    Words that tools obey (noqa, fmt: off, type: ignore, coding:) are quoted and escaped.
    """
    words = " ".join(_shown(text, keep="\n\r\t\v\f").split())
    if _PRAGMA.search(words):
        words = words.replace("#", "\\x23").replace(":", "\\x3a").replace("=", "\\x3d")
        words = f'"{words.replace("-*-", "")}"'
    words = words.lstrip("!:# ") if words[:1] in "!:#" else words
    if len(words) <= width:
        return words
    return words[: width - 3].rstrip() + "..." if width > 3 else ""


def docstring_text(text: str) -> str:
    """``text`` made safe inside a docstring's triple quotes, as lines without trailing or common
    leading space.
    """
    lines = [_shown(line.expandtabs(4)).rstrip() for line in re.split(r"\r\n|[\n\r\v\f]", text)]
    joined = "\n".join(_dedented(lines)).strip().replace('"""', '\\"\\"\\"')
    if joined.startswith('"'):
        joined = "\\" + joined
    return joined[:-1] + '\\"' if joined.endswith('"') and joined[-2:] != '\\"' else joined


def is_plain(char: str) -> bool:
    """True for a character that is seen and keeps its place, so that it may stand in source as
    itself.
    """
    return char.isascii() and char.isprintable() or _is_plain_wide(char)


@lru_cache(maxsize=4096)
def _is_plain_wide(char: str) -> bool:
    return (
        char.isprintable()
        and ord(char) <= 0xFFFF
        and char not in _INVISIBLE
        and not 0x1160 <= ord(char) <= 0x11FF
        and not 0xD7B0 <= ord(char) <= 0xD7FF
        and unicodedata.category(char)[0] in "LNPS"
        and unicodedata.category(char) != "Lm"
        and unicodedata.bidirectional(char) not in _RIGHT_TO_LEFT
    )


def _escape(char: str) -> str:
    code = ord(char)
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _shown(text: str, keep: str = "") -> str:
    """``text`` with a backslash doubled and what is not plain escaped, except the characters of
    ``keep``.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char if char in keep or is_plain(char) and char != "\\" else _escape(char) for char in text
    )


def _dedented(lines: list[str]) -> list[str]:
    rest = [len(line) - len(line.lstrip()) for line in lines[1:] if line]
    common = min(rest, default=0)
    return [lines[0].lstrip(), *(line[common:] for line in lines[1:])]


def _float(value: float, float32: bool) -> ast.expr:
    if not math.isfinite(value):
        return ast.Call(ast.Name("float", ast.Load()), [ast.Constant(repr(value))], [])
    return ast.Constant(_short_float32(value) if float32 and abs(value) <= _LARGEST else value)


def _short_float32(value: float) -> float:
    """The float of the fewest digits that is the same float32; ``value`` if it is not a float32."""
    single = np.float32(value)
    if float(single) != value:
        return value
    return float(np.format_float_scientific(single, unique=True, trim="0"))


def _complex(value: complex, float32: bool) -> ast.expr:
    parts = [_float(value.real, float32), _float(value.imag, float32)]
    return ast.Call(ast.Name("complex", ast.Load()), parts, [])


def _items(values: Iterable[Any], float32: bool) -> list[ast.expr]:
    return [constant(each, float32=float32) for each in values]


_WRITERS: Final[dict[type, Callable[[Any, bool], ast.expr]]] = {
    **dict.fromkeys(
        (type(None), bool, int, str, bytes), lambda value, float32: ast.Constant(value)
    ),
    float: _float,
    complex: _complex,
    list: lambda value, float32: ast.List(_items(value, float32), ast.Load()),
    tuple: lambda value, float32: ast.Tuple(_items(value, float32), ast.Load()),
    dict: lambda value, float32: ast.Dict(
        list(_items(value, False)), _items(value.values(), float32)
    ),
}
