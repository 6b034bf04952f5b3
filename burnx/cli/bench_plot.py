"""A box plot of call times as SVG."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 720, 56, 120, 40, 48, 44
_COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")


def plot_times(title: str, times_ms: Mapping[str, Sequence[float]]) -> str:
    """Boxes from the first to the third quartile, whiskers from the 5th to the 95th percentile."""
    right = max(_spread(times)[-1] for times in times_ms.values()) * 1.08 or 1.0
    height = TOP + ROW * len(times_ms) + BOTTOM
    scale = (WIDTH - LEFT - RIGHT) / right
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        "<style>text { font: 13px sans-serif }</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="26" font-weight="bold">{escape(title)}</text>',
        *_axis(right, scale, height),
    ]
    for row, (name, times) in enumerate(times_ms.items()):
        colour = _COLOURS[row % len(_COLOURS)]
        parts += _box(name, _spread(times), TOP + ROW * row + ROW / 2, scale, colour)
    return "\n".join([*parts, "</svg>", ""])


def _axis(right: float, scale: float, height: int) -> list[str]:
    bottom = height - BOTTOM
    parts = []
    for step in range(6):
        value = right * step / 5
        x = LEFT + value * scale
        parts += [
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{value:.3g}</text>',
        ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    label = f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle">ms a call</text>'
    return [*parts, label]


def _box(name: str, spread: Sequence[float], y: float, scale: float, colour: str) -> list[str]:
    low, first, median, third, high = (round(LEFT + value * scale, 1) for value in spread)
    top, bottom, width = y - 14, y + 14, max(third - first, 1.0)
    fill = f'fill="{colour}" fill-opacity="0.25" stroke="{colour}"'
    stroke = f'stroke="{colour}" stroke-width="2"'
    return [
        f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>',
        f'<line x1="{low}" y1="{y}" x2="{high}" y2="{y}" stroke="{colour}"/>',
        f'<rect x="{first}" y="{top}" width="{width:.1f}" height="28" {fill}/>',
        f'<line x1="{median}" y1="{top}" x2="{median}" y2="{bottom}" {stroke}/>',
        f'<text x="{median}" y="{y - 18}" text-anchor="middle">{spread[2]:.3g}</text>',
    ]


def _spread(times: Sequence[float]) -> tuple[float, float, float, float, float]:
    """5th percentile, quartiles and 95th percentile."""
    if len(times) == 1:
        return (times[0],) * 5
    cuts = statistics.quantiles(times, n=20, method="inclusive")
    return cuts[0], cuts[4], cuts[9], cuts[14], cuts[18]
