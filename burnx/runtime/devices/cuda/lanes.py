"""Launches side by side on several streams, with events between those that wait for each other.

While a CUDA graph is recorded, streams and events are only a way to say what its branches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx.runtime.devices.gpu.branches import assign_lanes
from burnx.runtime.devices.gpu.driver import Launch


def one_by_one(count: int) -> list[tuple[int, ...]]:
    """What launches wait for that stand one behind the other."""
    return [(line - 1,) * (line > 0) for line in range(count)]


def in_lanes(driver: Any, launches: Sequence[Launch], waits: Sequence[Sequence[int]]) -> None:
    """Launch all; the driver's stream, which is the first lane, goes on when all are through.

    Each launch goes to ``driver.stream``, which is another one of ``driver.lanes`` for each; it stays the last.
    """
    lanes = assign_lanes(tuple(map(tuple, waits)))
    streams = _streams(driver, 1 + max(each.number for each in lanes))
    awaited = {other for each in lanes for other in each.others}
    passed: dict[int, Any] = {}
    begun, start = {0}, _mark(streams[0]) if len(streams) > 1 else None
    for place, (lane, launch) in enumerate(zip(lanes, launches, strict=True)):
        stream = driver.stream = streams[lane.number]
        if lane.number not in begun:
            begun.add(lane.number)
            stream.wait_event(start)
        for other in lane.others:
            stream.wait_event(passed[other])
        with stream:
            launch()
        if place in awaited:
            passed[place] = _mark(stream)
    for stream in streams[1:]:
        streams[0].wait_event(_mark(stream))


def _streams(driver: Any, count: int) -> list[Any]:
    """The driver's stream and as many beside it as there are lanes."""
    import cupy

    while len(driver.lanes) < count - 1:
        driver.lanes.append(cupy.cuda.Stream(non_blocking=True))
    return [driver.stream, *driver.lanes[: count - 1]]


def _mark(stream: Any) -> Any:
    """An event behind all that was given to a stream."""
    import cupy

    event = cupy.cuda.Event(disable_timing=True)
    event.record(stream)
    return event
