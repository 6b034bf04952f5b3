"""Environments: what was compiled, planned and tuned, as one file that another machine may take over.

Enters: the folder of what is kept, or such a file.  Leaves: the other.  May import: runtime.compiled and the devices' words
for what they are.  Start reading at ``carry.py``.
"""
