"""Behaviours that ONNX tools are known to get wrong, on every route; tests/cases has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from casebook import SubCase
from cases import all_cases
from run_cases import FINE

SERVER = Path(__file__).parent.parent / "cases" / "serve_cases.py"
Job = tuple[str, str]  # route, name
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


class Server:
    """A process that judges sub-cases, several at a time, and what it has said so far."""

    def __init__(self, device: str) -> None:
        command = [sys.executable, str(SERVER), device]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.asked: set[Job] = set()
        self.said: dict[Job, dict[str, Any]] = {}

    def ask(self, jobs: Iterable[Job]) -> None:
        new = [job for job in jobs if job not in self.asked]
        self.asked.update(new)
        assert self.process.stdin is not None
        print(*(f"{route} {name}" for route, name in new), "", sep="\n", file=self.process.stdin)
        self.process.stdin.flush()

    def result(self, job: Job) -> dict[str, Any]:
        assert self.process.stdout is not None
        while job not in self.said:
            answer = self.process.stdout.readline()
            if not answer:
                pytest.fail(f"{SERVER.name} ended with status {self.process.wait()}")
            found = dict(json.loads(answer))
            self.said[found["route"], f"{found['case']}.{found['sub']}"] = found
        return self.said[job]

    def close(self) -> None:
        if self.asked == self.said.keys():
            self.process.communicate()
        else:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """Judge a sub-case on a route and a device; all that are wanted are judged from the first call on."""
    servers: dict[str, Server] = {}
    is_shared = "PYTEST_XDIST_WORKER" in os.environ  # then nobody knows who will want what

    def ask(device: str, sub: SubCase, route: str) -> dict[str, Any]:
        job = (route, str(sub))
        if device not in servers:
            servers[device] = Server(device)
            if not is_shared:
                servers[device].ask(wanted_on(device, request.session.items))
        if job not in servers[device].asked:
            servers[device].ask([job])
        return servers[device].result(job)

    yield ask
    for server in servers.values():
        server.close()


def wanted_on(device: str, items: Iterable[pytest.Item]) -> list[Job]:
    """The jobs of the tests that were selected."""
    found = []
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if getattr(item, "function", None) is test_case and params["on_device"] == device:
            found.append((params["route"], str(params["sub"])))
    return found


def test_case(judge: Judge, on_device: str, sub: SubCase, route: str) -> None:
    result = judge(on_device, sub, route)
    assert result["status"] in FINE, f"{result['status']}: {result['detail']}"
