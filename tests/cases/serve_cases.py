"""Judge sub-cases on demand: lines ``ROUTE ID`` on stdin, ended by an empty one, a line of JSON each on stdout.

    python serve_cases.py DEVICE

pytest runs its cases through this, so that the workers are forked from a process which has
imported burnx and nothing else has used, whatever other tests did before.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import asdict

from casebook import ROUTES
from cases import all_cases
from run_cases import preload, sweep

LATE = (
    "networkx",
    "burnx.codegen",
    "burnx.importer.onnx_file",
    "burnx.importer.onnx_graph",
    "burnx.exporter.onnx_model",
    "burnx.runtime.devices.cpu",
    "burnx.runtime.devices.reference",
)


def preload_late() -> None:
    """Load once, before the forks, what burnx loads where it is first used."""
    burnx = importlib.import_module("burnx")
    for name in burnx.__all__:
        getattr(burnx, name)
    for name in LATE:
        importlib.import_module(name)
    importlib.import_module("burnx.ops").operators()


def main(device: str) -> None:
    os.environ["BURNX_DEVICE"] = device
    preload("burnx", list(ROUTES))
    preload_late()
    subs = {str(sub): sub for case in all_cases() for sub in case.subs}
    jobs = []
    for line in sys.stdin:
        if line.strip():
            route, name = line.split()
            jobs.append((subs[name], route))
            continue
        for result in sweep(jobs, "burnx", device, len(os.sched_getaffinity(0))):
            print(json.dumps(asdict(result)), flush=True)
        jobs = []


if __name__ == "__main__":
    main(sys.argv[1])
