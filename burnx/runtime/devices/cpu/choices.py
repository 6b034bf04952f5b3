"""What there is to choose from when kernels of the cpu are written, and what races have found best.

Two things: how wide the panels of a product are, which says what its register tiles look like, and whether a convolution
goes through Winograd's transforms, with which tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from burnx.dtype import DType, dtype_name
from burnx.kernels.winograd import SCHEMES, Scheme, choose_scheme, fits
from burnx.llvm.contractions.plan import choose_packing, offer_packings
from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.results import results_of

Key = tuple[object, ...]
PLAIN = "plain"  # what no scheme of Winograd's is called


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices for a number of threads; ``forced`` are those of a candidate in a race.

    ``asked`` notes what was chosen from: key -> the names of all candidates, the one without a race first.
    """

    target: Target
    threads: int
    forced: Mapping[Key, str] = field(default_factory=dict)
    asked: dict[Key, list[str]] = field(default_factory=dict)

    def packing(self, left: DType, right: DType, total: DType, columns: int) -> str:
        """The packing of a right matrix of so many columns."""
        given = (left, right, total, columns)
        names = [dtype_name(each) for each in (left, right, total)]
        offered = offer_packings(self.target, *given)
        first = choose_packing(self.target, *given)
        offered = [first, *(each for each in offered if each != first)]
        return self._choose(("packing", *names, columns), offered)

    def scheme(self, height: int, width: int, channels: int, outputs: int) -> Scheme | None:
        """The scheme of a convolution that may go through Winograd's transforms."""
        first = choose_scheme(height, width, channels, outputs)
        named = {name: each for name, each in SCHEMES.items() if fits(each, height, width)}
        names = [*(n for n, each in named.items() if each is first), *named, PLAIN]
        if first is None:
            names = [PLAIN, *named]
        chosen = self._choose(
            ("winograd", height, width, channels, outputs), list(dict.fromkeys(names))
        )
        return named.get(chosen)

    def _choose(self, key: Key, offered: list[str]) -> str:
        self.asked[key] = offered
        wanted = self.forced.get(key)
        if wanted is None:
            found = results_of(self.target).find(*key, self.threads)
            wanted = found.get("choice") if isinstance(found, dict) else None
        return wanted if wanted in offered else offered[0]
