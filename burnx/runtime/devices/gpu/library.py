"""A product, or more, that a vendor's library carries out: what it is asked for, in numbers, and its launch.

The library writes the product where it belongs if what follows is its own to do: a factor, a bias, something added.
Else it writes float32 sums to memory of the device's own, and a kernel of burnx does with them what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from weakref import ref

from burnx.runtime.devices.gpu.driver import Driver, Launch, Memory, Place
from burnx.runtime.devices.gpu.library_attention import Attention, attention_from_row
from burnx.runtime.devices.gpu.library_convolution import Convolution, convolution_from_row

LIBRARY = "library"  # the kind of such a form
WORKSPACE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in a buffer, by columns: its first element, and elements from one column to the next, and to the next
    matrix of a batch.  ``turned``: it is stored with rows and columns exchanged.
    """

    buffer: int
    start: int
    column: int
    next: int
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Gemm:
    """result[p, q] = factor * (sum over k of first[p, k] * second[k, q]) + added[p, q] + bias[p], ``batch`` times.

    ``given`` and ``made`` are dtypes; sums are float32.  ``bias`` is (buffer, first element).  ``temporary_bytes``: of
    the memory that the result goes to, where it is no buffer of the kernel (``result.buffer`` is then the one after its
    last).  ``rank``: which of the library's own ways, the one that it holds to be the fastest first.
    """

    given: str
    made: str
    rows: int
    columns: int
    inner: int
    batch: int
    first: Matrix
    second: Matrix
    result: Matrix
    added: Matrix | None = None
    bias: tuple[int, int] | None = None
    factor: float = 1.0
    temporary_bytes: int = 0
    rank: int = 0


Asked = Gemm | Convolution | Attention


def as_row(asked: Asked) -> dict[str, Any]:
    """What is asked for as JSON can hold it."""
    return asdict(asked)


def library_of(row: Any) -> str:
    """Which of ``Driver.libraries`` a row of ``as_row`` is for."""
    if "queries" in row:
        return "attentions"
    return "convolutions" if "window" in row else "products"


def from_row(row: Any) -> Asked:
    """Raises: TypeError, LookupError, ValueError if it is not of ``as_row``."""
    work = library_of(row)
    if work == "convolutions":
        return convolution_from_row(row)
    if work == "attentions":
        return attention_from_row(row)
    made = dict(row)
    for name in ("first", "second", "result", "added"):
        made[name] = Matrix(**made[name]) if made[name] is not None else None
    made["bias"] = None if made["bias"] is None else (int(made["bias"][0]), int(made["bias"][1]))
    return Gemm(**made)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Spare:
    """Memory beside the arena that products share, one after the other: a workspace, and then their sums."""

    memory: Memory
    size: int


def take_spare(driver: Driver, temporary_bytes: int) -> Spare:
    """The memory that products share; it goes when no launch is bound to it any more."""
    arena, size = driver.arena, WORKSPACE_BYTES + temporary_bytes
    found: Spare | None = arena.spare() if arena.spare is not None else None
    if found is None or found.size < size:
        found = Spare(driver.allocate(size), size)
        arena.spare = ref(found)
    return found


def bind_product(
    driver: Driver,
    asked: Asked,
    places: Sequence[Place],
    fixed: Sequence[bool],
    rest: Callable[[Sequence[Place]], Launch] | None,
) -> Launch:
    """A launch of a product on its buffers; ``rest`` binds what follows to these and the sums.

    ``fixed`` says which buffers hold constants.

    Raises: DeviceError if the library cannot do it.
    """
    spare = take_spare(driver, asked.temporary_bytes)
    every, workspace = [*places, (spare.memory, WORKSPACE_BYTES)], (spare.memory, 0)
    if isinstance(asked, Convolution):
        known = asked, fixed[asked.filter[0]]
        multiply = driver.bind_convolution(known, every, workspace, WORKSPACE_BYTES)
    elif isinstance(asked, Attention):
        multiply = driver.bind_attention(asked, every, workspace, WORKSPACE_BYTES)
    else:
        multiply = driver.bind_gemm(asked, every, workspace, WORKSPACE_BYTES)
    follow = None if rest is None else rest(every)

    def launch(_: object = spare) -> Any:
        event = multiply()
        return event if follow is None else follow()

    return launch
