"""Codegen: a Graph as readable source.

Enters: a Graph, after the passes.  Leaves: a Python file and the safetensors file beside it.
May import: capture, passes, ops and below, networkx and ruff.  Start reading at ``source.py`` (the module),
``tree.py`` (its structure), ``block.py`` (statements), ``layout.py`` (text, which ruff lays out).
"""

from burnx.codegen.write import ImportOptions, ImportReport, write_source

__all__ = ["ImportOptions", "ImportReport", "write_source"]
