"""Kernels as LLVM IR.

Enters: a Kernel and a Target.  Leaves: the text of an LLVM module with one function.
The function is ``void @kernel(ptr args, i64 worker, i64 workers, ptr state)``; ``args`` is an array of i64: the addresses
of the kernel's buffers, then its sizes.  ``state`` belongs to the running call, see ``machine.py``.
Start reading at ``emitter.py``.
"""
