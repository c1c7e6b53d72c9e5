"""Replicas of one log whose leaders change in the middle of copies: readers get each committed record once, in order.

A leader of Apache Kafka finishes the copy that it began as the leader, also when another one has copied the same offsets
meanwhile, in segments with other borders. One of Odradek deletes it. These histories have both, retention, and deletions of
interrupted copies, in an order that a seed decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.log.log import Log
from odradek.tiers.cache import Applied, RemoteLogMetadataCache
from odradek.tiers.events import decode_event, encode_event
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.index_cache import IndexCache
from odradek.tiers.leader_tasks import (
    CopyDiscarded,
    CopyPlan,
    LeaderLog,
    copy_segment,
    delete_segment,
    plan_collection,
    plan_copies,
)
from odradek.tiers.lineage import Epochs, common_end, highest_remote_offset
from odradek.tiers.reading import read_segment, segment_at, segment_ranges
from odradek.tiers.retention import Retention, only_local_bytes, plan_local_retention
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from odradek.tiers.store import RemoteStorageError, SegmentParts

from tests.tiers.harness.leaders_plan import leaders_plan
from tests.tiers.harness.tiered_log import CONFIG, NOW_MS, PARTITION, records_in, value_at

SEEDS, SEEDS_AT_ONCE = 16, 4
STEPS, STEPS_BETWEEN_CHECKS = 120, 4
#: Uploads that are under way at once.
MOST_UPLOADS = 2
#: Events that each group of histories must have, or it shows little.
KINDS = ("late copies", "discarded", "overlaps", "remote reads", "deletions", "rolls of idle segments")
#: Replicas have segments with other borders, as after restarts and with other sizes of fetches.
SEGMENT_BYTES = (1_500, 2_000, 2_700)
_EVERYTHING = Retention(-1, 0)
_EVENTS = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate


class MeanwhileStore(FolderStore):
    """Calls `meanwhile` at the end of each upload, before its leader learns of that."""

    meanwhile: Callable[[], None]

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        custom_metadata = super().copy_log_segment_data(segment, parts)
        self.meanwhile()
        return custom_metadata


class Replica:
    def __init__(self, path: Path, number: int, *, is_apache: bool) -> None:
        self.number, self.is_apache = number, is_apache
        config = replace(CONFIG, remote_storage=True, segment_bytes=SEGMENT_BYTES[number])
        self.log = Log.open(path, PARTITION.topic, PARTITION.partition, config, now_ms=NOW_MS)
        #: The ids of uploads that have not ended.
        self.copying: set[bytes] = set()


class History:
    """`seen` counts the KINDS."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = MeanwhileStore({"dir": str(folder / "tier")})
        self.store.create()
        self.store.meanwhile = self._steps_meanwhile
        self.indexes = IndexCache(self.store, 1 << 20)
        self.cache = RemoteLogMetadataCache()
        self.replicas = [Replica(folder / f"{one}" / "orders-0", one, is_apache=one > 0) for one in range(3)]
        self.leader, self.epoch, self.uploads = self.replicas[0], 0, 0
        self.values: list[bytes] = []
        self.seen = dict.fromkeys(KINDS, 0)

    @property
    def high_watermark(self) -> int:
        return min(one.log.log_end_offset for one in self.replicas)

    # ---- what happens

    def step(self) -> None:
        kinds = {self.append: 6, self.replicate: 6, self.elect: 2, self.copy: 4, self.delete_local: 3, self.expire: 1,
                 self.collect: 1}  # fmt: skip
        self.rng.choices(list(kinds), list(kinds.values()))[0]()

    def _steps_meanwhile(self) -> None:
        if self.uploads == 1 and self.rng.random() < 0.6:
            for _ in range(30):
                self.step()

    def append(self) -> None:
        log, rng = self.leader.log, self.rng
        for _ in range(rng.randint(1, 12)):
            at = log.log_end_offset
            del self.values[at:]
            values = [value_at(rng.randrange(1 << 30)) for _ in range(rng.randint(1, 4))]
            records = [Record(at + index, NOW_MS + at + index, b"k", value) for index, value in enumerate(values)]
            log.append(encode_batch(records, leader_epoch=self.epoch), None, NOW_MS)
            self.values += values

    def replicate(self) -> None:
        for follower in self.replicas:
            log, rng = follower.log, self.rng
            while log.log_end_offset < self.leader.log.log_end_offset and rng.random() < 0.9:
                log.append(self.leader.log.read(log.log_end_offset, rng.randint(1, 900)).bytes(), None, NOW_MS)

    def elect(self) -> None:
        """All replicas have what is committed. The others lose what the new leader does not have."""
        self.leader = self.rng.choice(self.replicas)
        self.epoch += 1
        end = self.leader.log.log_end_offset
        self.leader.log.epochs.assign(self.epoch, end)
        for replica in self.replicas:
            if replica.log.log_end_offset > end:
                replica.log.truncate_to(end, NOW_MS)

    def copy(self) -> None:
        if self.uploads == MOST_UPLOADS:
            return
        leader, epoch = self.leader, self.epoch
        source = LeaderLog(PARTITION, leader.log, self.cache, leader.number, leader.copying)
        for plan in plan_copies(source, self.high_watermark, NOW_MS, lambda: self.rng.randbytes(16)):
            if not self._copies(leader, plan) or (self.leader, self.epoch) != (leader, epoch):
                return

    def _copies(self, leader: Replica, plan: CopyPlan) -> bool:
        segment = plan.segment
        self.seen["overlaps"] += segment.start_offset <= self._highest(leader)
        leader.copying.add(segment.segment_id)
        self.uploads += 1
        try:
            copy_segment(plan, self.store, self._publish, lambda: NOW_MS, lambda: self._finishes(leader, segment))
        except CopyDiscarded:
            self.seen["discarded"] += 1
        except RemoteStorageError:  # another leader has copied the segment, so its files are deleted here
            return False
        finally:
            self.uploads -= 1
            leader.copying.discard(segment.segment_id)
        return True

    def _finishes(self, replica: Replica, segment: RemoteLogSegmentMetadata) -> bool:
        others = {one.start_offset for one in self.cache.segments() if one.state is COPY_SEGMENT_FINISHED}
        is_late = self._highest(self.leader) > segment.end_offset and segment.start_offset not in others
        self.seen["late copies"] += replica.is_apache and is_late
        return replica.is_apache or self.leader is replica

    def delete_local(self) -> None:
        log = self.rng.choice(self.replicas).log
        log.flush(NOW_MS)
        highest = highest_remote_offset(self.cache, log.epochs.entries(), log.log_end_offset).offset
        count, rolls_active = plan_local_retention(
            log, highest, _EVERYTHING, log_start_offset=log.log_start_offset, now_ms=NOW_MS,
            high_watermark=self.high_watermark,
        )  # fmt: skip
        if rolls_active:
            log.roll(NOW_MS)
            self.seen["rolls of idle segments"] += 1
        if count:
            log.remove_first(self.rng.randint(1, count), NOW_MS)

    def expire(self) -> None:
        log, epochs = self.leader.log, self.leader.log.epochs.entries()
        plan = leaders_plan(
            self.cache, epochs, Retention(-1, 40_000), log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset, only_local_bytes=only_local_bytes(log, self._highest(self.leader)),
            now_ms=NOW_MS, copying=self.leader.copying,
        )  # fmt: skip
        for replica in self.replicas:
            replica.log.advance_log_start_offset(min(plan.log_start_offset, self.high_watermark))
        self._delete(plan.deletions)

    def collect(self) -> None:
        if not self.uploads or self.rng.random() < 0.05:
            self._delete(plan_collection(self.cache, [], self.leader.copying, NOW_MS, 0))

    def _delete(self, segments: list[RemoteLogSegmentMetadata]) -> None:
        for segment in segments:
            delete_segment(segment, self.store, self._publish, lambda: NOW_MS, self.leader.number)
            self.indexes.remove([segment.segment_id])
        self.seen["deletions"] += len(segments)

    def _publish(self, event: _EVENTS) -> Applied:
        read = decode_event(encode_event(event))
        assert not isinstance(read, RemotePartitionDeleteMetadata)
        return self.cache.apply(read)

    def _highest(self, replica: Replica) -> int:
        return highest_remote_offset(self.cache, replica.log.epochs.entries(), replica.log.log_end_offset).offset

    # ---- what must hold

    def check(self) -> None:
        """A replica serves all committed records from its log start on. A scan of its remote part has the same ranges."""
        log, found = self.rng.choice(self.replicas).log, list[tuple[int, bytes | None]]()
        start, offset, end, epochs = (
            log.log_start_offset,
            log.log_start_offset,
            self.high_watermark,
            log.epochs.entries(),
        )
        while offset < end:
            data, after = self._read(log, epochs, offset, self.rng.choice((1, 300, 5_000)))
            assert data and after > offset
            found += [(one.offset, one.value) for one in records_in(data) if one.offset >= offset]
            offset = after
        assert found == list(enumerate(self.values))[start:end]
        ranges = segment_ranges(self.cache, epochs, start, log.local_log_start_offset)
        ends = [one.next_offset for one in ranges]
        assert [one.first_offset for one in ranges] == [start, *ends][: len(ranges)]
        assert [start, *ends][-1] == max(start, log.local_log_start_offset)

    def _read(self, log: Log, epochs: Epochs, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Returns batches and the next offset, of the store or the local log, as a broker chooses between them."""
        if offset >= log.local_log_start_offset:
            local = log.read(offset, max_bytes, self.high_watermark)
            return local.bytes(), local.next_offset
        self.seen["remote reads"] += 1
        segment = segment_at(self.cache, epochs, offset)
        assert segment is not None, f"offset {offset} is neither in the store nor on the disk"
        up_to = common_end(segment, epochs, offset)
        remote = read_segment(self.store, self.indexes, segment, offset, max_bytes, up_to_offset=up_to)
        return bytes(remote.data), remote.next_offset


@pytest.mark.parametrize(
    "first",
    [pytest.param(one, marks=[pytest.mark.slow] if one else []) for one in range(0, SEEDS, SEEDS_AT_ONCE)],
)
def test_committed_records_are_read_once_and_in_order(tmp_path: Path, first: int) -> None:
    seen = dict.fromkeys(KINDS, 0)
    for seed in range(first, first + SEEDS_AT_ONCE):
        history = History(tmp_path / f"{seed}", seed)
        for number in range(STEPS):
            history.step()
            if number % STEPS_BETWEEN_CHECKS == 0:
                history.check()
        seen = {kind: count + history.seen[kind] for kind, count in seen.items()}
    assert all(seen.values()), f"these histories lack something: {seen}"
