"""Capture: Python calls to a Graph.

Enters: operator calls on tensors.  Leaves: a Graph, or values where code asks for them.
May import: passes, lowering, ops and below.  Start reading at ``recorder.py``.
"""
