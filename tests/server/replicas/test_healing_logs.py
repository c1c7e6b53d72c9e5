"""Repair of real logs from another replica's records: which segments are rebuilt, what counts, and what a failure leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.server.replicas import healing
from odradek.server.replicas.healing import Healer
from odradek.server.replicas.replica_reader import NotThere
from odradek.server.runtime.damage_counters import DamageCounters
from odradek.server.runtime.lazy import Lazy
from odradek.storage.repair.verification import Job, SegmentVerifier
from odradek.storage.segments.damage import FILE_NAME

from tests.server.harness.hosted import NOW_MS, Hosted, Watching, batch
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_cleaner import NotedCleaner
from tests.server.harness.noted_maintenance import NotedMaintenance
from tests.server.harness.virtual_time import loop_clock, simulated, turns

OWN, SECOND = 0, 2
ONE = len(batch())
#: Two batches in each segment.
SEGMENT_BYTES = 2 * ONE
COUNT = 7


class Disk:
    """A pool that works at once, after what the test has to do before."""

    def __init__(self) -> None:
        self.before: Callable[[], object] = lambda: None

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        self.before()
        return work(*arguments)


class Reader:
    """Reads the records of another replica. `missing`: the offsets that it does not have any more."""

    source = "b2:1"

    def __init__(self, replica: Hosted, *missing: int) -> None:
        self.replica = replica
        self.missing = set(missing)
        self.may_have_gaps = False
        self.aborted: list[Any] = []
        self.asked: list[tuple[int, int]] = []

    async def read(self, first_offset: int, next_offset: int) -> AsyncIterator[tuple[bytes, list[Any]]]:
        self.asked.append((first_offset, next_offset))
        offset = first_offset
        while offset < next_offset:
            if offset in self.missing:
                raise NotThere(f"offset {offset} is gone")
            found = self.replica.log.read(offset, 1)
            data = found.bytes()
            yield data, [header for _, header in iter_headers(data)]
            offset = found.next_offset
            await asyncio.sleep(0)


class Healing:
    """A follower with seven batches in segments of two, and a leader that has the same."""

    def __init__(self, path: Path, **config: Any) -> None:
        options = {"segment_bytes": SEGMENT_BYTES} | config
        self.hosted, self.source = (Hosted(path / name, OWN, **options) for name in ("own", "other"))
        self.hosted.follow_leader(SECOND)
        for one in (self.hosted, self.source):
            for number in range(COUNT):
                one.log.append(batch(offset=number), None, NOW_MS)
            one.log.roll(NOW_MS)
        self.disk = Disk()
        self.counters = DamageCounters()
        maintenance = NotedMaintenance()
        self.deleted = maintenance.scheduled
        requests: Any = None
        node = node_of(clock=loop_clock(), damage=self.counters, disk=self.disk)
        self.healer = Healer(node, Lazy(lambda: requests), NotedCleaner(), maintenance, lambda one: False)

    def damage(self, *offsets: int) -> None:
        """Flips a byte of each batch, and verifies the segments."""
        for offset in offsets:
            segment = self.hosted.log.segment_of(offset)
            position = (offset - segment.base_offset) * ONE
            data = bytearray(Path(segment.path).read_bytes())
            data[position + ONE - 1] ^= 0xFF
            Path(segment.path).write_bytes(data)
        self.verify()

    def lose(self, offset: int) -> None:
        """Cuts the file of a segment before a batch, and verifies the segments."""
        segment = self.hosted.log.segment_of(offset)
        Path(segment.path).write_bytes(Path(segment.path).read_bytes()[: (offset - segment.base_offset) * ONE])
        self.verify()

    def verify(self) -> None:
        log = self.hosted.log
        for segment in log.segments[:-1]:
            job = Job(log.directory, segment.base_offset, segment.next_offset, segment.size, False, False)
            verifier = SegmentVerifier(job).run()
            if (verifier.file_size or 0) < segment.size:
                segment.shrink(verifier.file_size or 0)
            log.add_damage(verifier.found)

    def damaged(self) -> list[tuple[int, int]]:
        return [(one.first_offset, one.next_offset) for one in self.hosted.log.damage]

    def content(self, hosted: Hosted) -> bytes:
        return b"".join(hosted.log.read(number, 1).bytes() for number in range(COUNT))

    def is_whole(self) -> bool:
        return self.content(self.hosted) == self.content(self.source)

    def leftovers(self) -> list[str]:
        """Returns the files beside the log's segments."""
        return sorted(path.name for path in Path(self.hosted.log.path).glob("*.cleaned*"))

    async def take(self, reader: Reader, *, everything: bool = False) -> None:
        take: Any = self.healer._take_all if everything else self.healer._take_damaged
        await take(self.hosted, reader)


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("offsets", [(0,), (1,), (2, 3), (0, 1, 4), (1, 2, 5)])
def test_damaged_batches_are_replaced_by_the_replicas(
    offsets: tuple[int, ...], everything: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(*offsets)
        assert harness.damaged()
        ranges = len(harness.damaged())
        reader = Reader(harness.source)
        await harness.take(reader, everything=everything)
        assert harness.damaged() == []
        assert harness.is_whole()
        counters = harness.counters
        assert counters.ranges_healed == ranges
        assert counters.bytes_healed == (COUNT if everything else len(offsets)) * ONE
        assert harness.deleted and set(harness.deleted) == {harness.hosted}
        assert reader.may_have_gaps == everything
        assert harness.leftovers() == []
        again = Hosted(tmp_path / "own", OWN, segment_bytes=SEGMENT_BYTES)
        assert list(again.log.damage) == []

    simulated(story)
    assert "are now repaired from b2:1" in caplog.text


def test_only_the_damaged_ranges_are_read(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(1, 4)
        reader = Reader(harness.source)
        await harness.take(reader)
        assert reader.asked == [(1, 2), (4, 5)]
        harness.damage(1)
        reader = Reader(harness.source)
        await harness.take(reader, everything=True)
        assert reader.asked == [(0, 2), (2, 4), (4, 6), (6, 7)], "each closed segment"

    simulated(story)


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_end_of_a_file_that_was_cut_is_read_again(offset: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        harness.lose(offset)
        assert harness.damaged()[0][0] == offset
        await harness.take(Reader(harness.source))
        assert harness.damaged() == []
        assert harness.is_whole()

    simulated(story)


def test_repaired_segments_are_durable_before_their_damage_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []

    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(1)
        log = harness.hosted.log
        log.damage.save()
        is_noted = Path(log.path, FILE_NAME).exists
        monkeypatch.setattr(healing, "sync_directory", lambda path: synced.append((path, is_noted())))
        await harness.take(Reader(harness.source))
        assert synced == [(log.path, True)] and not is_noted()

    simulated(story)


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize(
    ("offset", "is_end", "added"), [(0, False, []), (2, False, []), (1, True, [1]), (2, True, [3])]
)
def test_segment_stays_one_though_segments_are_smaller_now(
    offset: int, is_end: bool, added: list[int], everything: bool, tmp_path: Path
) -> None:
    """A range at the end of a file may be divided, since it may have belonged to several segments."""

    async def story() -> None:
        harness = Healing(tmp_path)
        log = harness.hosted.log
        before = [one.base_offset for one in log.segments]
        (harness.lose if is_end else harness.damage)(offset)
        log.config = replace(log.config, segment_bytes=ONE)
        seen: set[tuple[str, int, int, int, int]] = set()
        harness.disk.before = lambda: seen.update(tuple(one)[:5] for one in log.damage)
        await harness.take(Reader(harness.source), everything=everything)
        assert harness.damaged() == [] and harness.is_whole()
        if added == [3] and not everything:
            assert (f"{3:020}.log", 0, 0, 3, 4) in seen, "the rest is damaged until it is read"
        after = [one.base_offset for one in log.segments]
        assert after == (before if everything else sorted([*before, *added]))

    simulated(story)


def test_replica_without_the_records_leaves_the_damage_and_no_files(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(1, 5)
        with pytest.raises(NotThere, match="offset 5 is gone"):
            await harness.take(Reader(harness.source, 5))
        assert harness.damaged() == [(5, 6)], "the first segment is repaired"
        assert harness.leftovers() == []
        assert (harness.counters.ranges_healed, harness.counters.bytes_healed) == (1, ONE)

    simulated(story)


def test_whole_log_is_replaced_at_once_or_not_at_all(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(1)
        with pytest.raises(NotThere):
            await harness.take(Reader(harness.source, 5), everything=True)
        assert harness.damaged() == [(1, 2)]
        assert harness.leftovers() == []
        assert harness.counters.bytes_healed == 0

    simulated(story)


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("event", ["removed", "offline", "truncated"])
def test_log_that_changes_meanwhile_is_not_repaired_with_what_was_read(
    event: str, everything: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(1)
        hosted = harness.hosted

        def change() -> None:
            hosted.is_removed, hosted.offline = event == "removed", event == "offline"
            harness.disk.before = lambda: None
            if event == "truncated":
                hosted.log.truncate_to(6, NOW_MS)

        harness.disk.before = change
        with pytest.raises(NotThere, match="changed meanwhile"):
            await harness.take(Reader(harness.source), everything=everything)
        assert harness.counters.ranges_healed == 0
        assert harness.leftovers() == []
        assert harness.deleted == []

    simulated(story)


@pytest.mark.parametrize("event", ["none", "deleted", "moved"])
def test_log_whose_folder_is_gone_takes_no_directory_offline(event: str, tmp_path: Path) -> None:
    """The files of a deleted topic, or of a replica that has moved, are renamed while records are fetched."""

    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(1)
        hosted = harness.hosted
        hosted.role.replicas = (OWN, SECOND)
        log = hosted.log

        def change() -> None:
            harness.disk.before = lambda: None
            if event == "none":
                raise OSError(5, "broken")
            if event == "moved":
                hosted.log = harness.source.log
            hosted.is_removed = event == "deleted"
            log.move_to(str(tmp_path / "own" / "orders-0.deleted"))

        harness.disk.before = change
        reader: Any = Reader(harness.source)

        async def heal(one: Any) -> None:
            await harness.healer._take_damaged(one, reader)

        harness.healer._heal = heal  # type: ignore[method-assign]
        harness.healer.wants(hosted)
        await turns()
        assert len(hosted.failures) == int(event == "none")
        await harness.healer.stop()

    simulated(story)


def test_repaired_records_wake_their_readers(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        harness.damage(1)
        watching = Watching()
        harness.hosted.watchers[watching] = None
        await harness.take(Reader(harness.source))
        assert watching.changes == 1

    simulated(story)
