"""LLVM text to object code, and, for tests and small tools, object code to an address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llvmlite import binding

from burnx.runtime.devices.cpu.target import Target

SPEED = 1  # of LLVM's levels: loops come unrolled and in vectors already, so that 2 and 3 find no more to do


@lru_cache(maxsize=4)
def _machine(target: Target) -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    if target.triple != binding.get_default_triple():
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    found = binding.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="default"
    )


def compile_object(text: str, target: Target) -> bytes:
    """The object code of a module."""
    machine = _machine(target)
    module = binding.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=SPEED)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    manager.run(module, builder)
    return bytes(machine.emit_object(module))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Code in memory, which stays there as long as this does."""

    address: int
    library: Any
    compiler: Any


def load_object(code: bytes, target: Target, name: str = "kernel") -> Loaded:
    """Link object code into this process."""
    compiler = binding.create_lljit_compiler(_machine(target), use_jit_link=False)
    builder = binding.JITLibraryBuilder()
    library = (
        builder.add_object_img(code).add_current_process().export_symbol(name).link(compiler, name)
    )
    return Loaded(library[name], library, compiler)
