"""What is compiled for: a processor's name, features and widths."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """``vector_bytes`` is the width of a register, ``registers`` how many vector registers there are.

    ``int8`` says how bytes are multiplied: "amx" (squares of them, and as with "vnni"), "vnni" (4 bytes at once with 32-bit sums), "dot" (the same on ARM),
    "madd" (pairs of 16-bit numbers, x86 without VNNI) or "".  ``bfloat16`` is "amx" where squares of it are multiplied.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    int8: str
    bfloat16: str = ""

    @property
    def lanes(self) -> int:
        """float32 elements in a vector register."""
        return self.vector_bytes // 4

    @property
    def multiplies_bytes(self) -> bool:
        """Whether products of bytes are worth being kept as such."""
        return self.int8 in ("amx", "vnni", "madd")


def describe(triple: str, cpu: str, features: set[str], flags: str) -> Target:
    """The target with widths worked out from the features."""
    if not triple.startswith(("x86_64", "amd64")):
        return Target(triple, cpu, flags, 16, 32, "")
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features:
        bfloat16 = "amx" if {"amx-tile", "amx-bf16"} <= features else ""
        return Target(triple, cpu, flags, 64, 32, _find_int8(features), bfloat16)
    if {"avx2", "fma"} <= features:
        return Target(triple, cpu, flags, 32, 16, "madd")
    return Target(triple, cpu, flags, 16, 16, "madd")


def _find_int8(features: set[str]) -> str:
    if "avx512vnni" not in features:
        return "madd"
    return "amx" if {"amx-tile", "amx-int8"} <= features else "vnni"
