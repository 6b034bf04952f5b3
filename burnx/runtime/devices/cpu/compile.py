"""LLVM text to object code, and, for tests and small tools, object code to an address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llvmlite import binding

from burnx.errors import DeviceError
from burnx.llvm.target import Target

# Loops come in vectors, unrolled, and with what does not change outside of them.  LLVM's own pipelines (levels 1 to 3)
# take ten to twenty times as long as these passes and leave code of the same speed.  Its instcombine must stay out:
# it makes one of two selects that clip at the same number, and loses what they do with NaN.
_PASSES = ("simplify_cfg", "loop_rotate", "simplify_cfg")


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
    """The object code of a module.

    Raises: DeviceError if the text is not valid.
    """
    machine = _machine(target)
    try:
        module = binding.parse_assembly(text)
    except RuntimeError as error:
        raise DeviceError(f"kernels are written as valid LLVM text; LLVM says: {error}") from error
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options())
    manager = binding.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(manager, f"add_{name}_pass")()
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
