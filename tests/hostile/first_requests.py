"""Prints the longest turn, in CPU seconds, of the first request of some APIs in this process.

python -m tests.hostile.first_requests
"""

from __future__ import annotations

from typing import Any

from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

from tests.hostile.cost_probe import MeasuredBroker, frame_of

REQUESTS: tuple[tuple[Any, int], ...] = (
    (CreateTopicsRequest(topics=[CreatableTopic("t", num_partitions=1, replication_factor=1)], timeout_ms=9000), 7),
    (FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4),
    (
        ConsumerGroupHeartbeatRequest(
            "g", rebalance_timeout_ms=9000, subscribed_topic_names=["t"], topic_partitions=[]
        ),
        0,
    ),
    (ShareGroupHeartbeatRequest("s", member_id="A" * 22, subscribed_topic_names=["t"]), 1),
)


def main() -> None:
    with MeasuredBroker() as broker:
        broker.settle()  # else a full collection, at a place of chance, scans all modules
        for request, version in REQUESTS:
            longest_s = broker.longest_turn_s(frame_of(request, version))
            print(type(request).__name__, f"{longest_s:.4f}")


if __name__ == "__main__":
    main()
