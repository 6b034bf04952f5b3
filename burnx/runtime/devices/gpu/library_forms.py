"""The forms in which a library carries out a kernel: all of it, or its sums, with a kernel of burnx for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from burnx.gpu.code import Form
from burnx.gpu.emitter import choose
from burnx.gpu.forms import fit_threads
from burnx.gpu.frame import uses_worker
from burnx.gpu.ranges import needs_wide
from burnx.gpu.tiles_product import product_of
from burnx.kernels.ir import Kernel
from burnx.runtime.devices.gpu import library_products
from burnx.runtime.devices.gpu.driver import Driver
from burnx.runtime.devices.gpu.library import LIBRARY, Asked
from burnx.runtime.devices.gpu.library_attentions import count_products, find_attention
from burnx.runtime.devices.gpu.library_convolution import Convolution
from burnx.runtime.devices.gpu.library_convolutions import parted_convolution, whole_convolution
from burnx.runtime.devices.gpu.library_products import parted_gemm, rest_of, whole_gemm

Sizes = Mapping[str, int]
WAYS = 3  # of a library that are worth a try


@dataclass(frozen=True, slots=True)
class _Words:
    """How a library is asked: for all that a kernel does, and for its sums."""

    whole: Callable[[Kernel, Sizes], Asked | None]
    parted: Callable[[Kernel, Sizes], Asked | None]


_GEMM = _Words(whole_gemm, parted_gemm)
_CONVOLUTION = _Words(whole_convolution, parted_convolution)


def library_forms(
    driver: Driver, kernel: Kernel, sizes: Sizes, guards: tuple[bool, ...], tame: bool = False
) -> list[Form]:
    """The forms of a kernel as a library's work; none where there is no library, or it would mean something else.

    ``tame``: as ``library_attentions.is_tame`` says it.
    """
    found = product_of(kernel)
    if not any(driver.libraries.values()) or guards:
        return []
    if found is None or uses_worker(kernel):
        return _attention_forms(driver, kernel, sizes, tame)
    if not library_products.is_large(found, sizes):
        return []
    words, name = _words_of(driver, kernel, sizes)
    if not name:
        return []
    if words.whole(kernel, sizes) is not None:
        return [Form(LIBRARY, 0, (way,), name) for way in range(WAYS)]
    if words.parted(kernel, sizes) is None:
        return []
    left = rest_of(kernel)
    form = choose(left, driver.limits, sizes)
    if form.kind != "threads":
        form = replace(fit_threads(left, driver.limits, sizes)[-1], wide=needs_wide(left, sizes))
    own = replace(form, kind=LIBRARY, matrices=name)
    return [replace(own, tile=(way, *form.tile)) for way in range(WAYS)]


def _attention_forms(driver: Driver, kernel: Kernel, sizes: Sizes, tame: bool) -> list[Form]:
    name = driver.libraries.get("attentions", "")
    if not name or count_products(kernel, sizes) < library_products.LEAST:
        return []
    asked = find_attention(kernel, sizes)
    if asked is None or (asked.bias is not None and not tame):
        return []
    return [Form(LIBRARY, 0, (way,), name) for way in range(WAYS)]


def _words_of(driver: Driver, kernel: Kernel, sizes: Sizes) -> tuple[_Words, str]:
    """How a kernel is asked for, and from whom: what is a product is no convolution."""
    if parted_gemm(kernel, sizes) is not None or whole_gemm(kernel, sizes) is not None:
        return _GEMM, driver.libraries.get("products", "")
    return _CONVOLUTION, driver.libraries.get("convolutions", "")


def rest_form(form: Form) -> Form | None:
    """The form of the kernel of what a library leaves to do; None where it leaves nothing."""
    if not form.group:
        return None
    return replace(form, kind="threads", tile=form.tile[1:], matrices="")


def asked_of(driver: Driver, kernel: Kernel, sizes: Sizes, form: Form) -> Asked:
    """What a form of ``library_forms`` asks for."""
    attention = find_attention(kernel, sizes)
    if attention is not None:
        return replace(attention, rank=form.tile[0])
    words, _ = _words_of(driver, kernel, sizes)
    found = words.parted(kernel, sizes) if form.group else words.whole(kernel, sizes)
    assert found is not None
    if isinstance(found, Convolution):
        return replace(found, rank=form.tile[0], exact="tfloat32" not in driver.limits.matrices)
    return replace(found, rank=form.tile[0])
