"""Checkpoints: files of weights, whoever wrote them, as arrays by name.

Enters: safetensors, PyTorch's ``.pt``, ``.pth`` and ``.bin``, an index of shards.  Leaves: mapped arrays by name.
May import: weights, files and below.  Start reading at ``tensors.py``.
"""

from burnx.checkpoints.tensors import INDEX_END, SUFFIXES, open_tensors

__all__ = ["INDEX_END", "SUFFIXES", "open_tensors"]
