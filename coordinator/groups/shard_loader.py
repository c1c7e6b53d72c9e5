"""Loading of a group shard from its log. Of records with the same key only the last counts, as after compaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ...protocol.buffer import Buffer
from ...protocol.codec import MalformedMessage
from ...protocol.internal.consumer_group_records import ConsumerGroupMetadataKey
from ...protocol.internal.consumer_offsets import GroupMetadataKey
from ...protocol.records.batch import NO_PRODUCER_ID, BatchHeader, iter_headers
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.record import Record as LogRecord
from ..groups_config import GroupsConfig
from ..log_order import LogOrder
from ..record_framing import UnknownRecord
from ..skipped_records import UNUSABLE, SkippedRecords
from .kinds import Kinds
from .offsets_topic_records import decode_record
from .shard import GroupShard

Latest = dict[bytes, tuple[int, bytes | None]]


class ShardLoader:
    def __init__(self, config: GroupsConfig, kinds: Kinds, name: str) -> None:
        self.shard = GroupShard(config, kinds)
        self._kinds = kinds
        #: The bytes that the keys of groups' own records begin with.
        self._of_classic, self._of_consumer = kinds.prefixes[GroupMetadataKey], kinds.prefixes[ConsumerGroupMetadataKey]
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        #: Key -> offset and value of its last record since the last transaction, in the order of these records.
        self._latest: Latest = {}
        self._skipped = SkippedRecords(name)
        self._order = LogOrder(self._skipped)

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            self._order.follow(header)
            if header.is_control:
                self._end_transaction(batches, position, header)
            elif header.is_transactional:
                self._feed_transaction(batches, position, header)
            else:
                self._feed_records(self._order.records(batches, position, header))

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        latest = self._latest
        for key in [key for key, _ in zip(latest, range(count))]:
            offset, value = latest.pop(key)
            self._replay(offset, key, value, NO_PRODUCER_ID)
            # The records of the group's successor may follow much later, and its kind may differ by then.
            self.shard.state.last_removed = None
        return bool(latest)

    def loaded(self, log_end_offset: int, now_ms: int) -> GroupShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        state = self.shard.state
        assert log_end_offset >= state.next_offset, f"{self.name} ends at {log_end_offset}, after {state.next_offset}"
        state.next_offset = log_end_offset
        self._skipped.log_count()
        self.shard.loaded(now_ms)
        return self.shard

    def _feed_records(self, records: Sequence[LogRecord]) -> None:
        if self._becomes_classic(records):
            self._replay_in_place(records, NO_PRODUCER_ID)
            return
        latest = self._latest
        for record in records:
            if record.key is not None:
                latest.pop(record.key, None)
                latest[record.key] = (record.offset, record.value)

    def _feed_transaction(self, batches: Buffer, position: int, header: BatchHeader) -> None:
        self._replay_in_place(self._order.records(batches, position, header), header.producer_id)

    def _replay_in_place(self, records: Iterable[LogRecord], producer_id: int) -> None:
        while self.replay_some(1_000):
            pass
        for record in records:
            if record.key is not None:
                self._replay(record.offset, record.key, record.value, producer_id)

    def _end_transaction(self, batches: Buffer, position: int, header: BatchHeader) -> None:
        while self.replay_some(1_000):
            pass
        for record in self._order.records(batches, position, header):
            kind = control_type(record.key)
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                self.shard.end_of_transaction(header.producer_id, kind is ControlType.COMMIT)

    def _replay(self, offset: int, key: bytes, value: bytes | None, producer_id: int) -> None:
        try:
            record = decode_record(self._kinds, key, value)
        except (UnknownRecord, MalformedMessage) as error:
            self._skipped.undecodable(offset, error)
            return
        state = self.shard.state
        assert offset >= state.next_offset, f"{self.name}: offset {offset} is replayed at {state.next_offset}"
        state.next_offset = offset
        try:
            self.shard.replay(record, producer_id)
        except UNUSABLE as error:
            self._skipped.unusable(offset, error)

    def _becomes_classic(self, records: Sequence[LogRecord]) -> bool:
        """Returns whether a consumer group becomes a classic one in these records, which are one batch."""
        return any(
            end.value is None
            and end.key is not None
            and end.key.startswith(self._of_consumer)
            and begin.value is not None
            and begin.key is not None
            and begin.key.startswith(self._of_classic)
            for end, begin in pairwise(records)
        )
