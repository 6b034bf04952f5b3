"""Which processor is compiled for: this machine's, or the one that ``BURNX_CPU`` names."""

from __future__ import annotations

import os
from functools import lru_cache

from llvmlite import binding

from burnx.errors import UsageError
from burnx.llvm.target import Target, describe

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
