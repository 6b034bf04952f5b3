"""Every operator can be reached under its Python name."""

import pkgutil

import pytest

from burnx import ops
from burnx.codegen.dims import dim_expr
from burnx.codegen.expressions import name, text
from burnx.errors import UsageError
from burnx.ops.operator import operator
from burnx.shape import Dim, broadcast_dim, maximum, minimum, symbol


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


A, B = symbol("a"), symbol("b")


@pytest.mark.parametrize(
    "dim", [A // B + 1, A % 4, minimum(A, B), maximum(A - B, 0), broadcast_dim(A, B)]
)
def test_sizes_in_source_are_the_sizes_they_were(dim: Dim) -> None:
    code = text(dim_expr(dim, {"a": name("a"), "b": name("b")}))
    assert eval(code, {"a": A, "b": B, "ops": ops}) == dim
