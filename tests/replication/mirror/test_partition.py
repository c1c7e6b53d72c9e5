"""Mirrored partitions under a source that loses, deletes and rewrites records: the copy is equal, or it has stopped."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.replication.mirror.partition import STOPPED_STATES, Batch, Ends, MirroredLog, MirrorState

from tests.harness.examples import examples


class Log:
    """Batches of one history; each has a CRC that no other batch has."""

    def __init__(self) -> None:
        self.start = 0
        self.batches: list[Batch] = []
        self._next_crc = 1

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start

    def write(self, count: int) -> None:
        self.batches.append(Batch(self.end, self.end + count, 70 + count, self._next_crc))
        self._next_crc += 1

    def lose_from(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]

    def delete_below(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))
        kept = [batch for batch in self.batches if batch.next_offset > self.start]
        if not kept:
            self.start = self.end
        self.batches = kept

    def fetch(self, offset: int) -> list[Batch] | None:
        """None for an offset that is out of range."""
        if not self.start <= offset <= self.end:
            return None
        return [batch for batch in self.batches if batch.next_offset > offset]


class Mirror:
    """A copy that follows the machine's decisions, as server/mirror/followed.py does."""

    def __init__(self, *, cuts: bool = False) -> None:
        self.log: list[Batch] = []
        self.start = 0
        self.cuts = cuts
        self.cut_off: list[Batch] = []
        self.machine = MirroredLog(0, None, cuts=cuts)

    @property
    def end(self) -> int:
        return self.log[-1].next_offset if self.log else self.start

    def lead_again(self) -> None:
        """Another broker leads here, with the same log."""
        self.machine = MirroredLog(self.end, self.log[-1] if self.log else None, start=self.start, cuts=self.cuts)

    def fetch(self, source: Log, most: int) -> None:
        if self.machine.state is MirrorState.CUTTING:
            self._cut()
            return
        offset = self.machine.fetch_offset
        if offset is None:
            return
        found = source.fetch(offset)
        if found is None:
            self.machine.compare_again()
            self._ends(source)
            return
        found = found[:most]
        if self.machine.state is MirrorState.COMPARING:
            if self.machine.compared(found[0] if found else None, source.end):
                self._ends(source)
                return
            self._search()
        elif self.machine.state is MirrorState.SEARCHING:
            self.machine.probed(found[0] if found else None, source.end)
            self._search()
        elif self.machine.source_shrank(source.end):
            return
        if self.machine.state is MirrorState.FOLLOWING:
            for batch in found:
                if batch.next_offset > self.end:
                    if batch.base_offset < self.end:
                        self.machine.overlapped(batch)
                        self._search()
                        return
                    self.log.append(batch)
                    self.machine.appended(self.end, batch)

    def _ends(self, source: Log) -> None:
        begins_at = self.machine.ends_known(Ends(source.start, source.end))
        self._search()
        if begins_at is not None and source.start == source.end:
            self.log, self.start = [], begins_at
            self.machine.emptied(begins_at)

    def _search(self) -> None:
        while (offset := self.machine.wanted_probe) is not None:
            self.machine.probe_at(offset, next((one for one in self.log if one.next_offset > offset), None))

    def _cut(self) -> None:
        self.cut_off += [batch for batch in self.log if batch.next_offset > self.machine.end]
        self.log = [batch for batch in self.log if batch.next_offset <= self.machine.end]
        self.machine.cut(self.end, self.log[-1] if self.log else None, "")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 5)),
        st.tuples(st.just("fetch"), st.integers(1, 4)),
        st.tuples(st.just("lead again"), st.just(0)),
        st.tuples(st.just("move"), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 60)),
        st.tuples(st.just("lose"), st.integers(0, 60)),
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=examples(400), deadline=None)
def test_copy_is_a_part_of_the_source_or_has_stopped(steps: list[tuple[str, int]]) -> None:
    source, mirror, was_lost = Log(), Mirror(), False
    written: dict[int, set[int]] = {}
    for step, number in steps:
        match step:
            case "write":
                source.write(number)
                written.setdefault(source.batches[-1].base_offset, set()).add(source.batches[-1].crc)
            case "fetch":
                mirror.fetch(source, number)
            case "lead again":
                mirror.lead_again()
            case "move":
                mirror.machine.compare_again()
            case "delete":
                source.delete_below(number)
            case "lose":
                before = source.end
                source.lose_from(number)
                if source.end < before:
                    was_lost = True
                    # Another leader there: the fetchers learn its epoch with the metadata.
                    mirror.machine.compare_again()
        for first, second in zip(mirror.log, mirror.log[1:], strict=False):
            assert first.next_offset <= second.base_offset
    if not was_lost:
        assert mirror.machine.state not in STOPPED_STATES
        for _ in range(200):
            mirror.fetch(source, 3)
        assert mirror.end == source.end
        held = {batch.base_offset: batch for batch in mirror.log}
        assert all(held.get(batch.base_offset) == batch for batch in source.batches)
    elif mirror.machine.state is not MirrorState.DIVERGED:
        for _ in range(200):
            mirror.fetch(source, 3)
        last = mirror.log[-1] if mirror.log else None
        if mirror.machine.state is MirrorState.FOLLOWING and last is not None and source.start <= last.base_offset:
            assert mirror.end == source.end and last == source.batches[-1]


def test_divergence_names_both_batches() -> None:
    log = MirroredLog(10, Batch(5, 10, 100, 0xAB))
    assert log.fetch_offset == 5
    log.compared(Batch(5, 10, 101, 0xCD), 12)
    assert log.state is MirrorState.DIVERGED and log.fetch_offset is None
    assert log.reason == (
        "the batch at offset 5 has CRC 0x000000ab and 100 bytes here, at the source 0x000000cd and 101"
    )


@pytest.mark.parametrize("state", [MirrorState.COMPARING, MirrorState.FOLLOWING])
def test_source_that_ends_earlier_stops_the_partition(state: MirrorState) -> None:
    log = MirroredLog(10, Batch(5, 10, 100, 1))
    log.state = state
    assert log.ends_known(Ends(0, 7)) is None
    assert log.state is MirrorState.DIVERGED and log.reason == "the source ends at offset 7, this log at 10"


def test_deleted_offsets_are_named() -> None:
    log = MirroredLog(10, Batch(5, 10, 100, 1))
    log.state = MirrorState.FOLLOWING
    assert log.ends_known(Ends(25, 40)) == 25
    assert log.fetch_offset == 25 and log.reason == "the source had deleted offsets 10 to 25"


def test_topic_that_is_there_again_is_compared() -> None:
    log = MirroredLog(10, Batch(5, 10, 100, 1))
    log.stop(MirrorState.MISSING, "gone")
    assert log.fetch_offset is None
    log.found_again()
    assert log.state is MirrorState.COMPARING
    log.stop(MirrorState.RECREATED, "another id")
    log.found_again()
    assert log.state is MirrorState.RECREATED


@given(STEPS)
@settings(max_examples=examples(400), deadline=None)
def test_log_that_is_cut_becomes_equal_and_loses_only_what_the_source_lacks(steps: list[tuple[str, int]]) -> None:
    source, mirror = Log(), Mirror(cuts=True)
    for step, number in steps:
        match step:
            case "write":
                source.write(number)
            case "fetch":
                mirror.fetch(source, number)
            case "lead again":
                mirror.lead_again()
            case "move":
                mirror.machine.compare_again()
            case "delete":
                source.delete_below(number)
            case "lose":
                source.lose_from(number)
                mirror.machine.compare_again()
    for _ in range(300):
        mirror.fetch(source, 3)
    assert mirror.machine.state is MirrorState.FOLLOWING, mirror.machine
    held = {batch.base_offset: batch for batch in mirror.log}
    assert all(held.get(batch.base_offset) == batch for batch in source.batches)
    assert mirror.end == source.end


def test_search_finds_the_last_common_batch_in_the_logarithm_of_the_log() -> None:
    batches = [Batch(10 * number, 10 * number + 10, 100, number) for number in range(10_000)]
    log = MirroredLog(100_000, batches[-1], cuts=True)
    log.compared(batches[-1]._replace(crc=77), 100_000)
    fetches = 0
    while log.state is MirrorState.SEARCHING:
        while (offset := log.wanted_probe) is not None:
            log.probe_at(offset, batches[offset // 10])
        if log.fetch_offset is not None:
            fetches += 1
            here = batches[log.fetch_offset // 10]
            log.probed(here if here.base_offset < 43_210 else here._replace(crc=77), 100_000)
    assert log.state is MirrorState.CUTTING and log.end == 43_210 and fetches < 20


def test_batch_that_the_source_has_not_committed_again_yet_is_no_divergence() -> None:
    """A new leader at the source learns its high watermark from its followers."""
    log = MirroredLog(10, Batch(5, 10, 100, 1))
    assert log.compared(None, 7) and log.state is MirrorState.COMPARING
    log.ends_known(Ends(0, 10))
    assert log.state is MirrorState.COMPARING, "the batch is compared all the same"
    log.compared(Batch(5, 10, 100, 2), 10)
    assert log.state is MirrorState.DIVERGED


@pytest.mark.parametrize("is_compacted", [False, True])
def test_response_without_batches_compares_nothing(is_compacted: bool) -> None:
    """Other partitions may have filled it, or a transaction may be open at the source."""
    log = MirroredLog(10, Batch(5, 10, 100, 1), is_compacted=is_compacted, cuts=True)
    assert not log.compared(None, 10) and log.state is MirrorState.COMPARING
    assert not log.compared(None, 20) and log.state is MirrorState.COMPARING
    log.compared(Batch(5, 10, 100, 2, (7, 0, 0)), 20)
    log.probe_at(2, Batch(0, 5, 100, 1))
    log.probed(None, 20)
    assert log.state is MirrorState.SEARCHING and log.fetch_offset == 0, "the batch is compared with the next response"
    log.probed(Batch(0, 5, 100, 1), 20)
    assert (log.state, log.end) == (MirrorState.CUTTING, 5)


def test_diverged_partition_goes_on_when_cuts_are_allowed() -> None:
    log = MirroredLog(10, Batch(5, 10, 100, 1))
    log.compared(Batch(5, 10, 100, 2), 10)
    log.allow_cut(cuts=True)
    assert log.state is MirrorState.COMPARING
    log.compared(Batch(5, 10, 100, 2), 10)
    assert log.state is MirrorState.SEARCHING and log.wanted_probe is not None


_SAME, _OTHER, _NONE = (7, 0, 3), (8, 0, 3), (-1, -1, -1)


@pytest.mark.parametrize("cleaned", ["here", "there", "both", "neither"])
@pytest.mark.parametrize(("here", "there"), [(_SAME, _SAME), (_SAME, _OTHER), (_NONE, _NONE), (_NONE, _SAME)])
def test_batch_that_compaction_rewrote_is_the_same_by_its_producer(
    cleaned: str, here: tuple[int, int, int], there: tuple[int, int, int]
) -> None:
    log = MirroredLog(10, Batch(5, 10, 100, 1, here, cleaned in ("here", "both")), is_compacted=True)
    log.compared(Batch(5, 10, 60, 2, there, cleaned in ("there", "both")), 10)
    is_same = here == there and cleaned != "neither"
    assert log.state is (MirrorState.FOLLOWING if is_same else MirrorState.DIVERGED)
