"""What is kept from one process to the next, beside compiled kernels: plans of native code, and packed constants.

Enters: native code that has run.  Leaves: the same in another process, without lowering, fusion, kernel texts or packing.
Start reading at ``models.py`` (programs of model files) and ``segments.py`` (anything else); ``shared.py`` keeps constants
that several plans may name; ``identity.py`` says what an entry is found by, ``entries.py`` what it looks like on disk.
"""
