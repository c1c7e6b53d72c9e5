"""Drawings as SVG, made on the server: directed graphs, charts, and the replicas of partitions.

Colours are classes of the style sheet: the page allows no inline style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from .formats import number
from .parts import Chart, Drawing

# ---- directed graphs
#
# Nodes are in layers from left to right, by their longest way from a source.

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


# ---- charts

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


def chart(title: str, times: Sequence[float], values: Sequence[float], unit: str = "") -> Chart:
    newest = values[-1] if len(values) else None
    return Chart(title, f"{number(newest)}{unit}", sparkline(values, title), unit, times, values)


# ---- replicas of a partition

_REPLICA_WIDTH, _REPLICA_GAP, _REPLICA_HEIGHT = 26, 4, 20
#: In a larger cluster only the brokers with a replica have a box, in the order of the replicas.
_MOST_BROKERS = 12


def replicas_drawn(
    leader: int, replicas: Sequence[int], isr: Sequence[int], brokers: Sequence[int], away: frozenset[int]
) -> Drawing:
    places = list(brokers) if len(brokers) <= _MOST_BROKERS and set(replicas) <= set(brokers) else list(replicas)
    drawn = []
    for column, broker in enumerate(places):
        if broker in replicas:
            drawn.append(
                _replica_box(column * (_REPLICA_WIDTH + _REPLICA_GAP), broker, _state(broker, leader, isr, away))
            )
    behind = [broker for broker in replicas if broker not in isr]
    text = f"replicas on {_named(replicas)}, led by {leader if leader >= 0 else 'none'}"
    text += f", not in sync: {_named(behind)}" if behind else ", all in sync"
    width = len(places) * (_REPLICA_WIDTH + _REPLICA_GAP)
    return Drawing(
        f'<svg class="replicas" viewBox="0 0 {width} {_REPLICA_HEIGHT}" width="{width}" height="{_REPLICA_HEIGHT}" '
        f'role="img" aria-label="{text}"><title>{text}</title>{"".join(drawn)}</svg>',
        _named(replicas),
    )


def _state(broker: int, leader: int, isr: Sequence[int], away: frozenset[int]) -> str:
    if broker in away:
        return "away"
    if broker == leader:
        return "leader"
    return "follower" if broker in isr else "behind"


def _replica_box(x: int, broker: int, state: str) -> str:
    return (
        f'<g class="{state}"><rect x="{x + 1}" y="1" width="{_REPLICA_WIDTH - 2}" height="{_REPLICA_HEIGHT - 2}" rx="3"/>'
        f'<text x="{x + _REPLICA_WIDTH // 2}" y="14" text-anchor="middle">{broker}</text></g>'
    )


def _named(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))
