"""Loading of a transaction shard from its log. Of records with the same key only the last counts, as after compaction.

The interface is that of the group loader: `feed` takes some batches at a time, `replay_some` replays some records.
"""

from __future__ import annotations

from ..protocol.buffer import Buffer
from ..protocol.codec import MalformedMessage
from ..protocol.records.batch import iter_headers
from .log_order import LogOrder
from .record_framing import UnknownRecord
from .skipped_records import UNUSABLE, SkippedRecords
from .transaction_records import decode_record
from .transaction_requests import TransactionsConfig
from .transaction_shard import TransactionShard


class TransactionLoader:
    def __init__(self, config: TransactionsConfig, name: str) -> None:
        self.shard = TransactionShard(config)
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        self._skipped = SkippedRecords(name)
        self._order = LogOrder(self._skipped)
        #: Key -> offset and value of its last record.
        self._latest: dict[bytes, tuple[int, bytes | None]] = {}

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        latest = self._latest
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            self._order.follow(header)
            if header.is_control:
                continue
            for record in self._order.records(batches, position, header):
                if record.key is not None:
                    latest.pop(record.key, None)
                    latest[record.key] = record.offset, record.value

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        latest = self._latest
        for key in [key for key, _ in zip(latest, range(count))]:
            offset, value = latest.pop(key)
            try:
                record = decode_record(key, value)
            except (UnknownRecord, MalformedMessage) as error:
                self._skipped.undecodable(offset, error)
                continue
            state = self.shard.state
            assert offset >= state.next_offset, f"{self.name}: offset {offset} is replayed at {state.next_offset}"
            state.next_offset = offset
            try:
                self.shard.replay(record)
            except UNUSABLE as error:
                self._skipped.unusable(offset, error)
        return bool(latest)

    def loaded(self, log_end_offset: int, now_ms: int) -> TransactionShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        state = self.shard.state
        assert log_end_offset >= state.next_offset, f"{self.name} ends at {log_end_offset}, after {state.next_offset}"
        state.next_offset = log_end_offset
        self._skipped.log_count()
        self.shard.loaded(now_ms)
        return self.shard
