"""Where the reference evaluator and onnxruntime give different values: which one is right, and the sentence that says so.

A case that matches none of these and has two different answers is not compared, so that it is no pass.  ``follows``
is empty where neither gives what the standard says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Cases by a regular expression over their names, the engine that is followed, and why."""

    cases: str
    follows: str
    why: str


def find_disagreement(case_name: str) -> Disagreement | None:
    """The first entry for a case."""
    return next((item for item in DISAGREEMENTS if re.search(item.cases, case_name)), None)


DISAGREEMENTS: tuple[Disagreement, ...] = ()
