"""Checks that a request's cost is proportional to its size, and that it blocks the loop no longer than the budget."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.server.endpoints import endpoint_files, endpoint_of
from odradek.server.network.portions import EACH

from tests.hostile.cost_probe import MeasuredBroker, frame_of
from tests.hostile.cost_requests import Shape, World, request_of, shapes

#: Shorter CPU times are not compared: they are noise and headers.
COMPARED_S = 0.020
FIRST_COUNT = 1000
#: Twice the size may take twice the time, times this factor: other programs share the processor and its caches.
TOLERANCE = 1.35
#: The longest turn allowed, in CPU time of the loop's thread. The product's budget is 20 ms on a quiet machine.
LONGEST_TURN_S = 0.060
#: Measurements when the first exceeds the tolerance, of which the least counts.
REPETITIONS = 5
TOPIC, GROUP = "t", "g"


@dataclass
class Finding:
    shape: Shape
    count: int
    total_s: float
    twice_s: float
    longest_turn_s: float

    @property
    def is_compared(self) -> bool:
        return self.total_s >= COMPARED_S

    @property
    def ratio(self) -> float:
        return self.twice_s / self.total_s

    def violations(self, longest_turn_s: float = LONGEST_TURN_S) -> list[str]:
        found = []
        if self.is_compared and self.ratio > 2 * TOLERANCE:
            found.append(f"{self.shape}: twice of {self.count} items takes {self.ratio:.2f} times as long")
        if self.longest_turn_s > longest_turn_s:
            found.append(f"{self.shape}: a turn of {self.longest_turn_s * 1000:.0f} ms for {2 * self.count} items")
        return found

    def __str__(self) -> str:
        return (
            f"{self.shape!s:90s} {self.count:7d} items {self.total_s * 1000:8.1f} ms, twice {self.twice_s * 1000:8.1f} ms, "
            f"longest turn {self.longest_turn_s * 1000:6.1f} ms"
        )


def all_shapes() -> list[Shape]:
    return list(shapes("broker", frozenset(endpoint_files())))


def one_of_each_api() -> Iterator[Shape]:
    """Yields the deepest array of each API with distinct items; with items that are all alike too, where the broker treats
    these differently.
    """
    found: dict[tuple[str, bool], Shape] = {}
    for shape in all_shapes():
        endpoint = endpoint_of(shape.api)
        if shape.repeats and all(one.repeats == EACH for one in endpoint.portionings) and not endpoint.is_sliced:
            continue
        key = shape.api.name, shape.repeats
        if key not in found or len(shape.path) > len(found[key].path):
            found[key] = shape
    yield from found.values()


def made_world(broker: MeasuredBroker) -> World:
    topic = CreatableTopic(name=TOPIC, num_partitions=4, replication_factor=1)
    created = broker.client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    for key_type in (0, 1):
        broker.client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[GROUP]), 4)
    broker.settle()
    return World(TOPIC, created.topics[0].topic_id, GROUP, broker.broker.server.node_id)


def check(broker: MeasuredBroker, world: World, shape: Shape, most: int) -> Finding:
    """Doubles the number of items, up to `most`, until the cost is large enough to compare with that of twice as many."""
    count = FIRST_COUNT
    total_s = broker.total_s(frame_of(request_of(shape, world, count), shape.version))
    while total_s < COMPARED_S and 2 * count <= most:
        count *= 2
        total_s = broker.total_s(frame_of(request_of(shape, world, count), shape.version))
    once = frame_of(request_of(shape, world, count), shape.version)
    twice = frame_of(request_of(shape, world, 2 * count), shape.version)
    finding = Finding(shape, count, total_s, broker.total_s(twice), broker.longest_turn_s(twice))
    if finding.violations():
        totals = [(broker.total_s(once), broker.total_s(twice)) for _ in range(REPETITIONS)]
        finding.total_s, finding.twice_s = (min(column) for column in zip(*totals))
        turns = [finding.longest_turn_s, *(broker.longest_turn_s(twice) for _ in range(2))]
        finding.longest_turn_s = statistics.median(turns)
    return finding
