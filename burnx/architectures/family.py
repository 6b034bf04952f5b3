"""What is known of families of models: one file each, data before the template."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from re import search
from typing import Any, Final

from burnx.errors import BurnxError

FENCE: Final = "+++\n"
END: Final = ".py.j2"
_MERGED: Final = ("config", "optional", "only", "heads", "renames", "tables", "aliases")


@dataclass(frozen=True, slots=True)
class Family:
    """A family's data.

    ``config``: what its template reads of config.json, with the value where that says nothing; ``optional``: the same
    without a value, by type; ``only``: the values it can write; ``activations``: keys that name an activation.
    ``heads``: class name in config.json -> head, where it is not what follows ``For``.
    ``aliases``: key -> old value -> what it means.  ``tables`` are for the template alone.
    ``prefixes`` and ``renames`` take the names of files to those of the source; ``ignored`` names hold no weights.
    ``pattern``: names that tell a family without config.json, all of which must be there, and none of ``absent``.
    """

    name: str
    title: str
    template: str = ""
    model_types: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    activations: tuple[str, ...] = ()
    pattern: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    rope: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, list[Any]] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def family_text(name: str) -> tuple[str, str]:
    """The data and the template of a family's file."""
    text = files("burnx.architectures").joinpath("families", name + END).read_text("utf-8")
    if not text.startswith(FENCE):
        return "", text
    _, data, template = text.split(FENCE, 2)
    return data, template


@cache
def families() -> tuple[Family, ...]:
    """All families, by name."""
    folder = files("burnx.architectures").joinpath("families")
    names = sorted(item.name.removesuffix(END) for item in folder.iterdir())
    data = {name: tomllib.loads(family_text(name)[0]) for name in names}
    return tuple(_family(name, data) for name, given in data.items() if given)


def _family(name: str, data: Mapping[str, dict[str, Any]]) -> Family:
    """A family; one that names another in ``base`` has that one's data and template where it says nothing itself."""
    given = data[name]
    base = given.get("base", "")
    merged: dict[str, Any] = {**data[base], **given} if base else dict(given)
    if base:
        for key in _MERGED:
            merged[key] = {**data[base].get(key, {}), **given.get(key, {})}
    merged.pop("base", None)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in merged.items()
    }
    return Family(name, template=base or name, **values)


def family_of_type(model_type: str) -> Family | None:
    """The family that config.json names by ``model_type``."""
    return next((each for each in families() if model_type in each.model_types), None)


def family_of_names(names: Iterable[str]) -> Family | None:
    """The family whose tensors have such names.

    Raises: BurnxError if two families claim them.
    """
    text = "\n".join(names)
    found = [each for each in families() if each.pattern and _fits(each, text)]
    if len(found) > 1:
        raise BurnxError(f"several families claim these names: {[each.name for each in found]}")
    return found[0] if found else None


def _fits(family: Family, text: str) -> bool:
    def there(pattern: str) -> bool:
        return search(f"(?m)^(?:{pattern})$", text) is not None

    return all(map(there, family.pattern)) and not any(map(there, family.absent))


def known_types() -> str:
    """The model types that have a family, for messages."""
    return ", ".join(sorted(kind for each in families() for kind in each.model_types))
