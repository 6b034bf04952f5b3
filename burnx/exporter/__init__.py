"""Exporter: Graph to bytes.

Enters: a Graph.  Leaves: an ONNX model, in memory or as a file with its weights inside or beside it.
May import: nn, capture, passes, ops and below, and onnx.  Start reading at ``onnx_model.py``.
"""

from burnx.exporter.onnx_model import export_model, write_model

__all__ = ["export_model", "write_model"]
