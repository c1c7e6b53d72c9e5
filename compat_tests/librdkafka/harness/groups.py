"""Consumers of a group, and the end of its rebalances."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer

from compat_tests.recipes import eventually

PARTITIONS = 4


def shares(*consumers: Consumer) -> Callable[[], bool]:
    """Returns a check that the members share all partitions evenly."""

    def even() -> bool:
        sizes = [len(one.assignment()) for one in consumers]
        return sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1

    return even


def settle(*consumers: Consumer) -> None:
    """Polls the members in turn until they share the partitions."""
    even = shares(*consumers)

    def turn() -> bool:
        for one in consumers:
            message = one.poll(0.02)
            assert message is None or message.error() is None
        return even()

    eventually(turn, what="the members share the partitions")
