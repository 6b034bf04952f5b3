"""Codegen: a Graph as readable source.

Enters: a Graph, after the passes.  Leaves: a Python file and the safetensors file beside it.
May import: structure, nn, capture, passes, ops and below, and ruff.  Start reading at ``source.py`` (the module),
``classes.py``, ``block.py`` (statements), ``layout.py`` (text, which ruff lays out).  What the modules are is found in
the room ``structure``.
"""

from burnx.codegen.write import ImportOptions, ImportReport, write_source

__all__ = ["ImportOptions", "ImportReport", "write_source"]
