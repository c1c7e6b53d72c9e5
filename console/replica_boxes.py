"""Replicas of a partition as SVG: boxes of one broker stand below each other."""

from __future__ import annotations

from collections.abc import Sequence

from .parts import Drawing

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
