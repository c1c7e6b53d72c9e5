"""Loading of a group shard from its log.

Of records with the same key only the last counts, as after compaction. So a quick first pass finds the last record
of each key, and only those are decoded and replayed. Transactional records take effect with their marker, so they
and the markers are replayed in log order between all others. The same holds for a consumer group that becomes a
classic one: only records that are deleted with it contain its members' assignments (consumer/migration.py).

Both steps run in slices, so that the caller can do other work in between: `feed` takes some batches at a time,
`replay_some` replays some records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ...protocol.codec import MalformedMessage
from ...protocol.internal.classic_group_records import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.internal.consumer_group_records import ConsumerGroupMetadataKey
from ...protocol.records.batch import BatchHeader, iter_headers
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.record import Record, decode_batch
from ...protocol.schema import Message
from ...protocol.varint import Buffer
from ..common.result import GroupsConfig, UnknownRecord, decode_key, decode_value, encode_framed, number_of
from ..common.result import Record as CoordinatorRecord
from .base.offsets import NO_PRODUCER_ID
from .kinds import KINDS
from .shard import GroupShard

# Records of `__consumer_offsets` as bytes, and back.


def prefix_of(key_class: type[Message]) -> bytes:
    """The bytes that keys of this class begin with."""
    return KINDS.prefixes[key_class]


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they stand in the log; a tombstone has no value."""
    return encode_framed(KINDS.prefixes[type(record.key)], record)


def decode_record(key: Buffer, value: Buffer | None) -> CoordinatorRecord:
    """Raises UnknownRecord, and MalformedMessage for bytes that are not what they say."""
    number = number_of(key)
    if number == 0:
        # Kafka still reads commits of its first days: the key is the same but for the number.
        legacy = decode_key(LegacyOffsetCommitKey, key)
        assert isinstance(legacy, LegacyOffsetCommitKey)
        made = OffsetCommitKey(group=legacy.group, topic=legacy.topic, partition=legacy.partition)
        return decode_value(made, OffsetCommitValue, value)
    found = KINDS.record_type(number)
    if found is None:
        raise UnknownRecord(f"a record of kind {number}")
    key_class, value_class = found
    return decode_value(decode_key(key_class, key), value_class, value)


log = logging.getLogger(__name__)

Latest = dict[bytes, tuple[int, bytes | None]]

_CLASSIC_GROUP, _CONSUMER_GROUP = prefix_of(GroupMetadataKey), prefix_of(ConsumerGroupMetadataKey)


class ShardLoader:
    def __init__(self, config: GroupsConfig, name: str) -> None:
        self.shard = GroupShard(config)
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        #: Key -> offset and value of its last record since the last transaction, in the order of these records.
        self._latest: Latest = {}
        self._unknown: set[str] = set()

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            if header.is_control:
                self._end_transaction(batches, position, header)
            elif header.is_transactional:
                self._feed_transaction(batches, position, header)
            else:
                self._feed_records(list(decode_batch(batches, position, header)))

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        latest = self._latest
        for key in [key for key, _ in zip(latest, range(count))]:
            offset, value = latest.pop(key)
            self._replay(offset, key, value, NO_PRODUCER_ID)
            # The records of the group's successor may follow much later, and its kind may differ by then.
            self.shard.state.last_removed = None
        return bool(latest)

    def loaded(self, log_end_offset: int, now: int) -> GroupShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        self.shard.state.next_offset = log_end_offset
        self.shard.loaded(now)
        return self.shard

    def _feed_records(self, records: Sequence[Record]) -> None:
        if _becomes_classic(records):
            self._replay_in_place(records, NO_PRODUCER_ID)
            return
        latest = self._latest
        for record in records:
            if record.key is not None:
                latest.pop(record.key, None)
                latest[record.key] = (record.offset, record.value)

    def _feed_transaction(self, batches: Buffer, position: int, header: BatchHeader) -> None:
        self._replay_in_place(decode_batch(batches, position, header), header.producer_id)

    def _replay_in_place(self, records: Iterable[Record], producer_id: int) -> None:
        while self.replay_some(1_000):
            pass
        for record in records:
            if record.key is not None:
                self._replay(record.offset, record.key, record.value, producer_id)

    def _end_transaction(self, batches: Buffer, position: int, header: BatchHeader) -> None:
        while self.replay_some(1_000):
            pass
        for record in decode_batch(batches, position, header):
            kind = control_type(record.key)
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                self.shard.end_of_transaction(header.producer_id, kind is ControlType.COMMIT)

    def _replay(self, offset: int, key: bytes, value: bytes | None, producer_id: int) -> None:
        try:
            record = decode_record(key, value)
        except (UnknownRecord, MalformedMessage) as error:
            # As in Kafka, records of newer versions are ignored. The warning is logged once per error.
            if str(error) not in self._unknown:
                self._unknown.add(str(error))
                log.warning("%s: records from offset %d on are skipped: %s", self.name, offset, error)
            return
        self.shard.state.next_offset = offset
        self.shard.replay(record, producer_id)


def _becomes_classic(records: Sequence[Record]) -> bool:
    """Returns whether a consumer group becomes a classic one in these records, which are one batch."""
    return any(
        end.value is None
        and end.key is not None
        and end.key.startswith(_CONSUMER_GROUP)
        and begin.value is not None
        and begin.key is not None
        and begin.key.startswith(_CLASSIC_GROUP)
        for end, begin in pairwise(records)
    )
