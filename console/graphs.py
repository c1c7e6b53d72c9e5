"""Directed graphs as SVG: nodes are in layers from left to right, by their longest way from a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from .parts import Drawing

_BOX_WIDTH, _BOX_HEIGHT, _ACROSS, _DOWN, _MARGIN = 190, 34, 60, 14, 10
_MOST_CHARACTERS = 26
#: A larger topology is cut; the tables below it have all.
MOST_NODES = 200
Edges = Mapping[str, Sequence[str]]


def layers(edges: Edges) -> list[list[str]]:
    """Nodes by layer. Nodes of a cycle, which no topology has, come last."""
    names = list(dict.fromkeys([*edges, *(target for targets in edges.values() for target in targets)]))
    incoming = dict.fromkeys(names, 0)
    for targets in edges.values():
        for target in targets:
            incoming[target] += 1
    depth = dict.fromkeys(names, 0)
    ready = [name for name in names if not incoming[name]]
    done: list[str] = []
    while ready:
        name = ready.pop(0)
        done.append(name)
        for target in edges.get(name, ()):
            depth[target] = max(depth[target], depth[name] + 1)
            incoming[target] -= 1
            if not incoming[target]:
                ready.append(target)
    made: list[list[str]] = [[] for _ in range(max((depth[name] for name in done), default=-1) + 1)]
    for name in done:
        made[depth[name]].append(name)
    rest = [name for name in names if name not in set(done)]
    return [*made, rest] if rest else made


def graph(edges: Edges, kinds: Mapping[str, str]) -> Drawing:
    """`kinds` are classes of the style sheet: topic, store or node."""
    chosen = layers(edges)
    places: dict[str, tuple[int, int]] = {}
    for column, names in enumerate(chosen):
        for row, name in enumerate(names):
            if len(places) < MOST_NODES:
                places[name] = (_MARGIN + column * (_BOX_WIDTH + _ACROSS), _MARGIN + row * (_BOX_HEIGHT + _DOWN))
    width = max((x for x, _ in places.values()), default=0) + _BOX_WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _BOX_HEIGHT + _MARGIN
    drawn = [
        _arrow(places[source], places[target])
        for source, targets in edges.items()
        for target in targets
        if source in places and target in places
    ]
    drawn += [_box(name, kinds.get(name, "node"), *place) for name, place in places.items()]
    text = f"A topology of {len(places)} nodes: " + ", ".join(places)
    return Drawing(
        f'<svg class="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(text[:500])}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>{"".join(drawn)}</svg>',
        text,
    )


def _arrow(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = source[0] + _BOX_WIDTH, source[1] + _BOX_HEIGHT // 2
    x2, y2 = target[0], target[1] + _BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f'<path class="edge" marker-end="url(#tip)" d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _box(name: str, kind: str, x: int, y: int) -> str:
    shown = name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"
    return (
        f'<g class="box {escape(kind)}"><title>{escape(name)}</title>'
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="5"/>'
        f'<text x="{x + _BOX_WIDTH // 2}" y="{y + 22}" text-anchor="middle">{escape(shown)}</text></g>'
    )
