"""What devices that compile have in common: segments, their lines, lifetimes and memory, what sizes must fulfil.

Enters: a Program, a Schedule.  Leaves: segments, lines, layouts.  May import: fusion, primitives, program and below.
Start reading at ``segments.py``.
"""
