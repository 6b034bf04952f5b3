"""Fresh imports of generated source, which leave no trace in ``sys.modules``."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from burnx.errors import ModelError

_PREFIX = "_burnx_conformance_"
_numbers = itertools.count()


def import_generated(path: Path) -> ModuleType:
    """Run a generated file as a module of a name that no other import has had."""
    name = f"{_PREFIX}{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"generated source is a Python file, found {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def forgotten_modules() -> Iterator[None]:
    """Forget, at the end, every module that ``import_generated`` made inside."""
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.startswith(_PREFIX)]:
            del sys.modules[name]
