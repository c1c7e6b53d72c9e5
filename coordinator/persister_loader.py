"""Loading of a persister shard from its log. Every record is replayed in order, since updates build on earlier ones.

The interface is that of the group loader: `feed` takes some batches at a time, `replay_some` replays some records.
"""

from __future__ import annotations

from collections import deque

from ..protocol.buffer import Buffer
from ..protocol.codec import MalformedMessage
from ..protocol.records.batch import iter_headers
from .log_order import LogOrder
from .persister_shard import PersisterShard
from .record_framing import UnknownRecord
from .share_state import PersisterConfig
from .share_state_records import decode_record
from .skipped_records import UNUSABLE, SkippedRecords


class PersisterLoader:
    def __init__(self, config: PersisterConfig, name: str) -> None:
        self.shard = PersisterShard(config)
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        self._skipped = SkippedRecords(name)
        self._order = LogOrder(self._skipped)
        self._fed: deque[tuple[int, bytes, bytes | None]] = deque()

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            self._order.follow(header)
            if not header.is_control:
                for record in self._order.records(batches, position, header):
                    if record.key is not None:
                        self._fed.append((record.offset, record.key, record.value))

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        for _ in range(min(count, len(self._fed))):
            offset, key, value = self._fed.popleft()
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
        return bool(self._fed)

    def loaded(self, log_end_offset: int, now_ms: int) -> PersisterShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        state = self.shard.state
        assert log_end_offset >= state.next_offset, f"{self.name} ends at {log_end_offset}, after {state.next_offset}"
        state.next_offset = log_end_offset
        self._skipped.log_count()
        self.shard.loaded(now_ms)
        return self.shard
