"""What a CUDA device's work may be left to: the libraries, and which of their packages are here."""

from __future__ import annotations

from collections.abc import Mapping

from burnx.runtime.devices.cuda import cublas, cudnn

_NAMES = {"products": cublas.NAME, "convolutions": cudnn.NAME, "attentions": cudnn.NAME}


def find_packages() -> dict[str, dict[str, str]]:
    """The versions of the packages of each work's library, by name; none where it is not here."""
    found = cudnn.find_library()
    return {"products": cublas.find_library(), "convolutions": found, "attentions": found}


def name_libraries(packages: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The libraries that are here, by the work that they do."""
    return {work: name for work, name in _NAMES.items() if packages.get(work)}
