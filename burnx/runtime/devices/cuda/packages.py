"""Which Python packages of a library are here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def find_versions(needed: str, *beside: str) -> dict[str, str]:
    """The versions of packages by name; none if the one that is needed is not here."""
    found = {}
    for name in (needed, *beside):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            if name == needed:
                return {}
    return found
