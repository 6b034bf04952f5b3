"""Kernels as LLVM IR.

Enters: a Kernel and a Target.  Leaves: the text of an LLVM module with one function.
The function is ``void @kernel(ptr args, i64 worker, i64 workers, ptr state)``; ``args`` is an array of i64: the addresses
of the kernel's buffers, then its sizes.  ``state`` belongs to the running call; what a kernel may touch of it is in ``emitter.py``.
May import: kernels, primitives' table of scalar functions, shape, dtype, errors.  No llvmlite: this is text.
Start reading at ``emitter.py``.
"""
