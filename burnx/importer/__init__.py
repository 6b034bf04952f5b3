"""Importer: bytes to Graph.

Enters: an ONNX file.  Leaves: a Graph.
May import: capture, passes, ops and below, and onnx.  Start reading at ``onnx_graph.py``.
"""
