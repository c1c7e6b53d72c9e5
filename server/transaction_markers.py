"""Markers of transactions into the partitions that are led here: for WriteTxnMarkers and the coordinator here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .internal_topics import GROUP_METADATA_TOPIC
from .leaders import absent_error

if TYPE_CHECKING:
    from .broker import BrokerServer


class Marker(NamedTuple):
    """The end of a producer's transaction, as its coordinator decided it. `transaction_version`: of the client."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


def write_marker(broker: BrokerServer, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
    """`done` gets an error code, or 0 when the marker is committed. Of a group's offsets, its shard must hear."""
    hosted = broker.partitions.get((topic, index))
    if hosted is None:
        done(absent_error(broker.image, topic, index))
    elif topic == GROUP_METADATA_TOPIC:
        broker.groups.end_transaction(index, marker, done)
    else:
        result = hosted.end_transaction(marker, broker.now_ms())
        if result.error:
            done(result.error)
        else:
            hosted.when_committed(result.end_offset, done)
