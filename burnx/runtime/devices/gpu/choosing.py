"""Which form a kernel takes on a device: what a race has found, else what the emitter would choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from burnx.gpu.code import Form
from burnx.gpu.emitter import candidates, choose
from burnx.kernels.ir import Kernel
from burnx.runtime.devices.gpu.driver import Driver
from burnx.runtime.devices.gpu.results import results_of
from burnx.runtime.tuning.store import shape_class

Sizes = Mapping[str, int]
Guards = tuple[bool, ...]


def result_key(text: str, sizes: Sizes, guards: Guards, tame: bool = False) -> list[Any]:
    """What a result is found by: the kernel, the class of its sizes, and the guards, which are part of its code.

    ``tame`` (``library_attentions.is_tame``) is part of it because a library is asked for more where it is so.
    """
    key = [sha256(text.encode()).hexdigest(), shape_class(sizes), list(guards)]
    return [*key, "tame"] if tame else key


def pick_form(
    driver: Driver, kernel: Kernel, text: str, sizes: Sizes, guards: Guards, tame: bool = False
) -> Form:
    """The form for a kernel with these sizes."""
    found = results_of(driver).find(*result_key(text, sizes, guards, tame))
    if found is None:
        return choose(kernel, driver.limits, sizes, guards)
    offered = list_forms(driver, kernel, sizes, guards, tame)
    form = find_form(found, offered) or offered[0]
    other_sizes = isinstance(found, dict) and found.get("sizes") != dict(sizes)
    if other_sizes and form.matrices == driver.libraries.get("convolutions"):
        return offered[0]  # what a library does with other sizes nobody has compared
    return form


def list_forms(
    driver: Driver, kernel: Kernel, sizes: Sizes, guards: Guards, tame: bool = False
) -> list[Form]:
    """All forms that are worth a try: burnx's own, the first of them the one without a race, then a library's."""
    own = candidates(kernel, driver.limits, sizes, guards)
    if not any(driver.libraries.values()):
        return own
    from burnx.runtime.devices.gpu.library_forms import library_forms

    return [*own, *library_forms(driver, kernel, sizes, guards, tame)]


def find_form(found: Any, offered: Sequence[Form]) -> Form | None:
    """The form that a result names, if it is among what is offered; sizes that are numbers in its text may differ."""
    wanted = found.get("form") if isinstance(found, dict) else None
    return next((each for each in offered if describe_form(each) == wanted), None)


def describe_form(form: Form) -> dict[str, Any]:
    """A form as JSON can hold it, without what it takes from the sizes."""
    said = asdict(form)
    for name in ("fixed", "wide", "guards"):
        said.pop(name)
    return {name: list(v) if isinstance(v, tuple) else v for name, v in said.items()}
