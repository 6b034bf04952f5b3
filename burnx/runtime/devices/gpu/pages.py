"""Memory that is held for the next call: as much as calls have needed of late, and not for good."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

REMEMBERED = 16  # calls
LAVISH = 2  # times as much as was needed is too much
SMALL_BYTES = 16 << 20  # nobody minds


@dataclass(slots=True)
class Pages:
    """What recent calls needed of the arena, and what was in use after them."""

    arenas: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    used: deque[int] = field(default_factory=lambda: deque(maxlen=2))
    calls: int = 0


def take_arena(driver: Any, size_bytes: int) -> None:
    """A new arena in place of the one that is too small, or too large; who knew the old one forgets it."""
    arena = driver.arena
    arena.memory = arena.user = None
    arena.size = 0
    for each in list(driver.users):
        each.forget_memory()
    arena.memory, arena.size = driver.allocate(size_bytes), size_bytes


def note_call(driver: Any, arena_bytes: int) -> None:
    """Note what a call needed; after some of them, give back what none of them did."""
    pages = driver.pages
    pages.calls += 1
    pages.arenas.append(arena_bytes)
    if pages.calls % REMEMBERED:
        return
    if _is_lavish(driver.arena.size, max(pages.arenas)):
        driver.finish()
        take_arena(driver, max(pages.arenas))
    used, reserved = driver.memory_use()
    pages.used.append(used)
    if _is_lavish(reserved, max(pages.used)):
        driver.finish()
        driver.release()


def _is_lavish(held: int, needed: int) -> bool:
    return held > LAVISH * needed and held - needed > SMALL_BYTES


def measure_memory(driver: Any) -> dict[str, int]:
    """What is held of the device's memory, by what for."""
    with driver.lock:
        used, reserved = driver.memory_use()
        return {
            "used_bytes": used,
            "reserved_bytes": reserved,
            "arena_bytes": _arena_bytes(driver.arena),
            "weights_bytes": sum(each.weights_bytes for each in list(driver.users)),
        }


def _arena_bytes(arena: Any) -> int:
    spare = arena.spare() if arena.spare is not None else None
    beside: int = 0 if spare is None else spare.size
    return beside + (arena.size if arena.memory is not None else 0)
