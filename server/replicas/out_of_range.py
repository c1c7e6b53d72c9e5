"""The recovery of a follower whose fetch offset is outside of its leader's log.

If the follower's log is longer, since the leader was elected uncleanly, it is truncated to the leader's end. If it
ends before the leader's begins, since the follower was down for longer than the retention, it starts over there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...protocol.log_places import EARLIEST, LATEST
from ...protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...storage.files.failures import LogDirectoryFailure

if TYPE_CHECKING:
    from ...client.peers import Endpoint
    from ...protocol.messages.list_offsets import ListOffsetsResponse
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.clock import Clock
    from .fetch_ports import FetchRequests

log = logging.getLogger("odradek.replicas")

PURPOSE = "replica-offsets"


class Cut(Protocol):
    """A followed partition whose log can be cut."""

    hosted: HostedPartition
    epoch: int

    @property
    def is_current(self) -> bool: ...

    def truncate(self, offset: int, now_ms: int) -> None: ...

    def start_over(self, offset: int, now_ms: int) -> None: ...


def ask_for_ends(requests: FetchRequests, clock: Clock, endpoint: Endpoint, followed: Cut) -> None:
    """Requests the leader's end offset, and truncates or restarts the log by the response. Until then fetches fail."""
    _ask(requests, endpoint, followed, LATEST, partial(_end_known, requests, clock, endpoint, followed))


def _ask(
    requests: FetchRequests,
    endpoint: Endpoint,
    followed: Cut,
    timestamp: int,
    then: Callable[[int], None],
) -> None:
    asked = ListOffsetsPartition(followed.hosted.index, followed.epoch, timestamp)
    topics = [ListOffsetsTopic(followed.hosted.topic, [asked])]
    request = ListOffsetsRequest(replica_id=requests.node_id, topics=topics)
    requests.send(endpoint, request, partial(_reported, followed, then), purpose=PURPOSE)


def _reported(followed: Cut, then: Callable[[int], None], response: ListOffsetsResponse | None) -> None:
    if response is None or not followed.is_current:
        return
    found = response.topics[0].partitions[0]
    if not found.error_code:
        try:
            then(found.offset)
        except LogDirectoryFailure as failure:
            followed.hosted.on_failure(failure)


def _end_known(requests: FetchRequests, clock: Clock, endpoint: Endpoint, followed: Cut, leader_end: int) -> None:
    hosted = followed.hosted
    if leader_end < hosted.log_end_offset:
        log.warning(
            "%s: ends at offset %d, but the leader's log at offset %d: the replica is truncated",
            hosted.name,
            hosted.log_end_offset,
            leader_end,
        )
        followed.truncate(leader_end, clock.now_ms())
    else:
        _ask(requests, endpoint, followed, EARLIEST, partial(_start_known, clock, followed))


def _start_known(clock: Clock, followed: Cut, leader_start: int) -> None:
    hosted = followed.hosted
    if leader_start > hosted.log_end_offset:
        log.warning(
            "%s: ends at offset %d, but the leader's log begins at offset %d: the replica restarts there",
            hosted.name,
            hosted.log_end_offset,
            leader_start,
        )
        followed.start_over(leader_start, clock.now_ms())
