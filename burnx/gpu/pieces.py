"""Functions that stand before all kernels of a program, each by its name, and those that it needs in turn."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from burnx.gpu.dialects import Dialect


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of a function; ``needs`` are the names of those that it calls."""

    text: str
    needs: tuple[str, ...] = ()


Make = Callable[[Dialect, str], Piece | None]
MAKERS: list[Make] = []  # each knows the pieces of some names
DOUBLES = "f64"  # what is needed wherever the text speaks of float64


def maker(make: Make) -> Make:
    """Register who makes pieces; it gives None for names that it does not know."""
    MAKERS.append(make)
    return make


def prelude(dialect: Dialect, needs: Collection[str]) -> str:
    """The header, and the functions of these names with all that they need, each once."""
    texts: dict[str, str] = {}
    for name in sorted(set(needs) - {DOUBLES}):
        _add(dialect, name, texts)
    doubles = [dialect.doubles] if DOUBLES in needs else []
    return "\n".join([dialect.header, *doubles, *texts.values()])


def _add(dialect: Dialect, name: str, texts: dict[str, str]) -> None:
    if name in texts:
        return
    piece = find(dialect, name)
    for each in piece.needs:
        _add(dialect, each, texts)
    texts[name] = piece.text


def find(dialect: Dialect, name: str) -> Piece:
    from burnx.gpu import (  # noqa: F401  (they register makers)
        functions,
        indices,
        numbers,
        reductions,
        tiles_units,
        tiles_wgmma_units,
    )

    for make in MAKERS:
        piece = make(dialect, name)
        if piece is not None:
            return piece
    raise KeyError(name)
