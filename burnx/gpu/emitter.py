"""From kernels to Code.  Start reading here: a form is chosen, and its kind's function writes the text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from burnx.gpu import attention, forms, pieces, tiles
from burnx.gpu.code import Code, Form, Limits
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import Unsupported
from burnx.gpu.group import write_group
from burnx.gpu.ranges import needs_wide
from burnx.gpu.threads import write_threads
from burnx.kernels.ir import Kernel

__all__ = ["Unsupported", "candidates", "choose", "prelude", "write"]

Sizes = Mapping[str, int]
# the forms of each kind that fit a kernel, the best first; kinds in the order in which they are asked
FITS: dict[str, Callable[[Kernel, Limits, Sizes], list[Form]]] = {
    "tiles": tiles.fit_tiles,
    "attention": attention.fit_attention,
    "group": forms.fit_group,
    "threads": forms.fit_threads,
}
WRITE: dict[str, Callable[[Kernel, Dialect, Form], Code]] = {
    "tiles": tiles.write_tiles,
    "attention": attention.write_attention,
    "group": write_group,
    "threads": write_threads,
}


def choose(kernel: Kernel, limits: Limits, sizes: Sizes, guards: tuple[bool, ...] = ()) -> Form:
    """A form for a kernel on a device.  Other sizes of the same class give an equal one."""
    return candidates(kernel, limits, sizes, guards)[0]


def candidates(
    kernel: Kernel, limits: Limits, sizes: Sizes, guards: tuple[bool, ...] = ()
) -> list[Form]:
    """The forms that are worth a try, the one of ``choose`` first."""
    wide = needs_wide(kernel, sizes)
    found = [form for fits in FITS.values() for form in fits(kernel, limits, sizes)]
    return [replace(form, wide=wide, guards=guards) for form in dict.fromkeys(found)]


def write(kernel: Kernel, dialect: Dialect, form: Form) -> Code:
    """The kernel's function in a dialect.

    Raises: Unsupported if the kernel holds dtypes or functions that there is no text for.
    """
    return WRITE[form.kind](kernel, dialect, form)


def prelude(dialect: Dialect, needs: Collection[str]) -> str:
    """The text that stands before all functions of a program, given the needs of them all."""
    return pieces.prelude(dialect, needs)
