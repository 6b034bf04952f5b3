"""Values as Python text: the only way by which model text and values reach generated source.

``literal_text`` gives an expression, ``comment`` the words of a one-line comment, ``docstring_text`` the
inside of a triple-quoted docstring. None of them can be left by what a model file says. A character
stands as itself only if a reader sees it and it keeps its place: control, invisible, combining and
right-to-left characters, and all beyond the basic plane, are escaped.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from burnx.errors import UnsupportedError

# Letters by category, but drawn as nothing.
_INVISIBLE: Final = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})
_SHORT_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PRAGMA: Final = re.compile(
    r"(?i)\b(noqa|nosec|nopycln"
    r"|(fmt|yapf|isort|ruff|type|mypy|pyright|pylint|flake8|pragma|vim?|ex|region)\s*:"
    r"|coding\s*[:=])|-\*-"
)


def literal_text(value: object, *, float32: bool = False) -> str:
    """Python text whose value is ``value``: a number, text, None, an array, a container of these.

    With ``float32`` a float prints in the fewest digits that give the same float32 (0.1, not
    0.10000000149011612). Raises: UnsupportedError for a value of another type.
    """
    if isinstance(value, np.ndarray | np.generic):
        return _array_literal(value, float32)
    write = _WRITERS.get(type(value))
    if write is None:
        raise UnsupportedError(
            "generated source can hold numbers, text and containers of these: "
            f"found {type(value).__name__}"
        )
    return write(value, float32)


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


def _quote_for(doubles: int, singles: int) -> str:
    """The quote that needs fewer escapes, double where equal (the formatter's choice)."""
    return "'" if doubles > singles else '"'


def _text_literal(value: Any, float32: bool) -> str:
    quote = _quote_for(value.count('"'), value.count("'"))
    return quote + _shown(value).replace(quote, "\\" + quote) + quote


def _bytes_literal(value: Any, float32: bool) -> str:
    quote = _quote_for(value.count(b'"'), value.count(b"'"))
    body = "".join(
        chr(byte) if 32 <= byte < 127 and byte != 92 else _escape(chr(byte)) for byte in value
    )
    return "b" + quote + body.replace(quote, "\\" + quote) + quote


def _float_literal(value: Any, float32: bool) -> str:
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    if float32 and abs(value) <= 3.4028234663852886e38:
        short = _short_float32(value)
        if short is not None:
            return short
    return repr(value).replace("e+", "e")


def _short_float32(value: float) -> str | None:
    """The fewest digits that give the same float32, spelled as Python spells floats; None if not a
    float32.
    """
    single = np.float32(value)
    if float(single) != value:
        return None
    return repr(float(np.format_float_scientific(single, unique=True, trim="0"))).replace("e+", "e")


def _complex_literal(value: Any, float32: bool) -> str:
    real, imag = _float_literal(value.real, float32), _float_literal(value.imag, float32)
    return f"complex({real}, {imag})"


def _list_literal(value: Any, float32: bool) -> str:
    return f"[{', '.join(literal_text(item, float32=float32) for item in value)}]"


def _tuple_literal(value: Any, float32: bool) -> str:
    items = ", ".join(literal_text(item, float32=float32) for item in value)
    return f"({items},)" if len(value) == 1 else f"({items})"


def _dict_literal(value: Any, float32: bool) -> str:
    pairs = (
        f"{literal_text(key, float32=float32)}: {literal_text(item, float32=float32)}"
        for key, item in value.items()
    )
    return f"{{{', '.join(pairs)}}}"


def _array_literal(value: Any, float32: bool) -> str:
    """An array as nested lists; floats of fewer bits than a double print in their own shortest
    form.
    """
    single = value.dtype.kind in "fV" and value.dtype.itemsize <= 4
    plain = value.astype(np.float32) if value.dtype.kind == "V" else value
    return literal_text(plain.tolist(), float32=float32 or single)


_WRITERS: Final[dict[type, Callable[[Any, bool], str]]] = {
    type(None): lambda value, float32: "None",
    bool: lambda value, float32: repr(value),
    int: lambda value, float32: repr(value),
    float: _float_literal,
    complex: _complex_literal,
    str: _text_literal,
    bytes: _bytes_literal,
    list: _list_literal,
    tuple: _tuple_literal,
    dict: _dict_literal,
}
