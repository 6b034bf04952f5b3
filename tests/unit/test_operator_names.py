"""Every operator can be reached under its Python name."""

import pkgutil

from burnx import ops


def test_no_family_hides_an_operator() -> None:
    families = {module.name for module in pkgutil.iter_modules(ops.__path__)}
    assert not families & set(dir(ops))


def test_every_name_gives_its_operator() -> None:
    for entry in ops.table().values():
        assert getattr(ops, ops.python_name(entry)) is entry
