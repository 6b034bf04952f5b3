"""Fusion: a program as kernels that read and write memory.

Enters: instructions of a Program.  Leaves: a Schedule: steps, each a kernel with the storages and sizes it is given.
May import: kernels, primitives, program and below.  Nothing here depends on the device but the ``Traits`` it states.
Start reading at ``scheduler.py``.
"""
