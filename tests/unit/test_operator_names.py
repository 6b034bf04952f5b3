"""Every operator can be reached under its Python name."""

import pkgutil

import pytest

from burnx import ops
from burnx.errors import UsageError
from burnx.ops.operator import operator


def test_no_family_hides_an_operator() -> None:
    families = {module.name for module in pkgutil.iter_modules(ops.__path__)}
    assert not families & set(dir(ops))


def test_every_name_gives_its_operator() -> None:
    for entry in ops.table().values():
        assert getattr(ops, ops.python_name(entry)) is entry


def test_an_operator_is_registered_once() -> None:
    relu = ops.find("", "Relu")
    with pytest.raises(UsageError, match="Relu"):
        operator("Relu", since=(1,))(relu.function)
    assert ops.find("", "Relu") is relu
