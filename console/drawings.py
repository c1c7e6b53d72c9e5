"""Lines of charts as SVG, made on the server.

Colours are classes of the style sheet: the page allows no inline style.
"""

from __future__ import annotations

from collections.abc import Sequence

from .formats import number
from .parts import Chart, Drawing

_WIDTH, _HEIGHT = 240, 48
_CELL_WIDTH, _CELL_HEIGHT = 120, 24


def sparkline(values: Sequence[float], name: str, width: int = _WIDTH, height: int = _HEIGHT) -> Drawing:
    """A line from left to right, the newest value at the right edge, over a scale that begins at 0."""
    newest = values[-1] if len(values) else 0.0
    most = max(values, default=0.0)
    text = f"{name}: {number(newest)} now, {number(most)} at most"
    top = most or 1.0
    step = width / max(len(values) - 1, 1)
    points = [(index * step, height - 2 - (height - 4) * value / top) for index, value in enumerate(values)]
    if len(points) < 2:
        points = [(0.0, height - 2.0), (float(width), height - 2.0)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"0,{height} {line} {width},{height}"
    return Drawing(
        f'<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{text}">'
        f'<polygon class="spark-area" points="{area}"/><polyline class="spark-line" points="{line}"/></svg>',
        text,
    )


def scaled_sparkline(values: Sequence[float], name: str) -> list[Drawing | str]:
    """A small line of a table's cell, and the top of its scale."""
    return [sparkline(values, name, _CELL_WIDTH, _CELL_HEIGHT), f"0 to {number(max(values, default=0.0))}"]


def chart(title: str, times: Sequence[float], values: Sequence[float], unit: str = "", series: str = "") -> Chart:
    """`series`: the name in the history, for longer ranges."""
    newest = values[-1] if len(values) else None
    return Chart(title, f"{number(newest)}{unit}", sparkline(values, title), unit, times, values, series)
