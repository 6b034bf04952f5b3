"""Judge sub-cases on demand: a line ``ROUTE ID`` on stdin, a line of JSON on stdout.

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


def preload_late() -> None:
    """Load once, before the forks, what burnx loads where it is first used."""
    burnx = importlib.import_module("burnx")
    for name in burnx.__all__:
        getattr(burnx, name)
    for module in ("jinja2", "networkx"):
        importlib.import_module(module)


def main(device: str) -> None:
    os.environ["BURNX_DEVICE"] = device
    preload("burnx", list(ROUTES))
    preload_late()
    subs = {str(sub): sub for case in all_cases() for sub in case.subs}
    for line in sys.stdin:
        route, name = line.split()
        (result,) = sweep([(subs[name], route)], "burnx", device, 1)
        print(json.dumps(asdict(result)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
