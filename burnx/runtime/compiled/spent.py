"""What a call of a task moves and works out, for profiles and rooflines."""

from __future__ import annotations

from collections.abc import Mapping

from burnx.fusion.storage import Storage
from burnx.runtime.compiled.lines import Task
from burnx.runtime.profile import Spent
from burnx.shape import evaluate


def describe_call(task: Task, sizes: Mapping[str, int], elapsed_ns: int) -> Spent:
    """A call of a task: each of its storages is read or written once."""
    return Spent(
        task.kind,
        task.place,
        1,
        elapsed_ns,
        sum(_size_bytes(each, sizes) for each in dict.fromkeys(task.storages)),
        count_flops(task, sizes),
        task.product,
    )


def _size_bytes(storage: Storage, sizes: Mapping[str, int]) -> int:
    if storage.role == "scratch":
        return 0
    count = 1
    for size in storage.shape:
        count *= max(evaluate(size, sizes), 0)
    return count * storage.dtype.itemsize


def count_flops(task: Task, sizes: Mapping[str, int]) -> int:
    """About the operations of a task; a multiply-add of a product is two."""
    return max(evaluate(task.work, sizes), 0) * (2 if task.product else 1)
