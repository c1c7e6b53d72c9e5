"""ListOffsets: the offset of a timestamp, or of a named place in the log.

A timestamp is looked up by the time index, and is answered by the first record that is not older; no record from
the high watermark on is found (the last stable offset with read_committed). Below zero, timestamps are named places
(`protocol/log_places.py`). A place that the version does not have is UNSUPPORTED_VERSION. LATEST_TIERED and
EARLIEST_PENDING_UPLOAD are -1 for a topic that is not tiered.

A timestamp is looked up in the remote part of a tiered topic first, on a thread.

A partition that is twice in one request is INVALID_REQUEST. A new leader whose high watermark has not reached the start
of its epoch returns OFFSET_NOT_AVAILABLE (KIP-207), or LEADER_NOT_AVAILABLE where the version has no such error.

Contract: `protocol/messages/list_offsets.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...protocol.behaviour_versions import LIST_OFFSETS_WITH_NOT_AVAILABLE, LIST_OFFSETS_WITH_TIMESTAMP
from ...protocol.errors import ErrorCode
from ...protocol.isolation import READ_COMMITTED
from ...protocol.log_places import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ...protocol.node_ids import CONSUMER, DEBUGGING_CONSUMER
from ...protocol.records.errors import BatchError
from ...storage.files.failures import LogDirectoryFailure
from ...storage.segments.timestamps import LargeBatch, TimestampedOffset
from ..access.authorization.requirements import Each
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import TOGETHER, Portioning
from ..partitions.hosted_partition import HostedPartition
from ..runtime.memory import LARGE_BYTES, release_after

if TYPE_CHECKING:
    from ..network.call import Call
    from ..partitions.remote_port import RemotePort
    from ..services import Services

_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)

#: Versions that know a timestamp which stands for no place.
_NO_VERSIONS = range(0)

_UNKNOWN = -1


class RejectedLookUp(Exception):
    def __init__(self, error: int) -> None:
        super().__init__()
        self.error = error


def handle(services: Services, call: Call[ListOffsetsRequest]) -> ListOffsetsResponse | None:
    request = call.request
    asked = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    response = ListOffsetsResponse()
    lookups: list[tuple[ListOffsetsPartitionResponse, _Later]] = []
    remote: list[tuple[ListOffsetsPartitionResponse, _InRemote]] = []
    names = [topic.name for topic in request.topics]
    denied = _TOPICS.denied(services.access.authorizer, call, names)
    for topic in request.topics:
        results = []
        # A partition that is twice in the request gets one error.
        for partition in {partition.partition_index: partition for partition in topic.partitions}.values():
            index = partition.partition_index
            result = ListOffsetsPartitionResponse(index, 0, _UNKNOWN, _UNKNOWN, _UNKNOWN)
            results.append(result)
            try:
                if topic.name in denied:
                    raise RejectedLookUp(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if asked[topic.name, index] > 1:
                    raise RejectedLookUp(ErrorCode.INVALID_REQUEST)
                _fill(result, _find(services, call, topic.name, partition))
            except RejectedLookUp as rejected:
                result.error_code = rejected.error
            except _Later as later:
                lookups.append((result, later))
            except _InRemote as search:
                remote.append((result, search))
        response.topics.append(ListOffsetsTopicResponse(topic.name, results))
    if remote:
        _search_remote(services, call, response, lookups, remote)
        return None
    if not lookups:
        return response
    _respond_later(services, call, response, lookups)
    return None


def _fill(result: ListOffsetsPartitionResponse, timestamped: TimestampedOffset) -> None:
    result.timestamp, result.offset, result.leader_epoch = (
        timestamped.timestamp,
        timestamped.offset,
        timestamped.leader_epoch,
    )


class _Later(Exception):
    """A thread has to open the batch. `end`: where the reader's view ends; `not_yet`: the error behind that, or 0."""

    def __init__(self, batch: LargeBatch, end: int, not_yet: int) -> None:
        super().__init__()
        self.batch = batch
        self.end = end
        self.not_yet = not_yet


class _InRemote(Exception):
    """The record may be in the remote store. `local`: the lookup in the local log, where the store has none."""

    def __init__(self, hosted: HostedPartition, timestamp: int, local: Callable[[], TimestampedOffset]) -> None:
        super().__init__()
        self.hosted = hosted
        self.timestamp = timestamp
        self.local = local


def _search_remote(
    services: Services,
    call: Call[ListOffsetsRequest],
    response: ListOffsetsResponse,
    lookups: list[tuple[ListOffsetsPartitionResponse, _Later]],
    remote: list[tuple[ListOffsetsPartitionResponse, _InRemote]],
) -> None:
    """Searches the remote store for all partitions at once, up to `remote.list.offsets.request.timeout.ms`."""
    pending = dict(enumerate(remote))
    port = services.partitions.hosted.remote
    assert port is not None, "only tiered topics are searched in the store"

    def end() -> None:
        timer.cancel()
        for result, search in pending.values():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            port.search_expired(search.hosted.topic)
        pending.clear()
        if lookups:
            _respond_later(services, call, response, lookups)
        else:
            call.reply(response)

    def searched(number: int, error: int, timestamped: TimestampedOffset | None) -> None:
        if pending.pop(number, None) is None:
            return
        result, search = remote[number]
        try:
            if error:
                raise RejectedLookUp(error)
            _fill(result, timestamped if timestamped is not None else _guarded(services, search.hosted, search.local))
        except RejectedLookUp as rejected:
            result.error_code = rejected.error
        except _Later as later:
            lookups.append((result, later))
        if not pending:
            end()

    most_ms = services.config.get("remote.list.offsets.request.timeout.ms")
    wait_ms = min(most_ms, call.request.timeout_ms or most_ms)
    timer = asyncio.get_running_loop().call_later(wait_ms / 1000, end)
    for number, (_, search) in enumerate(remote):
        port.find_by_timestamp(search.hosted, search.timestamp, partial(searched, number))


def _respond_later(
    services: Services,
    call: Call[ListOffsetsRequest],
    response: ListOffsetsResponse,
    lookups: list[tuple[ListOffsetsPartitionResponse, _Later]],
) -> None:
    work = [later.batch.find for _, later in lookups]
    opening = services.node.pools.cpu.start(lambda: [find() for find in work])

    def reply(opened: asyncio.Future[list[TimestampedOffset | None]]) -> None:
        for (result, later), found in zip(lookups, opened.result(), strict=True):
            if found is not None and found.offset < later.end:
                _fill(result, found)
            else:
                result.error_code = later.not_yet
        release_after(LARGE_BYTES)
        call.reply(response)

    opening.add_done_callback(reply)


def _find(
    services: Services, call: Call[ListOffsetsRequest], topic: str, asked: ListOffsetsPartition
) -> TimestampedOffset:
    request = call.request
    if asked.timestamp < 0 and call.version not in LIST_OFFSETS_WITH_TIMESTAMP.get(asked.timestamp, _NO_VERSIONS):
        raise RejectedLookUp(ErrorCode.UNSUPPORTED_VERSION)
    hosted = services.partitions.hosted.get((topic, asked.partition_index))
    if hosted is None:
        raise RejectedLookUp(services.replicas.leaders.absent_error(topic, asked.partition_index))
    leader_only = request.replica_id != DEBUGGING_CONSUMER
    error = hosted.error_for_epoch(asked.current_leader_epoch, leader_only=leader_only)
    if error:
        raise RejectedLookUp(error)
    is_consumer = request.replica_id == CONSUMER
    isolated = request.isolation_level == READ_COMMITTED
    local = partial(_look_up, hosted, asked.timestamp, call.version, is_consumer=is_consumer, isolated=isolated)
    if hosted.log.config.remote_storage:
        port = services.partitions.hosted.remote
        return _look_up_tiered(hosted, port, asked.timestamp, partial(_guarded, services, hosted, local))
    return _guarded(services, hosted, local)


def _look_up_tiered(
    hosted: HostedPartition, port: RemotePort | None, timestamp: int, local: Callable[[], TimestampedOffset]
) -> TimestampedOffset:
    """Looks up in a log with a remote part. Raises _InRemote where the store is to be searched first."""
    log = hosted.open_log()
    start = log.local_log_start_offset
    if timestamp == EARLIEST_LOCAL:
        return TimestampedOffset(start, _UNKNOWN, log.epochs.epoch_for_offset(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        from ...tiers.listed_offsets import earliest_pending_upload, latest_tiered

        highest = None if port is None else port.highest_remote_offset(hosted)
        if highest is None:
            raise RejectedLookUp(ErrorCode.REPLICA_NOT_AVAILABLE)
        epochs = log.epochs.entries()
        if timestamp == LATEST_TIERED:
            found = latest_tiered(epochs, highest)
        else:
            found = earliest_pending_upload(epochs, highest, log.log_start_offset, start)
        return TimestampedOffset(found.offset, _UNKNOWN, found.epoch)
    if timestamp >= 0 and port is not None and log.log_start_offset < start:
        raise _InRemote(hosted, timestamp, local)
    return local()


def _guarded(
    services: Services, hosted: HostedPartition, look_up: Callable[[], TimestampedOffset]
) -> TimestampedOffset:
    """Calls `look_up`. Raises Rejected for what a failing disk and damage are answered with."""
    try:
        return look_up()
    except LogDirectoryFailure as failure:
        hosted.on_failure(failure)
        raise RejectedLookUp(ErrorCode.KAFKA_STORAGE_ERROR) from None
    except BatchError as damaged:
        services.replicas.scrubber.met(hosted, damaged)
        raise RejectedLookUp(damaged.error_code) from None


def _look_up(
    hosted: HostedPartition, timestamp: int, version: int, *, is_consumer: bool, isolated: bool
) -> TimestampedOffset:
    log = hosted.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampedOffset(log.log_start_offset, _UNKNOWN, _epoch_at_start(hosted))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return TimestampedOffset(_UNKNOWN, _UNKNOWN, _UNKNOWN)
    not_yet = is_consumer and hosted.role.leader_epoch_start_offset > hosted.high_watermark
    end = log.log_end_offset
    if is_consumer:
        end = hosted.last_stable_offset if isolated else hosted.high_watermark
    if timestamp == LATEST:
        if not_yet:
            raise RejectedLookUp(_not_available(version))
        return TimestampedOffset(end, _UNKNOWN, hosted.leader_epoch)
    log = hosted.open_log()
    try:
        found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    except LargeBatch as batch:
        raise _Later(batch, end, _not_available(version) if not_yet else 0) from None
    if found is not None and found.offset < end:
        return found
    if not_yet:
        raise RejectedLookUp(_not_available(version))
    return TimestampedOffset(_UNKNOWN, _UNKNOWN, _UNKNOWN)


def _epoch_at_start(hosted: HostedPartition) -> int:
    """The epoch that wrote the first record, where it is known."""
    entries = hosted.open_log().epochs.entries()
    return entries[0][0] if entries and entries[0][1] <= hosted.log_start_offset else _UNKNOWN


def _not_available(version: int) -> int:
    if version in LIST_OFFSETS_WITH_NOT_AVAILABLE:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


ENDPOINT: ApiEndpoint[ListOffsetsRequest, ListOffsetsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_TOPICS,),
    portionings=(
        Portioning(("topics", "partitions"), ("topics", "partitions"), TOGETHER, attrgetter("partition_index")),
    ),
)
