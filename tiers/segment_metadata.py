"""The metadata of remote segments and of deleted partitions: values, states and valid transitions (KIP-405).

| state of a segment | meaning | valid previous states |
|---|---|---|
| COPY_SEGMENT_STARTED | a leader may be writing objects of it; no reader uses it | none, itself |
| COPY_SEGMENT_FINISHED | all objects are in the store; readers use it | COPY_SEGMENT_STARTED, itself |
| DELETE_SEGMENT_STARTED | objects may be missing; no reader uses it | both of the copy, itself |
| DELETE_SEGMENT_FINISHED | no object is left; caches drop the segment | DELETE_SEGMENT_STARTED, itself |

A partition is DELETE_PARTITION_MARKED, then _STARTED, then _FINISHED. A state may be repeated: an event that was sent
twice changes nothing.

Values from outside are checked here, since they become names of files and sizes of buffers: `InvalidSegmentMetadata`.
"""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from ..protocol.uuids import UUID_BYTES, ZERO_UUID, uuid_to_text

METADATA_TOPIC = "__remote_log_metadata"
#: A topic's name is a part of object names, so nothing else may come through (Kafka's `Topic.LEGAL_CHARS`).
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MOST_OFFSET = (1 << 63) - 1
_MOST_INT32 = (1 << 31) - 1
#: A segment has an epoch for each of its batches at most, and a batch has 61 bytes at least: no file of 2 GiB has more
#: epochs than this, and a record of the metadata topic has room for fewer.
MOST_SEGMENT_EPOCHS = _MOST_INT32 // 61
#: Kafka's default of `remote.log.metadata.custom.metadata.max.bytes` is 128. A record from outside may have more, up to
#: this: one segment's metadata must not take the memory of thousands.
MOST_CUSTOM_METADATA_BYTES = 64 << 10


class InvalidSegmentMetadata(ValueError):
    """The metadata cannot be of a segment: an offset, a size, an epoch or a name is out of its range."""


class RemoteLogSegmentState(IntEnum):
    """`RemoteLogSegmentState` of Kafka; the numbers are those of the records."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """`RemotePartitionDeleteState` of Kafka; the numbers are those of the records."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STARTED, DELETE_SEGMENT_FINISHED = RemoteLogSegmentState
DELETE_PARTITION_MARKED, DELETE_PARTITION_STARTED, DELETE_PARTITION_FINISHED = RemotePartitionDeleteState

#: None: nothing is known of the segment, or of the partition's deletion.
VALID_PREVIOUS_STATES: dict[RemoteLogSegmentState, frozenset[RemoteLogSegmentState | None]] = {
    COPY_SEGMENT_STARTED: frozenset({None, COPY_SEGMENT_STARTED}),
    COPY_SEGMENT_FINISHED: frozenset({COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED}),
    DELETE_SEGMENT_STARTED: frozenset({COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STARTED}),
    DELETE_SEGMENT_FINISHED: frozenset({DELETE_SEGMENT_STARTED, DELETE_SEGMENT_FINISHED}),
}
VALID_PREVIOUS_DELETE_STATES: dict[RemotePartitionDeleteState, frozenset[RemotePartitionDeleteState | None]] = {
    DELETE_PARTITION_MARKED: frozenset({None, DELETE_PARTITION_MARKED}),
    DELETE_PARTITION_STARTED: frozenset({DELETE_PARTITION_MARKED, DELETE_PARTITION_STARTED}),
    DELETE_PARTITION_FINISHED: frozenset({DELETE_PARTITION_STARTED, DELETE_PARTITION_FINISHED}),
}


class TopicIdPartition(NamedTuple):
    """A partition with the id of its topic, 16 raw bytes: a topic of the same name that is created later is another one."""

    topic_id: bytes
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{uuid_to_text(self.topic_id)}:{self.topic}-{self.partition}"


class RemoteLogSegmentMetadata(NamedTuple):
    """A remote segment. Offsets are inclusive at both ends, times in milliseconds; the size is that of the log file.

    `epochs` are (leader epoch, its first offset in the segment), both ascending; the first one begins with the segment.
    """

    partition: TopicIdPartition
    segment_id: bytes
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    size_bytes: int
    epochs: tuple[tuple[int, int], ...]
    state: RemoteLogSegmentState = COPY_SEGMENT_STARTED
    #: Data of the store, opaque to the broker.
    custom_metadata: bytes | None = None
    #: Whether the segment has no aborted transactions. Records before Kafka 4.0 have False for "not known".
    txn_index_empty: bool = False

    def __str__(self) -> str:
        return (
            f"remote segment {uuid_to_text(self.segment_id)} of {self.partition}, offsets "
            f"{self.start_offset}-{self.end_offset}, {self.state.name}"
        )

    def epoch_end_offset(self, epoch: int) -> int:
        """Returns the last offset in the segment that `epoch`, one of its epochs, may have written."""
        following = [start for other, start in self.epochs if other > epoch]
        return following[0] - 1 if following else self.end_offset

    def has(self, epoch: int, offset: int) -> bool:
        """Returns whether the segment has `offset`, written in `epoch`."""
        return any(one == epoch and start <= offset for one, start in self.epochs) and offset <= self.epoch_end_offset(
            epoch
        )

    def updated(self, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
        """Returns the metadata after an update of the same segment; its custom metadata replaces the present one."""
        assert update.segment_id == self.segment_id, f"{update} is not an update of {self}"
        return self._replace(
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=update.custom_metadata,
            state=update.state,
        )


class SegmentRange(NamedTuple):
    """The offsets from `first_offset` up to, and without, `next_offset` of a copied segment."""

    first_offset: int
    next_offset: int
    segment: RemoteLogSegmentMetadata


class RemoteLogSegmentMetadataUpdate(NamedTuple):
    """A change of a segment's state."""

    partition: TopicIdPartition
    segment_id: bytes
    broker_id: int
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    custom_metadata: bytes | None = None


class RemotePartitionDeleteMetadata(NamedTuple):
    """A change of the state in which the deletion of a partition is."""

    partition: TopicIdPartition
    broker_id: int
    event_timestamp_ms: int
    state: RemotePartitionDeleteState


RemoteLogMetadata = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata


def check_partition(partition: TopicIdPartition) -> None:
    """Raises InvalidSegmentMetadata."""
    topic_id, topic, number = partition
    if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        raise InvalidSegmentMetadata(f"{topic[:300]!r} is not the name of a topic")
    if len(topic_id) != UUID_BYTES or topic_id == ZERO_UUID:
        raise InvalidSegmentMetadata(f"topic {topic} has no id")
    if not 0 <= number <= _MOST_INT32:
        raise InvalidSegmentMetadata(f"topic {topic} has partition {number}")


def check_segment(segment: RemoteLogSegmentMetadata) -> None:
    """Raises InvalidSegmentMetadata: for what Kafka's constructor rejects, and for what no log can have."""
    check_partition(segment.partition)
    if len(segment.segment_id) != UUID_BYTES or segment.segment_id == ZERO_UUID:
        raise InvalidSegmentMetadata(f"a segment of {segment.partition} has no id")
    start, end = segment.start_offset, segment.end_offset
    if not 0 <= start <= end < _MOST_OFFSET:
        raise InvalidSegmentMetadata(f"{segment}: the offsets are out of order")
    if not 0 <= segment.size_bytes <= _MOST_INT32:
        raise InvalidSegmentMetadata(f"{segment}: {segment.size_bytes} bytes")
    _check_epochs(segment)
    check_custom_metadata(segment.custom_metadata)


def _check_epochs(segment: RemoteLogSegmentMetadata) -> None:
    epochs = segment.epochs
    if not 1 <= len(epochs) <= MOST_SEGMENT_EPOCHS:
        raise InvalidSegmentMetadata(f"{segment}: {len(epochs)} leader epochs")
    is_ascending = all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(epochs))
    if not is_ascending or epochs[0][0] < 0 or epochs[0][1] < 0 or epochs[-1][1] > segment.end_offset + 1:
        raise InvalidSegmentMetadata(f"{segment}: the leader epochs are out of order: {epochs[:10]}")


def check_custom_metadata(content: bytes | None) -> None:
    """Raises InvalidSegmentMetadata."""
    if content is not None and len(content) > MOST_CUSTOM_METADATA_BYTES:
        raise InvalidSegmentMetadata(f"{len(content)} bytes of custom metadata, over {MOST_CUSTOM_METADATA_BYTES}")
