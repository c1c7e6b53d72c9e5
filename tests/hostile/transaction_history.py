"""Logs with transactions, their committed records by the markers alone, and readers with read_committed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.control import ControlType, control_type
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.repair.verification import Job, SegmentVerifier
from odradek.storage.segments.aborted import AbortedTransaction

NOW_MS = 1_700_000_000_000


def committed_values(data: bytes, aborted: Iterable[tuple[int, int]]) -> list[bytes]:
    """Returns the values for a read_committed consumer; `aborted`: producer id and first offset of each transaction."""
    coming = sorted((first, who) for who, first in aborted)
    now: set[int] = set()
    values: list[bytes] = []
    for position, header in iter_headers(data):
        records = decode_batch(data, position, header)
        while coming and coming[0][0] <= header.last_offset:
            now.add(coming.pop(0)[1])
        if header.is_control:
            if control_type(records[0].key) is ControlType.ABORT:
                now.discard(header.producer_id)
        elif header.producer_id not in now or not header.is_transactional:
            values += [record.value or b"" for record in records]
    return values


def read_all(log: Log) -> bytes:
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20)
        data, offset = data + piece.bytes(), piece.next_offset
    return data


def expected_values(data: bytes) -> list[bytes]:
    """Returns the values of the committed records, by the markers."""
    outcome: dict[tuple[int, int], bool] = {}
    turns: dict[int, int] = {}
    batches: list[tuple[tuple[int, int], list[bytes]]] = []
    for position, header in iter_headers(data):
        who, records = header.producer_id, decode_batch(data, position, header)
        key = who, turns.get(who, 0)
        if header.is_control:
            outcome[key] = control_type(records[0].key) is ControlType.COMMIT
            turns[who] = key[1] + 1
        else:
            batches.append((key, [record.value or b"" for record in records]))
    return [value for key, values in batches if outcome.get(key, False) for value in values]


class History:
    """A log of small segments with transactions of some producers at random, by `rng`."""

    def __init__(self, path: Path, rng: random.Random, steps: int = 150) -> None:
        self.log = Log.open(path, "t", 0, LogConfig(segment_bytes=1500), now_ms=NOW_MS)
        self._sequences: dict[int, int] = {}
        for _ in range(steps):
            who = rng.randrange(4)
            if rng.random() < 0.6:
                self.write(who)
            else:  # some attempts end no transaction
                self.end(who, committed=rng.random() < 0.4)
        for who in range(4):
            self.end(who, committed=rng.random() < 0.5)
        self.expected = expected_values(read_all(self.log))

    def write(self, who: int) -> None:
        offset, sequence = self.log.log_end_offset, self._sequences.get(who, 0)
        self._sequences[who] = sequence + 1
        record = Record(offset, NOW_MS, None, b"%d at %d" % (who, offset))
        kind = {"producer_id": who, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        self.log.append(encode_batch([record], leader_epoch=0, **kind), None, NOW_MS)

    def end(self, who: int, *, committed: bool) -> None:
        marker = encode_end_transaction(
            committed, base_offset=self.log.log_end_offset, timestamp=NOW_MS, producer_id=who, producer_epoch=0,
            coordinator_epoch=0, leader_epoch=0,
        )  # fmt: skip
        self.log.append(marker, None, NOW_MS)

    def verify(self, *, is_compacted: bool = False) -> int:
        """Verifies all segments and corrects their indexes. Returns the number of wrong indexes."""
        log, wrong = self.log, 0
        for segment in log.segments:
            base = segment.base_offset
            earlier = tuple((one.base_offset, one.size) for one in log.segments_before(base, 8))
            is_closed = segment is not log.active
            asked = Job(log.directory, base, segment.next_offset, segment.size, is_compacted, is_closed, earlier)
            verifier = SegmentVerifier(asked).run()
            if verifier.aborted is not None:
                entries, is_wrong = verifier.aborted, verifier.is_aborted_wrong
                wrong += log.correct_aborted(segment, entries, segment.next_offset, is_wrong=is_wrong)
        return wrong

    def forget(self) -> None:
        """Drops the state in memory, as a start does."""
        for segment in self.log.segments:
            segment.has_aborted = None

    def entries(self) -> list[AbortedTransaction]:
        return self.log.aborted_transactions(0, self.log.log_end_offset)

    def read_committed(self, rng: random.Random) -> list[bytes]:
        """Reads as a consumer does, a few offsets at a time."""
        values: list[bytes] = []
        offset, end = 0, self.log.log_end_offset
        while offset < end:
            piece = self.log.read(offset, rng.choice((1, 300, 900)))
            aborted = self.log.aborted_transactions(offset, piece.next_offset)
            values += committed_values(piece.bytes(), [(one.producer_id, one.first_offset) for one in aborted])
            offset = piece.next_offset
        return values

    def indexes(self) -> list[Path]:
        return sorted(Path(self.log.path).glob("*.txnindex"))


def remove_snapshots(log: Log) -> None:
    for snapshot in Path(log.path).glob("*.snapshot"):
        snapshot.unlink()
