"""Loading ``file.py:Class``: a module whose weights lie beside its source."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from burnx.errors import BurnxError, ModelError, UsageError
from burnx.nn.module import Module, weights_beside

_COUNTER = count(1)


def is_source(source: str | Path) -> bool:
    """Whether a path names Python source: ``file.py`` or ``file.py:Class``."""
    return str(source).rpartition(":")[0].endswith(".py") or str(source).endswith(".py")


def load_network(
    source: str | Path,
    weights: str | Path | None = None,
    notice: Callable[[str], None] | None = None,
) -> Module:
    """The module that ``file.py`` or ``file.py:Class`` names, with its weights.

    Without a weights file it has fresh ones, and ``notice`` hears of it.  Raises: UsageError if there is no such file
    or class; WeightsError.
    """
    text = str(source)
    file, _, class_name = text.rpartition(":") if not text.endswith(".py") else (text, "", "Model")
    module = import_source(Path(file))
    found: Any = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Module)):
        classes = [name for name, value in vars(module).items() if _is_own(value, module)]
        raise UsageError(
            f"{file} has no module class {class_name!r}; it has {', '.join(classes) or 'none'}"
        )
    try:
        network = found()
    except BurnxError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(
            f"{class_name}() in {file} raised {type(error).__name__}: {error}"
        ) from error
    _give_weights(network, weights, notice)
    return network


def _is_own(value: Any, module: ModuleType) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, Module)
        and value.__module__ == module.__name__
    )


def _give_weights(
    network: Module, weights: str | Path | None, notice: Callable[[str], None] | None
) -> None:
    if not any(True for _ in network.parameters()):
        return
    if weights is None and hasattr(sys.modules[type(network).__module__], "WEIGHTS"):
        beside = weights_beside(type(network))
        weights = beside if beside.exists() else None
    if weights is not None:
        network.load_weights(weights)
    elif notice is not None:
        notice("no weights are beside the source: they are fresh ones")


def import_source(path: Path) -> ModuleType:
    """A Python file as a module of its own.

    Raises: UsageError if there is no such file, ModelError if it cannot be imported.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    name = f"_burnx_source_{next(_COUNTER)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{str(path)!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BurnxError:
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ModelError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
