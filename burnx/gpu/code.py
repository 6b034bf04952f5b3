"""What a kernel becomes on a device with many threads, and what the device can do.

The emitted function takes, in this order: its buffers, its sizes, the guards, and a buffer with an int that a failed
``Lookup`` sets to 1.  In CUDA C++ a buffer is a pointer; in OpenCL C it is two arguments, a ``__global uchar *`` and an
offset in bytes (ulong), because parts of one allocation have no pointers on the host.  Sizes are ``int``, or ``long``
with ``Form.wide``; those that are in ``Form.fixed`` are numbers in the text and not passed.  A guard (a buffer, too) is a
bool in memory; the function does nothing unless all guards have the values of ``Form.guards``.

A scratch buffer (``Kernel.scratch`` by its index: it adds ``worker`` times its size) is private to a group where the whole
group works on one row, to a thread otherwise; then no more workers run than ``Code.workers``, each taking turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from burnx.kernels.ir import Kernel
from burnx.shape import Dim, evaluate


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device can do.

    ``threads``: most threads of a group.  ``local_bytes``: shared (local) memory of a group.  ``warp``: threads that run
    in lockstep and can exchange values by shuffles; 1 where there is nothing of the kind.  ``units``: multiprocessors.
    ``matrices``: names of the dtypes whose products matrix units take ("float16", "bfloat16", "tfloat32").
    ``capability``: of a CUDA device, 90 for an H200; 0 for OpenCL.  ``vector_bytes``: what a thread reads or writes best at
    once; 0 where neighbouring threads are made vectors of anyway, as on a processor.
    ``doubles``: whether it has float64.
    """

    threads: int = 256
    local_bytes: int = 32768
    warp: int = 1
    units: int = 1
    matrices: frozenset[str] = frozenset()
    capability: int = 0
    vector_bytes: int = 16
    doubles: bool = True


@dataclass(frozen=True, slots=True)
class Form:
    """How a kernel's work is spread over threads: all that its text depends on beside the kernel itself.

    ``kind``: "threads" (each thread its own element or row), "group" (a group to each turn of the parallel loops, its
    threads share folds and loops), "tiles" (a group to each tile of a product), "attention".
    ``group``: threads of a group.  ``tile``: numbers that a kind interprets: (rows, columns, inner, rows of a thread,
    columns of a thread) of a tile.  ``matrices``: the matrix units' dtype, or "".
    ``wide``: indices take 64 bits.  ``guards``: the value each guard must have.  ``fixed``: sizes that are numbers.
    """

    kind: str
    group: int
    tile: tuple[int, ...] = ()
    matrices: str = ""
    wide: bool = False
    guards: tuple[bool, ...] = ()
    fixed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Code:
    """A function's text, and how it is to be launched.

    ``text`` does not include ``prelude``s; it uses those of ``needs``.  ``grid`` are the groups along x, y and z, in the
    kernel's sizes (an empty product launches nothing); with ``scratch`` x is cut at ``workers`` (groups).
    """

    name: str
    text: str
    form: Form
    grid: tuple[Dim, Dim, Dim] = (1, 1, 1)
    needs: frozenset[str] = frozenset()
    scratch: bool = False
    local_bytes: int = 0
    kernel: Kernel | None = field(default=None, compare=False, repr=False)

    def groups(self, sizes: Mapping[str, int], workers: int) -> tuple[int, int, int]:
        """The groups to launch for these sizes; at most ``workers`` along x where scratch memory is needed."""
        x, y, z = (max(evaluate(each, sizes), 0) for each in self.grid)
        most = workers if self.form.kind != "threads" else max(workers // self.form.group, 1)
        return (min(x, most) if self.scratch else x), y, z
