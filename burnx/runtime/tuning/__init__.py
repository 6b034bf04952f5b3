"""Tuning: candidates raced against each other on a device, and what came of it kept for later processes.

Enters: candidates, and ways to run and time one.  Leaves: the fastest that gives the same numbers as the first.  It knows
no device and no kernel.  May import: runtime.compiled and below.  Start reading at ``racing.py``.
"""
