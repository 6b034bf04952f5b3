"""Python's search for cycles of objects, put off while a program is made.

A graph, a program and its kernels are hundreds of thousands of objects that stay; to look through them again and again
takes a tenth of the time that making them does.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_inside: list[
    bool
] = []  # for each block that runs, in any thread: whether the search went on when the first began


@contextmanager
def collection_put_off() -> Iterator[None]:
    """Nothing looks for cycles meanwhile; afterwards it is as it was, once no thread is in such a block any more."""
    with _lock:
        _inside.append(_inside[0] if _inside else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            if _inside.pop() and not _inside:
                gc.enable()
