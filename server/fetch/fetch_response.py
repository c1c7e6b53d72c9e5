"""The response to a Fetch: what was found for each partition, with its topics, leaders and aborted transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    PartitionData,
    SnapshotId,
)
from ...protocol.messages.leader_id_and_epoch import LeaderIdAndEpoch
from ...protocol.messages.node_endpoints import NodeEndpoint
from ...protocol.uuids import ZERO_UUID
from ...replication.replica_role import ANY_EPOCH
from ...storage.log.log import OffsetOutOfRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.fetch import FetchResponse
    from ...storage.log.log import Log
    from ...storage.segments.slices import LogSlice
    from ..controller.leaders import Leaders
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.remote_reads import RemoteSlice
    from .fetched_partition import FetchedPartition

_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
_LED_ELSEWHERE = (_NOT_LEADER_OR_FOLLOWER, int(ErrorCode.FENCED_LEADER_EPOCH))

NO_REPLICA = -1
# Shared by all responses that say nothing there.
NO_EPOCH = EpochEndOffset()
NO_LEADER = LeaderIdAndEpoch()
NO_SNAPSHOT = SnapshotId()
NO_NODES: list[NodeEndpoint] = []


class FetchResult(NamedTuple):
    """The result for one partition. `hosted` is None and `records` empty where there is an error."""

    wanted: FetchedPartition
    hosted: HostedPartition | None
    data: PartitionData
    records: LogSlice | RemoteSlice | None


def topics_of(results: list[FetchResult], pieces: Sequence[Any], *, uses_ids: bool) -> list[FetchableTopicResponse]:
    topics: list[FetchableTopicResponse] = []
    current = None
    for one, piece in zip(results, pieces, strict=True):
        hosted = one.hosted
        if piece is not None:
            one.data.records = piece
            if hosted is not None:
                hosted.counters.bytes_out += len(piece)
        if hosted is not None:
            hosted.counters.fetches += 1
        name = one.wanted.key[0]
        if name != current:
            current = name
            topic = FetchableTopicResponse("", name, []) if uses_ids else FetchableTopicResponse(name, ZERO_UUID, [])
            topics.append(topic)
        topics[-1].partitions.append(one.data)
    return topics


def add_leaders(leaders: Leaders, listener: str, results: list[FetchResult], response: FetchResponse) -> None:
    """Adds the current leaders of partitions that are led by other brokers (KIP-951)."""
    nodes: dict[int, NodeEndpoint] = {}
    for one in results:
        if one.data.error_code in _LED_ELSEWHERE:
            leader = leaders.current_leader(listener, one.wanted.key[0], one.data.partition_index)
            one.data.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
            if leader.node is not None:
                nodes[leader.id] = NodeEndpoint(*leader.node)
    if nodes:
        response.node_endpoints = list(nodes.values())


def rejected(index: int, error: int, aborted: list[AbortedTransaction] | None) -> PartitionData:
    return PartitionData(index, error, -1, -1, -1, NO_EPOCH, NO_LEADER, NO_SNAPSHOT, aborted, NO_REPLICA, b"")


def nothing_yet(hosted: HostedPartition, wanted: FetchedPartition) -> FetchResult:
    """No records for now, and no error."""
    log, high_watermark = hosted.log, hosted.role.high_watermark
    stable = log.last_stable_offset(high_watermark)
    data = PartitionData(
        hosted.index, 0, high_watermark, stable, log.log_start_offset, NO_EPOCH, NO_LEADER, NO_SNAPSHOT, [], NO_REPLICA,
        b"",
    )  # fmt: skip
    return FetchResult(wanted, hosted, data, None)


def is_remote(hosted: HostedPartition, offset: int) -> bool:
    """Returns whether only the remote store has the offset."""
    log = hosted.log
    return log.config.remote_storage and log.log_start_offset <= offset < log.local_log_start_offset


def out_of_range_error(hosted: HostedPartition, wanted: FetchedPartition) -> int:
    """Returns the error for an offset that the log of this replica does not have.

    Only the leader's log shows what the partition has. A follower may not have it yet, or have lost it with its power. A
    consumer that sends the leader's epoch asks the leader after OFFSET_OUT_OF_RANGE (KIP-392). One that does not
    (aiokafka) may have come with old metadata, and would begin at `auto.offset.reset`: it is sent to the leader. Apache
    Kafka returns OFFSET_OUT_OF_RANGE here too (KAFKA-14255).
    """
    if hosted.is_leader or wanted.current_leader_epoch != ANY_EPOCH:
        return _OFFSET_OUT_OF_RANGE
    return _NOT_LEADER_OR_FOLLOWER


def is_urgent(data: PartitionData) -> bool:
    """Returns True if the partition has something to report beside records: the response must not wait then."""
    return data.error_code != 0 or data.diverging_epoch is not NO_EPOCH or data.preferred_read_replica != NO_REPLICA


def starts_elsewhere(result: FetchResult) -> bool:
    """Returns True if a follower must get a new log start offset: DeleteRecords may wait for it."""
    return result.data.log_start_offset != result.wanted.sent_log_start_offset


def elsewhere(hosted: HostedPartition, replica: int, *, isolated: bool) -> PartitionData:
    """No records: they are to be read from another replica (KIP-392)."""
    high_watermark, log = hosted.high_watermark, hosted.log
    return PartitionData(
        hosted.index, 0, high_watermark, log.last_stable_offset(high_watermark), log.log_start_offset, NO_EPOCH,
        NO_LEADER, NO_SNAPSHOT, [] if isolated else None, replica, b"",
    )  # fmt: skip


def diverging_epoch(log: Log, wanted: FetchedPartition) -> EpochEndOffset:
    """Returns the offset at which the fetcher's log diverges from this one, if it does (KIP-595). Raises
    OffsetOutOfRange.
    """
    epoch, end_offset = log.epoch_end_offset(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"nothing is known of epoch {wanted.last_fetched_epoch}")
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return NO_EPOCH


def aborted_transactions(log: Log, offset: int, up_to_offset: int) -> list[AbortedTransaction]:
    entries = log.aborted_transactions(offset, up_to_offset)
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]
