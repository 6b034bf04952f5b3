"""Graph to readable source.

Enters: a Graph after its passes, and the names and texts of the model it came from.
Leaves: the text of one Python module, a fixed point of ``ruff format --line-length 100``.
May import: nn and what is below it; never importer, exporter or api.
Start reading: ``nodes.py`` (the source tree), then ``layout.py`` (the tree as text).
"""
