"""Logs whose batches and segments lie as a seed decides, and readings of them in every cut."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from odradek.columns import SCHEMA, Split, fetch_reader, open_segment, remote_segment, segment
from odradek.columns.cluster import Cluster
from odradek.columns.divided_splits import divided, sized
from odradek.columns.plan import PartitionPlan
from odradek.columns.readers import Reader, open_split
from odradek.columns.split_reader import ReadOptions
from odradek.protocol.records.batch import HEADER_BYTES, iter_headers
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import encode_batch
from odradek.storage.files.partition_metadata import write_topic_id
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.tiers.cache import Applied, RemoteLogMetadataCache
from odradek.tiers.events import encode_event
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.leader_tasks import CopyPlan, LeaderLog, copy_segment, plan_copies
from odradek.tiers.lineage import common_end
from odradek.tiers.metadata_snapshot import write_snapshot
from odradek.tiers.metadata_topic import MetadataPartition
from odradek.tiers.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentRange,
    TopicIdPartition,
)

from tests.columns.harness.logs import NOW_MS, GeneratedLog, Row, rows_of

#: Sizes of reads, the real one among them: batches then begin and end anywhere in a read.
READ_BYTES = (HEADER_BYTES + 1, 100, 300, 1_000, 5_000, 8 << 20)


def layout_config(rng: random.Random, **settings: Any) -> LogConfig:
    return LogConfig(
        segment_bytes=rng.choice((200, 700, 2_000, 6_000, 20_000, 1 << 30)),
        index_interval_bytes=rng.choice((1, 100, 300, 4096)),
        retention_ms=-1,
        file_delete_delay_ms=0,
        **settings,
    )


class Layout(GeneratedLog):
    """A log with gaps of offsets, batches without their first, last or all records, large batches, leader epochs, and
    appends of several batches, which a follower makes.
    """

    def __init__(self, directory: Path, seed: int, config: LogConfig | None = None) -> None:
        super().__init__(directory, seed, config or layout_config(random.Random(seed)))
        self.leader_epoch = 0
        #: Whether offsets are without records, as compaction leaves them.
        self.has_gaps = True
        self.has_leader_epochs = True
        self._waiting: list[bytes] = []
        self._end = 0

    @property
    def end(self) -> int:
        return self._end

    def write(self, batch: bytes) -> None:
        self._waiting.append(batch)
        self._end = int.from_bytes(batch[:8]) + int.from_bytes(batch[23:27]) + 1
        if self.rng.random() < 0.7:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            super().write(b"".join(self._waiting))
            self._waiting = []

    def fill(self, steps: int, *, transactions: bool = True) -> None:
        for _ in range(steps):
            draw, producer_id = self.rng.random(), self.rng.randrange(3)
            self.leader_epoch += draw > 0.93 and self.has_leader_epochs
            if draw < 0.1 and self.end and self.has_gaps:
                self._end += self.rng.choice((1, 3, 50))
            if transactions and draw < 0.4:
                self._append_part(producer_id)
            elif transactions and draw < 0.6:
                committed = self.rng.random() < 0.5
                self.end_transaction(producer_id, committed=committed, leader_epoch=self.leader_epoch)
            else:
                self._append_part(None)
        self.flush()

    def _append_part(self, producer_id: int | None) -> None:
        """Appends a batch, of which compaction may have removed records."""
        rng, base = self.rng, self.end
        count = rng.choice((1, 1, 2, 3, 9, 40))
        kept = [self.record(base + number) for number in range(count)]
        if rng.random() < 0.1:
            kept[0].value = rng.randbytes(rng.choice((3_000, 9_000)))
        if rng.random() < 0.3 and self.has_gaps:
            kept = [one for one in kept if rng.random() < 0.6]
        kind: dict[str, Any] = {"leader_epoch": self.leader_epoch, "base_offset": base, "last_offset": base + count - 1}
        if rng.random() < 0.1:
            kind["log_append_time"] = NOW_MS + rng.randrange(1000)
        if producer_id is not None:
            sequence = self._sequences.get(producer_id, 0)
            kind |= {"producer_id": producer_id, "producer_epoch": 1, "base_sequence": sequence, "transactional": True}
            self._sequences[producer_id] = sequence + count
            # An empty batch begins a transaction, too.
            self._open.setdefault(producer_id, []).extend([base, *(one.offset for one in kept)])
        if kept:
            self.append(kept, **kind)
        else:
            self.write(encode_batch([], **kind, compression=rng.choice(list(Compression))))

    def compact(self) -> None:
        if len(self.log.segments) > 1 and self.log.segments[1].base_offset <= self.last_stable_offset:
            super().compact()

    def expected_within(self, times: tuple[int, int], **of: Any) -> list[Row]:
        return [one for one in self.expected(**of) if times[0] <= stamp_of(one) < times[1]]


def stamp_of(row: Row) -> int:
    return -1 if row.timestamp is None else row.timestamp


def small_reads(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Has the readers read in pieces of random sizes."""
    monkeypatch.setattr(open_segment, "_CHUNK_BYTES", rng.choice(READ_BYTES))
    monkeypatch.setattr(open_segment, "_LEAST_READ", rng.choice(READ_BYTES))
    monkeypatch.setattr(open_segment, "_LARGE_BATCH", rng.choice((100, 16 << 10)))
    monkeypatch.setattr(segment, "_LEAST_READ", rng.choice(READ_BYTES))
    monkeypatch.setattr(segment, "_LARGE_BATCH", rng.choice((100, 16 << 10)))
    monkeypatch.setattr(segment, "_ROWS", rng.choice((1, 3, 8192)))
    monkeypatch.setattr(remote_segment, "CHUNK_BYTES", rng.choice(READ_BYTES))
    monkeypatch.setattr(remote_segment, "_ROWS", rng.choice((1, 3, 8192)))
    monkeypatch.setattr(fetch_reader, "_ROWS", rng.choice((1, 3, 8192)))


def parts_of(rng: random.Random, plan: PartitionPlan) -> list[Split]:
    """The splits of a plan, or smaller ones, as Spark and Polars make them."""
    how = rng.randrange(4)
    if how == 0:
        return list(plan.splits)
    if how == 1:
        return sized(plan, rng.choice((0, 1_000, 100_000)), rng.choice((50, 500, 5_000)))
    made = [part for one in plan.splits for part in divided(one, rng.choice((1, 2, 3, 7, 40)))]
    return [part for one in made for part in divided(one, rng.choice((1, 2)))] if how == 3 else made


def read(
    splits: Sequence[Split], cluster: Cluster | None = None, *, topic: str = "t", skip: bool = False
) -> tuple[list[Row], list[Reader]]:
    """The rows of all splits, each read by a reader of its own."""
    readers = [open_split(one, ReadOptions(SCHEMA.names, skip), cluster) for one in splits]
    return rows_of(pa.Table.from_batches([batch for one in readers for batch in one], SCHEMA), topic), readers


def check_cover(splits: Sequence[Split], start: int, end: int) -> None:
    """Splits have each offset from `start` up to `end` once, in order."""
    at = start
    for one in splits:
        assert one.first_offset == at < one.next_offset, splits
        at = one.next_offset
    assert at == end, (splits, start, end)


def unread_by(readers: Iterator[Reader] | Sequence[Reader]) -> list[int]:
    """The offsets that readers report as unread. Each is reported once."""
    found = [
        offset for reader in readers for one in reader.unread for offset in range(one.first_offset, one.next_offset)
    ]
    assert len(found) == len(set(found))
    return found


# ---- tiered storage


class Fork(NamedTuple):
    """A point of a log behind which another leader wrote other batches, in the epoch before: an unclean election."""

    batches: int
    end: int
    leader_epoch: int
    opened: dict[int, list[int]]
    sequences: dict[int, int]


class TieredLayout(Layout):
    """A layout whose closed segments are in a store, copied by several replicas with segments of other borders.

    A replica may have been the leader of an unclean election: the end of its log is of another history.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed, layout_config(random.Random(seed), remote_storage=True))
        self.partition = TopicIdPartition(random.Random(seed).randbytes(16), "t", 0)
        write_topic_id(str(self.path), self.partition.topic_id)
        self.client = {
            "remote.log.storage.manager.class.name": "folder", "rsm.config.dir": str(directory / "store"),
        }  # fmt: skip
        self.store = FolderStore({"dir": str(directory / "store")})
        self.store.create()
        self.batches_written: list[bytes] = []
        self.cache = RemoteLogMetadataCache()
        self.forks: list[Fork] = []
        self._metadata = MetadataPartition(0)
        self._metadata.follow(self.partition, 0)
        self._events = 0

    def write(self, batch: bytes) -> None:
        epoch = int.from_bytes(batch[12:16])
        if self.batches_written and epoch > int.from_bytes(self.batches_written[-1][12:16]):
            base = int.from_bytes(batch[:8])
            opened = {one: [at for at in offsets if at < base] for one, offsets in self._open.items()}
            opened = {one: offsets for one, offsets in opened.items() if offsets}
            before = int.from_bytes(self.batches_written[-1][12:16])
            self.forks.append(Fork(len(self.batches_written), base, before, opened, dict(self._sequences)))
        self.batches_written.append(batch)
        super().write(batch)

    def copy_segments(self) -> None:
        """Copies the segments of the log and of other replicas, in any order, and removes some of the log's own."""
        rng, copies = self.rng, list[tuple[Log, list[CopyPlan]]]()
        for number in range(rng.choice((0, 1, 3))):
            log = self._replica(number)
            plans = self._plans(log, number + 1)
            first, last = sorted(rng.randrange(len(plans) + 1) for _ in range(2))
            copies.append((log, plans[first:last]))
        self._epochs = self.log.epochs.entries()
        own = self._plans(self.log, 0)
        copies.append((self.log, own))
        for _, plans in rng.sample(copies, len(copies)):
            for plan in plans:
                copy_segment(plan, self.store, self._publish, lambda: NOW_MS, lambda: True)
        if own:
            self.log.remove_first(rng.choice((len(own), rng.randint(1, len(own)))), NOW_MS)
        self._metadata.advance(self._events)
        path = f"{self.topic_path.parent}/odradek-remote-log-metadata-0.snapshot"
        write_snapshot(path, b"m" * 16, self._metadata)

    def _replica(self, number: int) -> Log:
        rng, directory = self.rng, self.path.parent / f"replica-{number}" / "t-0"
        batches = self.batches_written[: rng.randrange(len(self.batches_written) + 1)]
        fork = rng.choice(self.forks) if self.forks and rng.random() < 0.7 else None
        if fork is not None:
            tail = _Tail(self.path.parent / f"tail-{number}", rng.randrange(1 << 30), fork)
            tail.fill(20)
            tail.close()
            batches = self.batches_written[: fork.batches] + tail.batches
        log = Log.open(directory, "t", 0, layout_config(rng, remote_storage=True), now_ms=NOW_MS)
        while batches:
            count = rng.choice((1, 1, 1, 3))
            log.append(b"".join(batches[:count]), None, NOW_MS)
            batches = batches[count:]
        return log

    def _plans(self, log: Log, broker_id: int) -> list[CopyPlan]:
        source = LeaderLog(self.partition, log, RemoteLogMetadataCache(), broker_id)
        stable = log.last_stable_offset(log.log_end_offset)
        return plan_copies(source, stable, NOW_MS, lambda: self.rng.randbytes(16))

    def _publish(self, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> Applied:
        found = self._metadata.consume(self._events, encode_event(event))
        self._events += 1
        assert found is not None
        self.cache = self._metadata.followed[self.partition].cache
        return found

    def cut_anew(self, split: Split) -> Split:
        """The same offsets of a store in other ranges, of any copies that have them."""
        if split.remote is None:
            return split
        rng, epochs, at = self.rng, self._epochs, split.first_offset
        copies, ranges = self.cache.segments(), list[SegmentRange]()
        while at < split.next_offset:
            there = [one for one in copies if one.start_offset <= at < common_end(one, epochs, at)]
            segment = rng.choice(there)
            end = min(common_end(segment, epochs, at), split.next_offset, at + rng.choice((1, 5, 30, 1 << 62)))
            ranges.append(SegmentRange(at, end, segment))
            at = end
        return replace(split, remote=split.remote._replace(ranges=tuple(ranges)))

    def objects(self, suffix: str = ".log") -> list[Path]:
        return sorted(Path(self.client["rsm.config.dir"]).glob(f"kafka-tiered-storage/*/*{suffix}"))


class _Tail(Layout):
    """The batches of another leader behind a fork, in the epoch of before."""

    def __init__(self, directory: Path, seed: int, fork: Fork) -> None:
        super().__init__(directory, seed)
        self.batches: list[bytes] = []
        self._end, self._epoch = fork.end, fork.leader_epoch
        self._open = {one: list(offsets) for one, offsets in fork.opened.items()}
        self._sequences = dict(fork.sequences)

    def write(self, batch: bytes) -> None:
        self.batches.append(batch[:12] + struct.pack(">i", self._epoch) + batch[16:])
        super().write(batch)


# ---- damage


class Damage:
    """Damages files of batches. No CRC covers a batch's base offset, and only the offsets around it contradict a wrong one:
    it is changed in logs without gaps only, and not in the last batch of a file.
    """

    def __init__(self, rng: random.Random, *, dense: bool) -> None:
        self._rng = rng
        self._dense = dense

    def flip(self, file: Path) -> None:
        content = bytearray(file.read_bytes())
        batches = list(iter_headers(content))
        position, header = self._rng.choice(batches)
        least = 0 if self._dense and (position, header) != batches[-1] else 8
        most = self._rng.choice((header.size, HEADER_BYTES, 27))
        content[position + self._rng.randrange(least, most)] ^= 1 << self._rng.randrange(8)
        if content[position + 16] == 0:  # a message of format 0: a scan of such a log is an error
            content[position + 16] = 6
        file.write_bytes(content)

    def cut(self, file: Path) -> None:
        """Cuts within a batch."""
        content = file.read_bytes()
        position, header = self._rng.choice(list(iter_headers(content)))
        file.write_bytes(content[: position + self._rng.randrange(1, header.size)])

    def remove(self, file: Path) -> None:
        file.unlink()


def check_read_or_named(expected: list[Row], rows: list[Row], readers: Sequence[Reader]) -> None:
    """Each record is read once, in order, or its offset is named as unread once; nothing else is read."""
    unread = set(unread_by(readers))
    assert not unread & {one.offset for one in rows}
    assert rows == [one for one in expected if one.offset not in unread]
    assert [one.next_offset for one in readers] == [one.split.next_offset for one in readers]


# ---- brokers


def put_into_broker(made: Layout, directory: Path) -> None:
    """Has a partition's directory of a broker that is stopped hold the segments of a closed layout."""
    for file in directory.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in made.path.iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, directory / file.name)
