"""config.json as the settings of a template: what it says is checked, and refused by name where burnx cannot follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from burnx.architectures.family import Family
from burnx.errors import ModelError, UnsupportedError

# Name in config.json -> the call, with {} for its argument.
ACTIVATIONS: Final = {
    "gelu": "ops.gelu({})",
    "gelu_python": "ops.gelu({})",
    "gelu_new": 'ops.gelu({}, approximate="tanh")',
    "gelu_fast": 'ops.gelu({}, approximate="tanh")',
    "gelu_pytorch_tanh": 'ops.gelu({}, approximate="tanh")',
    "quick_gelu": "ops.swish({}, alpha=1.702)",
    "silu": "ops.swish({})",
    "swish": "ops.swish({})",
    "relu": "ops.relu({})",
    "tanh": "ops.tanh({})",
    "sigmoid": "ops.sigmoid({})",
    "mish": "ops.mish({})",
}
ROPE_KINDS: Final = ("default", "linear", "llama3")
_TYPES: Final[Mapping[str, type]] = {"int": int, "float": float, "bool": bool, "str": str}


def read_settings(family: Family, config: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a family's template reads, and its ``head``.

    Raises: ModelError for a value of the wrong type, UnsupportedError for one that the template cannot write.
    """
    if config.get("quantization_config"):
        raise UnsupportedError(
            "weights quantized by another tool are not read: quantization_config"
        )
    settings: dict[str, Any] = {
        key: _value(key, config.get(key), default) for key, default in family.config.items()
    }
    for key, kind in family.optional.items():
        if key not in settings:
            settings[key] = _value(key, config.get(key), None, _TYPES[kind])
    for key, meanings in family.aliases.items():
        settings[key] = meanings.get(settings[key], settings[key])
    for key, allowed in family.only.items():
        found = _at(settings, key, _at(config, key))
        if found is not None and found not in allowed:
            raise _unsupported(family, key, found, allowed)
    for key in family.activations:
        found = _at(settings, key)
        if found not in ACTIVATIONS:
            raise _unsupported(family, key, found, list(ACTIVATIONS))
    if family.rope:
        settings |= _read_rope(family, config, settings)
    return {**settings, "head": _head(family, config)}


def _at(values: Mapping[str, Any], path: str, missing: Any = None) -> Any:
    """The value under a key, or under several joined by dots."""
    found: Any = values
    for key in path.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return missing
        found = found[key]
    return found


def _unsupported(family: Family, key: str, found: Any, allowed: list[Any]) -> UnsupportedError:
    known = ", ".join(map(repr, allowed))
    return UnsupportedError(
        f"{family.title} is written for {key} of {known}: config.json says {found!r}"
    )


def _value(key: str, found: Any, default: Any, kind: type | None = None) -> Any:
    """A value of the type that its default has; the default where there is none."""
    if found is None:
        return default
    if isinstance(default, Mapping):
        if not isinstance(found, Mapping):
            raise ModelError(f"config.json: {key} must be an object, not {found!r}")
        return {
            name: _value(f"{key}.{name}", found.get(name), each) for name, each in default.items()
        }
    wanted: Any = kind or type(default)
    if wanted is float and type(found) is int:
        found = float(found)
    if type(found) is not wanted or (wanted is float and not math.isfinite(found)):
        raise ModelError(f"config.json: {key} must be of type {wanted.__name__}, not {found!r}")
    if wanted is int and found < 0 or wanted is list and not _are_counts(found):
        raise ModelError(f"config.json: {key} must count something, not {found!r}")
    return found


def _are_counts(items: list[Any]) -> bool:
    return all(type(item) is int and item >= 0 for item in items)


def _head(family: Family, config: Mapping[str, Any]) -> str:
    """What stands on the model: what follows ``For`` in the class that config.json names, or nothing."""
    named = config.get("architectures")
    title = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    return family.heads.get(title, title.partition("For")[2])


def _read_rope(
    family: Family, config: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Rotary settings; they stand in config.json itself, in ``rope_scaling``, or all in ``rope_parameters``."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(scaling, Mapping):
        raise ModelError(f"config.json: rope_scaling must be an object, not {scaling!r}")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ROPE_KINDS:
        raise _unsupported(family, "rope_scaling type", kind, list(ROPE_KINDS))
    found = {"rope_type": kind}
    parts: dict[str, Any] = {"rope_theta": settings["rope_theta"]}
    if "partial_rotary_factor" in settings:
        parts["partial_rotary_factor"] = settings["partial_rotary_factor"]
    if kind != "default":
        parts["factor"] = None
    if kind == "llama3":
        parts |= dict.fromkeys(("low_freq_factor", "high_freq_factor"))
        parts["original_max_position_embeddings"] = None
    for key, default in parts.items():
        value = _value(key, scaling.get(key), default, float if default is None else None)
        if value is None or (value <= 0 and key != "rope_theta"):
            raise ModelError(f"config.json: rope_scaling of type {kind!r} needs a positive {key}")
        found[key] = value
    return found
