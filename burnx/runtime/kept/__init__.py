"""What is kept from one process to the next, beside compiled kernels: plans of native code, and packed constants.

Enters: native code of a device that has run.  Leaves: the same in another process, without lowering, fusion, kernel texts
or packing.  A device brings how its native code is written and read; here is the rest.  May import: runtime.compiled and
below.  Start reading at ``models.py`` (programs of model files) and ``segments.py`` (anything else); ``identity.py`` says
what an entry is found by, ``entries.py`` what it looks like on disk, ``shared.py`` which constants several plans share.
"""
