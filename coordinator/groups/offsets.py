"""Committed offsets in the group coordinator: OffsetCommit 2-10, OffsetFetch 1-10 and OffsetDelete 0."""

from __future__ import annotations

from ...protocol.behaviour_versions import OFFSET_COMMIT_WITH_MEMBER_EPOCHS
from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.internal.consumer_offsets import OffsetCommitValue
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ...protocol.uuids import ZERO_UUID
from ..result import GroupRequest
from .committed_offsets import CommittedOffset, OffsetStore, Partitions
from .group import Group
from .shard_state import ShardState

NO_RETENTION_OF_ITS_OWN = -1
#: The maximum timestamp of a record: a client may request any retention.
LAST_TIMESTAMP = (1 << 63) - 1


def commit(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, OffsetCommitRequest)
    group = state.groups.get(request.group_id)
    rules = None if group is None else state.kind_of(group).offsets
    if rules is None:
        error = _validate_without_group(message.version, request)
    else:
        error = rules.validate_commit(state, group, request, message.version, now_ms)
    if error is not ErrorCode.NONE:
        state.reply(message, error_response_to(request, message.version, error))
        return
    retention_ms = request.retention_time_ms
    expire_timestamp = -1 if retention_ms == NO_RETENTION_OF_ITS_OWN else min(now_ms + retention_ms, LAST_TIMESTAMP)
    response = OffsetCommitResponse()
    for topic in request.topics:
        responses = []
        for partition in topic.partitions:
            error = ErrorCode.NONE
            if rules is not None and rules.validate_partition is not None:
                error = rules.validate_partition(group, request, topic.topic_id, partition.partition_index)
            fits = metadata_fits(partition.committed_metadata, state.config.offset_metadata_max_bytes)
            if not fits:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if error is ErrorCode.NONE:
                value = _committed(partition, topic.topic_id, now_ms, expire_timestamp)
                state.write_offset(request.group_id, topic.name, partition.partition_index, value)
                state.counters.offset_commits += 1
            responses.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error))
        response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=responses)
        )
    state.reply(message, response)


def _validate_without_group(version: int, request: OffsetCommitRequest) -> ErrorCode:
    """Validates a commit to a missing group. Without a generation it is from a simple consumer or a tool."""
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if version in OFFSET_COMMIT_WITH_MEMBER_EPOCHS else ErrorCode.ILLEGAL_GENERATION


def metadata_fits(metadata: str | None, limit: int) -> bool:
    """Returns whether the metadata is within the limit. Kafka counts UTF-16 units, one or two per character."""
    if not metadata or 2 * len(metadata) <= limit:
        return True
    units = len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2
    return units <= limit


def _committed(
    partition: OffsetCommitRequestPartition, topic_id: bytes, now_ms: int, expire_timestamp: int
) -> OffsetCommitValue:
    """Returns the record. With its own expiry it has no leader epoch and no topic id, so memory keeps neither."""
    expires = expire_timestamp != -1
    epoch = partition.committed_leader_epoch
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=epoch if epoch >= 0 and not expires else -1,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_timestamp,
        topic_id=ZERO_UUID if expires else topic_id,
    )


def fetch(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, OffsetFetchRequest)
    groups = []
    for asked in request.groups:
        group = state.groups.get(asked.group_id)
        validate_fetch = None if group is None else state.kind_of(group).offsets.validate_fetch
        error = ErrorCode.NONE if validate_fetch is None else validate_fetch(group, asked)
        if error is ErrorCode.NONE:
            groups.append(_fetch_group(state.offsets, asked, request.require_stable))
        else:
            groups.append(OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error))
    state.reply(message, OffsetFetchResponse(groups=groups))


def _fetch_group(store: OffsetStore, asked: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    """Fetches the offsets of one group. A missing group has no offsets; that is not an error here."""
    topics = store.of_group(asked.group_id)
    if asked.topics is None:
        wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=list(known)) for name, known in topics.items()]
    else:
        wanted = asked.topics
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _unstable(index)
                    if require_stable and store.is_pending(asked.group_id, topic.name, index)
                    else _fetched(index, topics.get(topic.name, {}), topic.topic_id)
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted
        ],
    )


def _fetched(index: int, partitions: Partitions, topic_id: bytes) -> OffsetFetchResponsePartitions:
    committed = partitions.get(index)
    if committed is None or _is_of_another_topic(committed, topic_id):
        return _nothing_committed(index)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _is_of_another_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """Returns whether the offset was committed for a deleted topic with the same name."""
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _nothing_committed(index: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return _nothing_committed(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def delete(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, OffsetDeleteRequest)
    group = state.groups.get(request.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else state.kind_of(group).offsets.validate_delete(group)
    if group is None or error is not ErrorCode.NONE:
        state.reply(message, OffsetDeleteResponse(error_code=error))
        return
    topics = [_delete_topic(state, group, topic) for topic in request.topics]
    state.reply(message, OffsetDeleteResponse(topics=topics))


def _delete_topic(state: ShardState, group: Group, topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    subscribed = group.is_subscribed_to(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
    response = OffsetDeleteResponseTopic(name=topic.name)
    for partition in topic.partitions:
        index = partition.partition_index
        response.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
        if not subscribed and _is_known(state.offsets, group.group_id, topic.name, index):
            state.write_offset(group.group_id, topic.name, index, None)
            state.counters.offset_deletions += 1
    return response


def _is_known(store: OffsetStore, group_id: str, topic: str, index: int) -> bool:
    return store.get(group_id, topic, index) is not None or store.is_pending(group_id, topic, index)
