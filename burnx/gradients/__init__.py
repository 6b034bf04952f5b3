"""Gradients: the derivatives of primitives, and the way back through a program that is being built.

Enters: a function of tensors and where it is taken.  Leaves: its derivatives, as more primitives of the same program.
May import: builder and below.
Start reading at ``backward.py``; the other files are the rules, by the file of ``primitives`` they belong to.
"""

from burnx.gradients import contraction, control, indexing, movement, reduction, scalar, windows
from burnx.gradients.backward import gradients
from burnx.gradients.rules import RULES

__all__ = [
    "RULES",
    "contraction",
    "control",
    "gradients",
    "indexing",
    "movement",
    "reduction",
    "scalar",
    "windows",
]
