"""Truncations of a log in a damaged segment: they end, and a start finds what they left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.storage.log.config import LogConfig
from odradek.storage.segments.index import OffsetIndex

from tests.storage.conftest import NOW_MS, Logbook

#: Records of one segment; each is a batch, of a producer of its own.
SEGMENT = 10
CUT = 16
CONFIG = LogConfig(index_interval_bytes=200)


@pytest.fixture
def log(logbook: Logbook) -> Any:
    """Returns a log of three segments of ten batches each."""
    log = logbook.open(CONFIG)
    for offset in range(3 * SEGMENT):
        if offset and offset % SEGMENT == 0:
            log.roll(NOW_MS)
        producer = {"producer_id": offset, "producer_epoch": 0, "base_sequence": 0}
        logbook.append(log, b"%030d" % offset, **producer)
    return log


def positions(log: Any, number: int) -> dict[int, int]:
    data = Path(log.segments[number].path).read_bytes()
    return {header.base_offset: position for position, header in iter_headers(data)}


def damage_header(log: Any, offset: int) -> None:
    path = Path(log.segments[1].path)
    data = bytearray(path.read_bytes())
    position = positions(log, 1)[offset]
    data[position : position + 20] = b"\xff" * 20
    path.write_bytes(data)


def readable(logbook: Logbook, log: Any) -> list[int]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        try:
            taken = log.read(offset, 1)
        except ValueError:
            offset += 1
            continue
        if not taken.size:
            break
        found.append(offset)
        offset = taken.next_offset
    return found


@pytest.mark.parametrize("damaged", range(SEGMENT, 2 * SEGMENT))
def test_log_ends_before_the_cut_wherever_its_segment_is_damaged(logbook: Logbook, log: Any, damaged: int) -> None:
    expected = [offset for offset in range(CUT) if offset != damaged]
    damage_header(log, damaged)
    end = CUT - 1 if damaged == CUT - 1 else CUT
    log.truncate_to(CUT, NOW_MS)
    assert log.log_end_offset == end and [one.base_offset for one in log.segments] == [0, SEGMENT]
    if log.damage or damaged >= CUT:
        assert readable(logbook, log) == expected
    assert sorted(log.producers.by_id) == expected
    logbook.append(log, b"goes on")

    again = logbook.open(CONFIG, recovery_point=SEGMENT)
    assert again.log_end_offset == end + 1 and readable(logbook, again) == [*expected, end]
    found = [(one.first_offset, one.next_offset) for one in again.damage]
    assert found == ([(damaged, damaged + 1)] if damaged < end else [])


def test_damage_up_to_the_end_of_a_segment_does_not_hide_the_cut(logbook: Logbook, log: Any) -> None:
    path = log.segments[1].path
    os.truncate(path, positions(log, 1)[13] + 10)
    log.truncate_to(CUT, NOW_MS)
    assert log.log_end_offset == 13 and readable(logbook, log) == list(range(13)) and not log.damage
    logbook.append(log, b"goes on")
    assert logbook.values(log, 13) == [(13, b"goes on")]


@pytest.mark.parametrize("entry", [(1, 1 << 20), (SEGMENT - 1, 5), (7, 0)])
def test_truncation_does_not_trust_a_wrong_index(logbook: Logbook, log: Any, entry: tuple[int, int]) -> None:
    segment = log.segments[1]
    index = Path(segment.index_paths()[0])
    segment.forget_indexes()
    index.write_bytes(OffsetIndex.ENTRY.pack(*entry))
    log.truncate_to(CUT, NOW_MS)
    assert readable(logbook, log) == list(range(CUT)) and not log.damage
