"""What every test may ask for: ``device``, one of those under test, and ``golden`` files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

DEVICES = "reference,cpu"
ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("burnx")
    group.addoption("--device", metavar="NAME,...", help=f"devices to test (default: {DEVICES})")
    group.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )


def pytest_configure() -> None:
    """Let processes that a test starts see the burnx under test, installed or not.

    No plans are kept but by the tests of that: the others are to come to the code that makes them.
    """
    os.environ["BURNX_CACHE_MB"] = "0"
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        given = metafunc.config.getoption("--device") or DEVICES
        metafunc.parametrize("device", given.split(","))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: the text is what tests/golden/<name> holds, or becomes so."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {name}: make it with --update-golden"
        assert text == path.read_text()

    return check
