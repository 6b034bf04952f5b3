"""A kernel as OpenCL C or CUDA C++: how its work is spread over many threads, and the text.

Enters: a Kernel of ``burnx.kernels.ir``, a dialect, what the device can do, the sizes.  Leaves: Code.  May import: kernels and
below; no driver.  Start reading at ``code.py``.
"""
