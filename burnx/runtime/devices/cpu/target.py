"""Which processor is compiled for: this machine's, or the one that ``BURNX_CPU`` names."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from burnx.errors import UsageError
from burnx.llvm import target as descriptions
from burnx.llvm.target import Target, describe
from burnx.runtime.devices.cpu.object_files import find_object_files, list_versions
from burnx.runtime.devices.cpu.objects import no_fork

# cpu -> features that matter here, for targets that are not this machine
_X86 = {"haswell": "avx2,fma,f16c", "skylake-avx512": "avx512f,avx512vl,avx512bw,avx512dq,fma,f16c"}


# how bytes are multiplied -> the processors that know it, by how they do it
_KNOWN_BESIDE = {"vnni": ("vnni", "amx"), "amx": ("amx",), "dot": ("dot",)}


@lru_cache(maxsize=8)
def find_target(name: str | None = None) -> Target:
    """The target of ``BURNX_CPU``, or this machine's processor.

    Raises: UsageError if LLVM does not know the processor, or this one lacks what that one has.
    """
    wanted = name or os.environ.get("BURNX_CPU") or ""
    host = _find_host()
    if not wanted or wanted == "native":
        return host
    target = describe_named(_import_llvm().get_default_triple(), wanted)
    lacks_dots = target.int8 in _KNOWN_BESIDE and host.int8 not in _KNOWN_BESIDE[target.int8]
    if target.vector_bytes > host.vector_bytes or lacks_dots:
        raise UsageError(f"BURNX_CPU={wanted}: code for it does not run on this {host.cpu}")
    return target


def _find_host() -> Target:
    """This machine's processor; without its matrix unit where the system does not let this process use it."""
    found = _describe_host()
    if "amx" in (found.int8, found.bfloat16) and not _may_use_squares():
        return replace(found, int8="vnni" if found.int8 == "amx" else found.int8, bfloat16="")
    return found


def _may_use_squares() -> bool:
    """Ask the system for the registers of the matrix unit, for all threads there will be.

    Source: Linux, Documentation/arch/x86/xstate.rst.
    """
    if not sys.platform.startswith("linux"):
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return bool(ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0)


def _describe_host() -> Target:
    """This machine's processor, as LLVM described it to an earlier process if it is still the same."""
    files, key = find_object_files(), _processor_text()
    described = Path(descriptions.__file__).read_bytes()
    entry = "host-" + sha256(repr((key, list_versions(), described)).encode()).hexdigest()
    content = files.read_entry(entry) if files is not None and key else None
    with suppress(ValueError, TypeError, RecursionError):
        return Target(**json.loads(content or b""))
    found = _ask_llvm()
    if files is not None and key:
        files.write_entry(entry, json.dumps(asdict(found)).encode())
    return found


def _ask_llvm() -> Target:
    binding = _import_llvm()
    present = binding.get_host_cpu_features()
    features = {feature for feature, there in present.items() if there}
    triple = binding.get_default_triple()
    return describe(triple, binding.get_host_cpu_name(), features, present.flatten())


def _import_llvm() -> Any:
    with no_fork():
        from llvmlite import binding
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


# what tells processors of x86 apart; other systems do not say so much in so few words
_TOLD_APART = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


def _processor_text() -> str:
    """What Linux says of the first processor; empty where it does not."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(8192).split("\n\n")[0].splitlines()
    except OSError:
        return ""
    told = [line for line in lines if line.partition("\t")[0].partition(":")[0] in _TOLD_APART]
    return "\n".join(told) if len(told) == len(_TOLD_APART) else ""


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
    if "sapphire" in cpu:
        features |= {"amx-tile", "amx-int8", "amx-bf16"}
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
