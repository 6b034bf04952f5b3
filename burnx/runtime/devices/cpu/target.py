"""What is compiled for: a processor's name, features and widths."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from llvmlite import binding

from burnx.errors import UsageError


@dataclass(frozen=True, slots=True)
class Target:
    """``vector_bytes`` is the width of a register, ``registers`` how many vector registers there are.

    ``int8`` says how bytes are multiplied: "vnni" (4 bytes at once with 32-bit sums), "dot" (the same on ARM),
    "madd" (pairs of 16-bit numbers, x86 without VNNI) or "".
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    int8: str

    @property
    def lanes(self) -> int:
        """float32 elements in a vector register."""
        return self.vector_bytes // 4


# cpu -> features that matter here, for targets that are not this machine
_X86 = {"haswell": "avx2,fma,f16c", "skylake-avx512": "avx512f,avx512vl,avx512bw,avx512dq,fma,f16c"}


@lru_cache(maxsize=8)
def find_target(name: str | None = None) -> Target:
    """The target of ``BURNX_CPU``, or this machine's processor.

    Raises: UsageError if LLVM does not know the processor.
    """
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    triple = binding.get_default_triple()
    wanted = name or os.environ.get("BURNX_CPU") or ""
    if not wanted or wanted == "native":
        present = binding.get_host_cpu_features()
        features = {feature for feature, there in present.items() if there}
        return describe(triple, binding.get_host_cpu_name(), features, present.flatten())
    return describe_named(triple, wanted)


def describe_named(triple: str, cpu: str) -> Target:
    """The target of a processor known by its name in LLVM, without its being here."""
    if cpu not in _known_cpus(triple):
        raise UsageError(f"BURNX_CPU names a processor that LLVM knows; found {cpu!r}")
    if not triple.startswith(("x86_64", "amd64")):
        return describe(triple, cpu, set(), "")
    wide = any(part in cpu for part in ("avx512", "sapphire", "icelake", "znver4", "znver5"))
    features = set(_X86["skylake-avx512" if wide else "haswell"].split(","))
    if any(part in cpu for part in ("icelake", "sapphire", "znver4", "znver5", "cascadelake")):
        features.add("avx512vnni")
    return describe(triple, cpu, features, "")


def _known_cpus(triple: str) -> tuple[str, ...]:
    if triple.startswith(("x86_64", "amd64")):
        return (
            *_X86,
            "znver2",
            "znver3",
            "znver4",
            "znver5",
            "icelake-server",
            "sapphirerapids",
            "cascadelake",
            "broadwell",
            "skylake",
            "x86-64-v3",
            "x86-64-v4",
        )
    return ("generic", "neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1", "cortex-a72")


def describe(triple: str, cpu: str, features: set[str], flags: str) -> Target:
    """The target with widths worked out from the features."""
    if not triple.startswith(("x86_64", "amd64")):
        return Target(triple, cpu, flags, 16, 32, "")
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features:
        return Target(triple, cpu, flags, 64, 32, "vnni" if "avx512vnni" in features else "madd")
    if {"avx2", "fma"} <= features:
        return Target(triple, cpu, flags, 32, 16, "madd")
    return Target(triple, cpu, flags, 16, 16, "madd")
