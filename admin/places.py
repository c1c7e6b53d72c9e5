"""Partitions by name: the keys of what is computed, and sums over the partitions of a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Place = tuple[str, int]
"""Topic and partition."""


def sum_by_topic(counts: Mapping[Place, int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (topic, _), count in counts.items():
        found[topic] += count
    return dict(found)
