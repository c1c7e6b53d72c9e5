"""Assertions of a log: a call that would break it fails before it changes anything."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.log.log_check import check_log
from odradek.storage.segments.index import MAX_RELATIVE_OFFSET
from odradek.storage.segments.segment import Segment

from tests.storage.conftest import NOW_MS, Logbook
from tests.storage.log_histories import HISTORIES, several_segments, state

Break = Callable[[Log, Logbook], object]


def files(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir()}


def append_before_the_end(log: Log, book: Logbook) -> None:
    log.append(book.batch(log.log_end_offset - 1, [b"again"]), None, NOW_MS)


def append_more_bytes_than_headers(log: Log, book: Logbook) -> None:
    batch = book.batch(log.log_end_offset, [b"one"])
    log.append(batch + b"\0", [header for _, header in iter_headers(batch)], NOW_MS)


def append_more_headers_than_bytes(log: Log, book: Logbook) -> None:
    batches = [book.batch(log.log_end_offset + number, [b"one"]) for number in range(2)]
    headers = [header for batch in batches for _, header in iter_headers(batch)]
    log.append(batches[0], headers, NOW_MS)


def append_behind_producers(log: Log, book: Logbook) -> None:
    log.producers.end_offset = log.log_end_offset + 5
    try:
        book.append(log, b"one")
    finally:
        log.producers.end_offset = log.log_end_offset


def append_to_a_segment_of_later_offsets(log: Log, book: Logbook) -> None:
    segment, end = log.active, log.log_end_offset
    batch = book.batch(end - 1, [b"one"])
    segment.append(batch, [header for _, header in iter_headers(batch)], 4096)


def append_more_offsets_than_a_segment_has(log: Log, book: Logbook) -> None:
    batch = book.batch(log.active.base_offset + MAX_RELATIVE_OFFSET, [b"last", b"too far"])
    log.active.append(batch, [header for _, header in iter_headers(batch)], 4096)


def start_behind_the_end(log: Log, book: Logbook) -> None:
    log.advance_log_start_offset(log.log_end_offset + 1)


def remove_all_segments(log: Log, book: Logbook) -> None:
    log.remove_first(len(log.segments), NOW_MS)


def add_an_earlier_segment(log: Log, book: Logbook) -> None:
    log._add(log.segments[0])


def end_before_the_last_segment(log: Log, book: Logbook) -> None:
    log._ends_at(log.active.base_offset - 1)


def end_behind_the_end(log: Log, book: Logbook) -> None:
    log._ends_at(log.log_end_offset + 1)


def read_committed_behind_the_end(log: Log, book: Logbook) -> None:
    log.last_stable_offset(log.log_end_offset + 1)


BREAKS: list[Break] = [
    append_before_the_end, append_more_bytes_than_headers, append_more_headers_than_bytes, append_behind_producers,
    append_to_a_segment_of_later_offsets, append_more_offsets_than_a_segment_has, start_behind_the_end,
    remove_all_segments, add_an_earlier_segment, end_before_the_last_segment, end_behind_the_end,
    read_committed_behind_the_end,
]  # fmt: skip


@pytest.mark.parametrize("wrong", BREAKS)
def test_call_that_would_break_a_log_fails_and_leaves_it_as_it_was(logbook: Logbook, wrong: Break) -> None:
    log = logbook.open(LogConfig(segment_bytes=200, index_interval_bytes=0))
    several_segments(logbook, log)
    assert len(log.segments) > 2
    before, content = copy.deepcopy(state(log)), files(logbook.path)
    with pytest.raises(AssertionError, match=r"\w"):
        wrong(log, logbook)
    assert state(log) == before and files(logbook.path) == content
    check_log(log)
    values = logbook.values(log)
    logbook.append(log, b"goes on")
    assert logbook.values(log) == [*values, (log.log_end_offset - 1, b"goes on")]
    check_log(log)


@pytest.mark.parametrize("history", HISTORIES)
def test_sound_log_has_nothing_to_object_to(logbook: Logbook, history: Callable[[Logbook, Log], None]) -> None:
    log = logbook.open(LogConfig(segment_bytes=200, index_interval_bytes=0))
    history(logbook, log)
    check_log(log)
    log.close(NOW_MS)
    check_log(logbook.open(LogConfig(segment_bytes=200, index_interval_bytes=0)))


def overlap(log: Log) -> None:
    log.segments[0].next_offset += 1


def end_before_the_last_batch(log: Log) -> None:
    log.log_end_offset -= 1


def shrink_file(log: Log) -> None:
    segment: Segment = log.segments[1]
    Path(segment.path).write_bytes(b"")


def flush_the_future(log: Log) -> None:
    log.recovery_point = log.log_end_offset + 1


def index_the_future(log: Log) -> None:
    log.active.offset_index.last_offset = log.log_end_offset + 1


def begin_an_epoch_in_the_future(log: Log) -> None:
    log.epochs.assign(99, log.log_end_offset + 1)


def produce_in_the_future(log: Log) -> None:
    log.producers.end_offset = log.log_end_offset + 1


@pytest.mark.parametrize(
    "harm",
    [
        overlap, end_before_the_last_batch, shrink_file, flush_the_future, index_the_future, begin_an_epoch_in_the_future,
        produce_in_the_future,
    ],
)  # fmt: skip
def test_check_of_a_whole_log_finds_parts_that_contradict_each_other(
    logbook: Logbook, harm: Callable[[Log], None]
) -> None:
    log = logbook.open(LogConfig(segment_bytes=200, index_interval_bytes=0))
    several_segments(logbook, log)
    check_log(log)
    harm(log)
    with pytest.raises(AssertionError, match=r"\w"):
        check_log(log)
