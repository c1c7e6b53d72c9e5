"""Leaders of partitions on other brokers, as responses to clients name them."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode
from odradek.server.controller.leaders import Leader, Leaders, ReachedBroker

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_partitions import NotedPartitions

#: The listener on which broker 9 is reached.
LISTENER = "L"


class ScriptedLeaders(Leaders):
    """Broker 9 leads all partitions in epoch 4. It is known where the clients of partition 0 reach it."""

    def __init__(self) -> None:
        super().__init__(node_of().metadata, NotedPartitions(), inter_broker_listener=LISTENER, node_id=1)

    def current_leader(self, listener: str, topic: str | bytes, index: int) -> Leader:
        assert listener == LISTENER
        return Leader(9, 4, ReachedBroker(9, "h", 1, None) if index == 0 else None)

    def absent_error(self, topic: str | bytes, index: int) -> int:
        return ErrorCode.UNKNOWN_TOPIC_ID
