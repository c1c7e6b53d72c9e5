"""Leaders of partitions and their endpoints, for responses that redirect a client (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode
from ..network.endpoint import Endpoint

if TYPE_CHECKING:
    from ..network.call import Call
    from ..node import Node as Parts

NO_LEADER = -1


class Node(NamedTuple):
    """A broker as one listener's clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None


class Leader(NamedTuple):
    """`id` and `epoch` are -1 without a known leader; `node` is None where its listener is not."""

    id: int
    epoch: int
    node: Node | None


def current_leader(call: Call, topic: str, index: int) -> Leader:
    """A replica here knows it first: whoever waits for one is told before the image is published that says so."""
    hosted = call.broker.partitions.get((topic, index))
    if hosted is not None:
        role = hosted.role
        return Leader(role.leader, role.leader_epoch, _node(call, role.leader))
    partition = call.broker.image.partition(topic, index)
    if partition is None:
        return Leader(NO_LEADER, -1, None)
    return Leader(partition.leader, partition.leader_epoch, _node(call, partition.leader))


def _node(call: Call, broker_id: int) -> Node | None:
    broker = call.broker.image.broker(broker_id)
    endpoint = broker.listeners.get(call.listener) if broker is not None else None
    if broker is None or endpoint is None:
        return None
    return Node(broker_id, endpoint.host, endpoint.port, broker.rack)


def broker_endpoint(broker: Parts, broker_id: int) -> Endpoint | None:
    """Returns the inter-broker endpoint of another broker; None when it is not known."""
    name = broker.config.listeners.inter_broker_name
    found = broker.image.broker(broker_id)
    endpoint = found.listeners.get(name) if found is not None else None
    return Endpoint(name, endpoint.host, endpoint.port) if endpoint is not None else None


def other_leader(broker: Parts, topic: str, index: int) -> Endpoint | None:
    """Returns the inter-broker endpoint of a partition's leader; None when this broker leads it, or no broker does."""
    partition = broker.image.partition(topic, index)
    if partition is None or partition.leader in (NO_LEADER, broker.node_id):
        return None
    return broker_endpoint(broker, partition.leader)


def absent_error(broker: Parts, topic: str | bytes, index: int) -> int:
    """Returns the error for a partition, by its topic's name or id, that this broker does not host: it is hosted on other
    brokers, it does not exist, or there is no room for it here.
    """
    image = broker.image
    found = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if (found.name, index) in broker.partitions.unmade:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if index in found.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
