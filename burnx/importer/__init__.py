"""Importer: bytes to Graph.

Enters: an ONNX file, a checkpoint, a safetensors file.  Leaves: a Graph, or arrays by name.
May import: capture, passes, ops and below, and onnx.  Start reading at ``onnx_graph.py``.
"""
