"""Kernels: what a device compiles.

Enters: nothing but descriptions.  Leaves: loop nests (``ir.py``), as text (``text.py``) and as C-like text (``clike.py``).
May import: primitives' table of scalar functions, shape, dtype, errors.
Start reading at ``ir.py``.
"""
