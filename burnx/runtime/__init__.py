"""Runtime: programs to results, on devices.

Enters: a Program and arrays.  Leaves: arrays.  May import: primitives, program and below, never ops.
Start reading at ``device.py``; each device is a room of its own under ``devices/``.
"""
