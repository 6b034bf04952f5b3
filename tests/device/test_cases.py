"""Behaviours that ONNX tools are known to get wrong, on every route; tests/cases has them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from casebook import SubCase
from cases import all_cases
from run_cases import FINE

SERVER = Path(__file__).parent.parent / "cases" / "serve_cases.py"
Judge = Callable[[str, SubCase, str], dict[str, Any]]

# Pattern of "ID route" -> why it cannot pass yet.  A pass of one of these is a failure: take it out.
NOT_YET: dict[str, str] = {}


def marks_of(sub: SubCase, route: str) -> list[pytest.MarkDecorator]:
    name = f"{sub} {route}"
    reasons = [reason for pattern, reason in NOT_YET.items() if fnmatch(name, pattern)]
    return [pytest.mark.xfail(reason=reason, strict=True) for reason in reasons]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    jobs = [(sub, route) for case in all_cases() for sub in case.subs for route in sub.routes]
    metafunc.parametrize(
        ("sub", "route"),
        [pytest.param(sub, route, marks=marks_of(sub, route)) for sub, route in jobs],
        ids=[f"{sub}-{route}" for sub, route in jobs],
    )
    given = metafunc.config.getoption("--device") or "cpu"
    metafunc.parametrize("on_device", given.split(","))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """Judge a sub-case on a route and a device, in a process of its own."""
    servers: dict[str, subprocess.Popen[str]] = {}

    def ask(device: str, sub: SubCase, route: str) -> dict[str, Any]:
        if device not in servers or servers[device].poll() is not None:
            command = [sys.executable, str(SERVER), device]
            pipe = subprocess.PIPE
            servers[device] = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        server = servers[device]
        assert server.stdin is not None
        assert server.stdout is not None
        print(route, sub, file=server.stdin, flush=True)
        answer = server.stdout.readline()
        if not answer:
            pytest.fail(f"{SERVER.name} ended with status {server.wait()}")
        return dict(json.loads(answer))

    yield ask
    for server in servers.values():
        server.communicate()


def test_case(judge: Judge, on_device: str, sub: SubCase, route: str) -> None:
    result = judge(on_device, sub, route)
    assert result["status"] in FINE, f"{result['status']}: {result['detail']}"
