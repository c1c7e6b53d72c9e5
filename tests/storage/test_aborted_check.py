"""The check of a segment's entries of aborted transactions: which are right, which are made, and which go."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.repair.aborted_check import AbortedCheck, AbortMarker
from odradek.storage.segments.aborted import AbortedTransaction

#: A transaction of producer 7 from offset 10, aborted at 15; one of producer 8 from 12, aborted at 20.
FIRST = AbortMarker(7, 15, 10, 10, 12, True, True)
SECOND = AbortMarker(8, 20, 12, 12, 21, True, True)
ENTRIES = [AbortedTransaction(7, 10, 15, 12), AbortedTransaction(8, 12, 20, 21)]


def check(path: Path, *markers: AbortMarker, is_exact: bool = True, is_compacted: bool = False) -> AbortedCheck:
    found: Any = SimpleNamespace(aborts=list(markers), is_exact=is_exact, ended={}, base_offset=5)
    return AbortedCheck(PartitionDirectory(str(path)), found, is_compacted, ())


def test_right_entries_stay(tmp_path: Path) -> None:
    assert check(tmp_path, FIRST, SECOND).corrected(ENTRIES) is None
    assert check(tmp_path).corrected([]) is None
    assert check(tmp_path, FIRST, SECOND).corrected(ENTRIES[::-1]) is None


@pytest.mark.parametrize(
    "entries",
    [
        [],
        ENTRIES[:1],
        ENTRIES[1:],
        [*ENTRIES, AbortedTransaction(9, 11, 17, 12)],
        [*ENTRIES, ENTRIES[0]],
        [ENTRIES[0]._replace(producer_id=9), ENTRIES[1]],
        [ENTRIES[0]._replace(first_offset=11), ENTRIES[1]],
        [ENTRIES[0]._replace(first_offset=9), ENTRIES[1]],
        [ENTRIES[0]._replace(last_offset=16), ENTRIES[1]],
        [ENTRIES[0]._replace(last_stable_offset=13), ENTRIES[1]],
        [ENTRIES[0]._replace(last_stable_offset=-1), ENTRIES[1]],
    ],
)
def test_wrong_missing_and_needless_entries_are_corrected(entries: list[AbortedTransaction], tmp_path: Path) -> None:
    assert check(tmp_path, FIRST, SECOND).corrected(entries) == ENTRIES


def test_needless_entries_alone_are_removed(tmp_path: Path) -> None:
    assert check(tmp_path).corrected(ENTRIES) == []
    assert check(tmp_path, FIRST).corrected(ENTRIES) == ENTRIES[:1]


@pytest.mark.parametrize("stable", [0, 11, 12])
def test_earlier_last_stable_offset_does_no_harm(stable: int, tmp_path: Path) -> None:
    entry = ENTRIES[0]._replace(last_stable_offset=stable)
    assert check(tmp_path, FIRST).corrected([entry]) is None


@pytest.mark.parametrize(
    ("first", "is_right"),
    [(5, False), (6, True), (8, True), (10, True), (11, False)],
)
def test_entry_of_a_compacted_log_may_begin_before_its_first_batch(first: int, is_right: bool, tmp_path: Path) -> None:
    marker = FIRST._replace(least_offset=6)
    found = check(tmp_path, marker, is_compacted=True).corrected([ENTRIES[0]._replace(first_offset=first)])
    assert found == (None if is_right else [ENTRIES[0]])


@pytest.mark.parametrize(
    ("first", "is_compacted", "is_right"),
    [(8, True, True), (14, True, True), (15, True, False), (5, True, False), (8, False, False)],
)
def test_transaction_without_a_batch_has_an_entry_only_in_a_compacted_log(
    first: int, is_compacted: bool, is_right: bool, tmp_path: Path
) -> None:
    marker = FIRST._replace(first_offset=-1, least_offset=6, has_records=False)
    entries = [ENTRIES[0]._replace(first_offset=first)]
    assert check(tmp_path, marker, is_compacted=is_compacted).corrected(entries) == (None if is_right else [])


@pytest.mark.parametrize(
    ("is_compacted", "has_records", "is_made"), [(False, False, True), (True, True, True), (True, False, False)]
)
def test_entry_is_made_where_records_of_the_transaction_are_left(
    is_compacted: bool, has_records: bool, is_made: bool, tmp_path: Path
) -> None:
    marker = FIRST._replace(has_records=has_records)
    found = check(tmp_path, marker, is_compacted=is_compacted).corrected([])
    assert found == ([ENTRIES[0]] if is_made else None)


def test_entry_of_unknown_beginnings_lets_no_search_end_early(tmp_path: Path) -> None:
    assert check(tmp_path, FIRST, is_exact=False).corrected([]) == [ENTRIES[0]._replace(last_stable_offset=0)]
    assert check(tmp_path, is_exact=False).corrected([]) is None
    later = ENTRIES[0]._replace(first_offset=3, last_stable_offset=5)
    assert check(tmp_path, FIRST, is_exact=False).corrected([later]) is None, "it may have begun in an earlier segment"
