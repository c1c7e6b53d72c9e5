"""The start of a follower of a tiered partition.

Its leader answered OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405, KIP-1023). The follower asks for the leader's local start, or
for the first offset that is not in the store, and for the epoch of the record before it. The remote segment with that
record has the leader epochs and the producers of its end, where the log then begins.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.log_places import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD
from ...protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ...storage.files.failures import LogDirectoryFailure
from ...tiers.auxiliary_state import fetch_auxiliary_state
from ...tiers.store import RemoteStorageError

if TYPE_CHECKING:
    from ...protocol.schema import Request, ResponseT
    from .remote_log import RemoteLog
    from .work import RemoteWork

log = logging.getLogger("odradek.remote")

_PURPOSE = "remote follower"
_TIMEOUT_MS = 30_000
_NOT_NOW = int(ErrorCode.REPLICA_NOT_AVAILABLE)


class _CannotStart(Exception):
    """The leader's response has an error, there is none, or the segment is not known yet."""


async def start_follower(work: RemoteWork, remote: RemoteLog, leader_start: int) -> int:
    """Returns an error code; the caller tries again. `leader_start`: the leader's log start offset, -1: not known."""
    counters = work.counters.topic(remote.hosted.topic)
    counters.aux_requests += 1
    try:
        await _start_behind_remote(work, remote, leader_start)
    except (_CannotStart, RemoteStorageError) as error:
        log.warning("%s: its start behind the remote part: %s", remote.hosted.name, error)
    except LogDirectoryFailure as failure:
        remote.hosted.on_failure(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR
    except Exception as failure:
        log.exception("a bug: %s did not start behind its remote part", remote.hosted.name, exc_info=failure)
        counters.aux_errors += 1
        return ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        return ErrorCode.NONE
    counters.aux_errors += 1
    return _NOT_NOW


async def _start_behind_remote(work: RemoteWork, remote: RemoteLog, leader_start: int) -> None:
    hosted, epoch = remote.hosted, remote.hosted.leader_epoch
    pending = work.config.get("follower.fetch.last.tiered.offset.enable")
    offset, offset_epoch = await _leader_offset(work, remote, EARLIEST_PENDING_UPLOAD if pending else EARLIEST_LOCAL)
    if offset < 0:
        offset, offset_epoch = await _leader_offset(work, remote, EARLIEST_LOCAL)
    if leader_start < 0:
        leader_start, _ = await _leader_offset(work, remote, EARLIEST)
    if offset <= leader_start:  # nothing is in the store only
        _check_unchanged(remote, epoch)
        hosted.open_log().truncate_fully_and_start_at(offset, work.clock.now_ms())
        hosted.truncated()
        return
    cache = remote.cache
    if cache is None:
        raise _CannotStart("the metadata of its segments is not read yet")
    before = await _epoch_before(work, remote, offset, offset_epoch)
    segment = cache.segment_for(before, offset - 1)
    if segment is None:
        raise _CannotStart(f"no remote segment has offset {offset - 1} of epoch {before}")
    state = await work.followers.run(fetch_auxiliary_state, work.store, segment)
    _check_unchanged(remote, epoch)
    hosted.open_log().begin_after_remote(
        state.start_offset, work.clock.now_ms(), leader_start, state.epochs, state.producers
    )
    hosted.truncated()
    log.info("%s: begins at offset %d, behind %s", hosted.name, state.start_offset, segment)


def _check_unchanged(remote: RemoteLog, epoch: int) -> None:
    hosted = remote.hosted
    if hosted.is_removed or hosted.offline or hosted.is_leader or hosted.leader_epoch != epoch:
        raise _CannotStart("the partition has another leader")


async def _leader_offset(work: RemoteWork, remote: RemoteLog, timestamp: int) -> tuple[int, int]:
    """Returns (offset, epoch) of the leader's response to ListOffsets."""
    hosted = remote.hosted
    asked = ListOffsetsPartition(hosted.index, hosted.leader_epoch, timestamp)
    request = ListOffsetsRequest(replica_id=work.node_id, topics=[ListOffsetsTopic(hosted.topic, [asked])])
    found = (await _ask_leader(work, remote, request)).topics[0].partitions[0]
    if found.error_code:
        raise _CannotStart(f"the leader's response is {ErrorCode(found.error_code).name}")
    return found.offset, found.leader_epoch


async def _epoch_before(work: RemoteWork, remote: RemoteLog, offset: int, epoch: int) -> int:
    """Returns the epoch of the record before `offset`, at which `epoch` is the leader's."""
    if epoch <= 0:
        return max(epoch, 0)
    hosted = remote.hosted
    asked = OffsetForLeaderPartition(hosted.index, hosted.leader_epoch, epoch - 1)
    request = OffsetForLeaderEpochRequest(work.node_id, [OffsetForLeaderTopic(hosted.topic, [asked])])
    found = (await _ask_leader(work, remote, request)).topics[0].partitions[0]
    if found.error_code:
        raise _CannotStart(f"the leader's response is {ErrorCode(found.error_code).name}")
    earlier: int = found.leader_epoch
    return earlier if found.end_offset >= offset else epoch


async def _ask_leader(work: RemoteWork, remote: RemoteLog, request: Request[ResponseT]) -> ResponseT:
    endpoint = work.leaders.other_leader(remote.hosted.topic, remote.hosted.index)
    if endpoint is None:
        raise _CannotStart("the partition has no leader")
    answered: asyncio.Future[ResponseT | None] = asyncio.get_running_loop().create_future()

    def reply(response: ResponseT | None) -> None:
        if not answered.done():
            answered.set_result(response)

    work.peers().send(endpoint, request, reply, timeout_ms=_TIMEOUT_MS, purpose=_PURPOSE)
    response = await answered
    if response is None:
        raise _CannotStart(f"{endpoint.address} does not respond")
    return response
