"""The consumer protocol in JoinGroup and SyncGroup, decoded and encoded for groups in migration (KIP-848).

The version precedes the subscription or assignment. Every version begins with the fields of the earlier ones, so a
newer version is read as the newest one supported here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from ....metadata.image import MetadataImage
from ....protocol.codec import MalformedMessage, decode, encode
from ....protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from ....protocol.schema import Message
from .member import Partitions

_VERSION = struct.Struct(">h")
NEWEST = 3


class MalformedEmbedded(Exception):
    """The bytes are not a valid subscription or assignment."""


def version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedEmbedded("no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedEmbedded(f"version {version}")
    return min(version, NEWEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    subscription: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, data)
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decodes an assignment. Empty bytes mean that nothing is assigned."""
    assignment: ConsumerProtocolAssignment = _read(ConsumerProtocolAssignment, data) if data else _nothing()
    return assignment


def _nothing() -> ConsumerProtocolAssignment:
    return ConsumerProtocolAssignment(assigned_partitions=[])


def _read(cls: type[Message], data: bytes) -> Any:
    try:
        return decode(cls, version_of(data), data, _VERSION.size)[0]
    except MalformedMessage as error:
        raise MalformedEmbedded(str(error)) from error


def write_assignment(image: MetadataImage, partitions: Partitions, version: int) -> bytes:
    """Encodes an assignment without deleted topics, since the classic protocol has only topic names."""
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := image.topic_by_id(topic_id)) is not None
    ]
    return _VERSION.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def by_id(image: MetadataImage, named: Iterable[Any]) -> dict[bytes, frozenset[int]]:
    """Returns partitions by topic id, from any structures with `topic` and `partitions`."""
    return {
        topic.id: frozenset(one.partitions)
        for one in named
        if one.partitions and (topic := image.topic(one.topic)) is not None
    }
