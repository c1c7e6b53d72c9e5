"""Logs of every kind for tests of scans, and their records by the storage's own decoder."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.compaction.cleaning_job import finish, job
from odradek.storage.compaction.dirty_range import look
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=20_000, index_interval_bytes=300)


class Row(NamedTuple):
    """A record as a scan has it: timestamp None for -1; headers as pairs."""

    offset: int
    timestamp: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class GeneratedLog:
    """A partition `t-0` with random batches. `rows`: all records by offset; `aborted`: offsets of aborted ones."""

    def __init__(self, directory: Path, seed: int, config: LogConfig = SMALL) -> None:
        self.path = directory / "t-0"
        self.topic_path = directory / "t"
        self.rng = random.Random(seed)
        self.log = Log.open(self.path, "t", 0, config, now_ms=NOW_MS)
        self.rows: dict[int, Row] = {}
        self.aborted: set[int] = set()
        self._open: dict[int, list[int]] = {}
        self._sequences: dict[int, int] = {}

    # ---- writing

    def record(self, offset: int) -> Record:
        rng = self.rng
        headers: list[tuple[str, bytes | None]] = [
            (rng.choice(["", "a", "größe", "n" * 40]), rng.choice([None, b"", rng.randbytes(9)]))
            for _ in range(rng.choice([0, 0, 0, 1, 3]))
        ]
        return Record(
            offset,
            rng.choice([-1, NOW_MS - 1000, NOW_MS + offset, NOW_MS + rng.randrange(10**6)]),
            rng.choice([None, b"", b"k%d" % rng.randrange(12), rng.randbytes(200)]),
            rng.choice([None, b"", rng.randbytes(rng.randrange(90)), b"z" * rng.randrange(400)]),
            headers,
        )

    @property
    def end(self) -> int:
        """The offset of the next batch."""
        return self.log.log_end_offset

    def write(self, batch: bytes) -> None:
        self.log.append(batch, None, NOW_MS)

    def append(self, records: list[Record] | None = None, **kind: Any) -> list[Record]:
        """Appends one batch, of random records unless some are given."""
        made = records or [self.record(self.end + number) for number in range(self.rng.randint(1, 9))]
        options = {"leader_epoch": 0, "compression": self.rng.choice(list(Compression))} | kind
        self.write(encode_batch(made, **options))
        append_time = options.get("log_append_time")
        for one in made:
            stamp = one.timestamp if append_time is None else append_time
            self.rows[one.offset] = Row(
                one.offset, None if stamp == -1 else stamp, int(append_time is not None), one.key, one.value,
                tuple(one.headers),
            )  # fmt: skip
        return made

    def append_transactional(self, producer_id: int) -> None:
        sequence = self._sequences.get(producer_id, 0)
        made = self.append(producer_id=producer_id, producer_epoch=1, base_sequence=sequence, transactional=True)
        self._sequences[producer_id] = sequence + len(made)
        self._open.setdefault(producer_id, []).extend(one.offset for one in made)

    def end_transaction(self, producer_id: int, *, committed: bool, leader_epoch: int = 0) -> None:
        marker = encode_end_transaction(
            committed, base_offset=self.end, timestamp=NOW_MS, producer_id=producer_id,
            producer_epoch=1, coordinator_epoch=0, leader_epoch=leader_epoch,
        )  # fmt: skip
        self.write(marker)
        offsets = self._open.pop(producer_id, [])
        if not committed:
            self.aborted |= set(offsets)

    def fill(self, steps: int, *, transactions: bool = True) -> None:
        for _ in range(steps):
            draw, producer_id = self.rng.random(), self.rng.randrange(3)
            if transactions and draw < 0.4:
                self.append_transactional(producer_id)
            elif transactions and draw < 0.6:
                self.end_transaction(producer_id, committed=self.rng.random() < 0.5)
            elif draw < 0.8:
                self.append()
            else:
                self.append(log_append_time=NOW_MS + self.rng.randrange(1000))

    def compact(self) -> None:
        """Cleans the closed segments, and has `rows` be those that are left."""
        cleaning = job(self.log, look(self.log, None, self.log.log_end_offset, NOW_MS), NOW_MS, 10_000)
        assert finish(self.log, cleaning, cleaning.run(), NOW_MS)
        self.log.delete_scheduled(NOW_MS + 10**9)
        left = {record.offset for _, records in self.batches() for record in records}
        self.rows = {offset: row for offset, row in self.rows.items() if offset in left}

    def close(self) -> None:
        self.log.close(NOW_MS)

    # ---- expected

    @property
    def last_stable_offset(self) -> int:
        return min((offsets[0] for offsets in self._open.values()), default=self.log.log_end_offset)

    def expected(self, *, committed: bool = False, first: int = 0, end: int = 1 << 62) -> list[Row]:
        if committed:
            end = min(end, self.last_stable_offset)
        return [
            row
            for offset, row in sorted(self.rows.items())
            if first <= offset < end and not (committed and offset in self.aborted)
        ]

    def batches(self) -> Iterator[tuple[Path, list[Record]]]:
        for file in sorted(self.path.glob("*.log")):
            data = file.read_bytes()
            for position, header in iter_headers(data):
                if not header.is_control:
                    yield file, decode_batch(data, position, header)

    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.log"))


def rows_of(table: Any, topic: str = "t") -> list[Row]:
    """The rows of a scan with all columns, checked to be valid Arrow."""
    table.validate(full=True)
    assert set(table.column("topic").to_pylist()) <= {topic} and set(table.column("partition").to_pylist()) <= {0}
    stamps = table.column("timestamp").cast("int64").to_pylist()
    headers = [tuple((one["key"], one["value"]) for one in many) for many in table.column("headers").to_pylist()]
    columns = [table.column(name).to_pylist() for name in ("offset", "timestamp_type", "key", "value")]
    return [
        Row(offset, stamp, kind, key, value, pairs)
        for offset, kind, key, value, stamp, pairs in zip(*columns, stamps, headers, strict=True)
    ]
