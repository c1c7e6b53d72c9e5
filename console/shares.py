"""A bar of a value beside the largest one, as SVG."""

from __future__ import annotations

from html import escape

from .formats import number
from .parts import Drawing

_SHARE_WIDTH, _SHARE_HEIGHT = 120, 6


def share(value: float, most: float, before: float | None = None) -> Drawing:
    """A bar of a value beside the largest one. `before`: a mark at the value before a change."""
    width = round(_SHARE_WIDTH * value / most) if most else 0
    mark = ""
    if before is not None and before != value and most:
        at = min(_SHARE_WIDTH - 2, round(_SHARE_WIDTH * before / most))
        mark = f'<rect class="second" x="{at}" y="0" width="2" height="{_SHARE_HEIGHT}"/>'
    text = f"{number(value)} of {number(most)} at most" + (f", {number(before)} before" if mark else "")
    return Drawing(
        f'<svg class="share" viewBox="0 0 {_SHARE_WIDTH} {_SHARE_HEIGHT}" width="{_SHARE_WIDTH}" height="{_SHARE_HEIGHT}" '
        f'role="img" aria-label="{escape(text)}"><rect x="0" y="0" width="{_SHARE_WIDTH}" height="{_SHARE_HEIGHT}"/>'
        f'<rect class="part" x="0" y="0" width="{width}" height="{_SHARE_HEIGHT}"/>{mark}</svg>',
        text,
    )
