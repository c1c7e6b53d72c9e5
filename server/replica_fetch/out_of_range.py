"""A follower that asks for what its leader does not have: the leader's ends say where to go on.

Its log may be longer (the leader was elected uncleanly), then the rest goes; or it may end before the leader's begins (it
was away for longer than records are kept), then it starts over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...storage.files.open_files import LogDirectoryFailure

if TYPE_CHECKING:
    from ..network.endpoint import Endpoint
    from ..node import Node
    from .followed_partition import FollowedPartition

log = logging.getLogger("odradek.replicas")

LATEST = -1
EARLIEST = -2
PURPOSE = "replica-offsets"


def ask_for_ends(broker: Node, endpoint: Endpoint, followed: FollowedPartition) -> None:
    """Asks for the leader's end; the follower is put right when the answer has come. Until then it fails again."""
    _ask(broker, endpoint, followed, LATEST, partial(_end_known, broker, endpoint, followed))


def _ask(
    broker: Node, endpoint: Endpoint, followed: FollowedPartition, timestamp: int, then: Callable[[int], None]
) -> None:
    asked = ListOffsetsPartition(followed.hosted.index, followed.epoch, timestamp)
    request = ListOffsetsRequest(replica_id=broker.node_id, topics=[ListOffsetsTopic(followed.hosted.topic, [asked])])
    broker.peers().send(
        endpoint,
        request,
        partial(_told, followed, then),
        timeout_ms=broker.config.get("replica.socket.timeout.ms"),
        purpose=PURPOSE,
    )


def _told(followed: FollowedPartition, then: Callable[[int], None], response: ListOffsetsResponse | None) -> None:
    if response is None or not followed.is_current:
        return
    found = response.topics[0].partitions[0]
    if not found.error_code:
        try:
            then(found.offset)
        except LogDirectoryFailure as failure:
            followed.hosted.on_failure(failure)


def _end_known(broker: Node, endpoint: Endpoint, followed: FollowedPartition, leader_end: int) -> None:
    hosted = followed.hosted
    if leader_end < hosted.log_end_offset:
        log.warning(
            "%s: ends at %d, and its leader's log at %d: the rest goes", hosted.name, hosted.log_end_offset, leader_end
        )
        followed.truncate(leader_end, broker.now_ms())
    else:
        _ask(broker, endpoint, followed, EARLIEST, partial(_start_known, broker, followed))


def _start_known(broker: Node, followed: FollowedPartition, leader_start: int) -> None:
    hosted = followed.hosted
    if leader_start > hosted.log_end_offset:
        log.warning("%s: ends at %d, and its leader's begins at %d", hosted.name, hosted.log_end_offset, leader_start)
        followed.start_over(leader_start, broker.now_ms())
