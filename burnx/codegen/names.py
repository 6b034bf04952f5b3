"""Legal, injective and stable Python names for whatever a model calls its things.

``Names`` is a scope: ``take`` gives each text a name of its own, the same one when it is asked
again. Names are ASCII (Python folds other letters together) and never a keyword; what else is
reserved belongs to the scope: local variables use ``LOCAL_RESERVED``, attributes the names of the
class they are set on.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Sequence
from typing import Final

MODULE_NAMES: Final = frozenset(
    {
        "burnx",
        "nn",
        "ops",
        "cond",
        "loop",
        "scan",
        "script",
        "sequence_map",
        "stack",
        "Tensor",
        "Input",
        "Output",
        "Model",
        "WEIGHTS",
        "self",
    }
)
"""What every generated module has at its top, and ``self``."""
BUILTINS: Final = frozenset(vars(builtins))
"""A local of such a name would hide what every reader knows by it."""
UNCLEAR: Final = frozenset({"l", "O", "I", "_", "match", "case"})
"""Names that a linter or a reader trips over."""
LOCAL_RESERVED: Final = MODULE_NAMES | BUILTINS | UNCLEAR
LONGEST: Final = 60

_PORT: Final = re.compile(r":\d+$")
_DOMAIN: Final = re.compile(r"^([A-Za-z_]\w*::)+")
_NOT_WORD: Final = re.compile(r"[^0-9A-Za-z_]+")
_COUNTER: Final = re.compile(r"_\d+$")


def parameter_names(inputs: Sequence[str], names: Names | None = None) -> list[str]:
    """The parameters of ``forward`` for inputs of these names; ``input``, which Python has, is ``x``.

    ``names`` is the scope that they are taken in, a new one if there is none.
    """
    scope = Names(LOCAL_RESERVED) if names is None else names
    return [
        scope.fresh("x")
        if each == "input" and "x" not in inputs
        else scope.take(each, f"input_{place}")
        for place, each in enumerate(inputs)
    ]


class Names:
    """One scope of names; a name taken in a parent is not given again in its children."""

    __slots__ = ("_by_text", "_parent", "_taken")

    def __init__(
        self, reserved: Iterable[str] = LOCAL_RESERVED, parent: Names | None = None
    ) -> None:
        self._parent = parent
        self._by_text: dict[str, str] = {}
        self._taken = set(reserved)

    def take(self, wanted: str, fallback: str = "x") -> str:
        """The name for ``wanted``, made of its text, or of ``fallback`` if it has no letters.

        Asked again for the same text, it gives the same name; another text never gets that name.
        """
        known = self._by_text.get(wanted)
        if known is None:
            known = self.fresh(identifier(wanted) or identifier(fallback) or "x")
            self._by_text[wanted] = known
        return known

    def fresh(self, base: str) -> str:
        """``base``, or ``base_2``, ``base_3``… where that is taken, ``base_`` if by Python; it is taken from now on."""
        stem = identifier(base) or "x"
        name, number = f"{stem}_" if stem in BUILTINS and self.is_taken(stem) else stem, 1
        while self.is_taken(name):
            number += 1
            name = f"{stem.rstrip('_')}_{number}"
        self._taken.add(name)
        return name

    def is_taken(self, name: str) -> bool:
        """True if ``name`` is a keyword, or taken or reserved here or in a parent."""
        scope: Names | None = self
        while scope is not None:
            if name in scope._taken:
                return True
            scope = scope._parent
        return keyword.iskeyword(name)

    def originals(self) -> dict[str, str]:
        """Given name to the text it was made of."""
        return {name: text for text, name in self._by_text.items()}


def identifier(text: str) -> str:
    """An identifier as close to ``text`` as Python allows, or "" if there is too little in it.

    A legal name stays as it is. An output number (``:0``) goes, an exporter's domain
    (``onnx::Flatten_0``) goes with its counter.
    """
    if text.isascii() and text.isidentifier() and not text.startswith("__"):
        name = text[:LONGEST]
    else:
        name = _made_identifier(text)
    if not any(char.isalpha() for char in name):
        return ""
    return f"{name}_" if keyword.iskeyword(name) else name


def _made_identifier(text: str) -> str:
    if _is_structure(text):
        return ""
    bare = _PORT.sub("", text.strip())
    exported = _DOMAIN.match(bare)
    if exported:
        bare = _COUNTER.sub("", bare[exported.end() :]).lower()
    name = re.sub(r"__+", "_", _NOT_WORD.sub("_", bare)).strip("_")[:LONGEST].rstrip("_")
    return f"n{name}" if name[:1].isdigit() and any(map(str.isalpha, name)) else name


def _is_structure(text: str) -> bool:
    """True for text that is data rather than a name, such as ``{"a": 1}``: brackets or quotes, or
    mostly marks.
    """
    marks = sum(not (char.isalnum() or char in "_./:-") for char in text)
    return text.lstrip()[:1] in tuple("{[(\"'") or marks * 2 > len(text)


def class_name(text: str) -> str:
    """CamelCase of ``text``; capitals stay: ``bert_self-attention`` is ``BertSelfAttention``; "" if
    it has no letter.
    """
    words = [word[:1].upper() + word[1:] for word in _NOT_WORD.sub("_", text).split("_")]
    name = "".join(words)[:LONGEST].lstrip("0123456789")
    name = name[:1].upper() + name[1:]
    return f"{name}_" if keyword.iskeyword(name) else name
