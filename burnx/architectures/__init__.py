"""Architectures: weights without a graph as readable source, from what is known of model families.

Enters: a checkpoint, and the ``config.json`` beside it.  Leaves: a Python file that loads it.
May import: codegen, nn and below, and jinja2.  Start reading at ``write.py``; what is known of a family is one file of
``families/``: data (TOML between two lines of ``+++``), then the template of its source.
"""

from burnx.architectures.checkpoint import is_checkpoint
from burnx.architectures.write import CheckpointReport, write_checkpoint

__all__ = ["CheckpointReport", "is_checkpoint", "write_checkpoint"]
