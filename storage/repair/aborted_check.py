"""Check of a segment's `.txnindex` against the markers in the segment, and the entries that it should have.

A `TransactionMarkers` follows the transactional batches of one segment in order. A transaction may begin in an
earlier segment: the producer snapshot taken at the segment's first offset names those that were open there. Without
the snapshot it is searched for in a few earlier segments.

Two kinds of logs have fewer batches than were written, so that an entry may begin before the first batch that is
left: a compacted one, and one of which the earlier segments do not tell all. There an entry is right if it begins
behind the producer's marker before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.offsets import NO_OFFSET
from ...protocol.records.control import ControlType, decode_control
from ...protocol.records.errors import BatchError, OldFormatInLog
from ...protocol.records.record import decode_batch
from ..files.segment_files import LOG_SUFFIX, SNAPSHOT_SUFFIX
from ..files.writes import read_if_exists
from ..segments.aborted import AbortedTransaction
from ..segments.batches import batches_of
from ..segments.snapshots import CorruptSnapshot, decode_snapshot

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..files.partition_directory import PartitionDirectory

#: Earlier segments that are searched for the first offset of a transaction. Transactions end within minutes
#: (`transaction.max.timeout.ms`), so that more segments would only cost the disk.
MOST_EARLIER_SEGMENTS = 8


class AbortMarker(NamedTuple):
    """`first_offset`: where the transaction began, as far as is known; -1 where the segment has no batch of it.

    `least_offset`: no entry for the marker begins before it. `stable_offset`: the last stable offset behind the marker.
    `has_records`: the segment has records of the transaction. `is_first`: no marker of the producer stands before it.
    """

    producer_id: int
    offset: int
    first_offset: int
    least_offset: int
    stable_offset: int
    has_records: bool
    is_first: bool


class _Open(NamedTuple):
    first_offset: int
    has_records: bool


class TransactionMarkers:
    """The ABORT markers of a segment. `follow` its transactional batches, each once and in order."""

    def __init__(self, directory: PartitionDirectory, base_offset: int) -> None:
        self._directory = directory
        self.base_offset = base_offset
        began = open_at(directory, base_offset)
        #: The transactions that were open at the first offset are known.
        self.is_exact = began is not None or base_offset == 0
        self._began = began or {}
        # By producer, in the order of the first offsets.
        self._open = {who: _Open(first, False) for who, first in self._began.items()}
        #: The last marker of each producer in the segment.
        self.ended: dict[int, int] = {}
        self.aborts: list[AbortMarker] = []

    def follow(self, header: BatchHeader, batch: memoryview) -> None:
        who = header.producer_id
        if not header.is_control:
            begun = self._open.get(who)
            if begun is None:
                self._open[who] = _Open(header.base_offset, header.record_count > 0)
            elif not begun.has_records and header.record_count:
                self._open[who] = begun._replace(has_records=True)
            return
        kind = _end_of_transaction(batch)
        if kind is None:
            return
        ended, offset = self._open.pop(who, None), header.base_offset
        before = self.ended.get(who)
        self.ended[who] = offset
        if kind is ControlType.ABORT:
            if before is not None:
                least = before + 1
            elif self.is_exact:
                least = self._began.get(who, self.base_offset)
            else:
                least = 0
            first, has_records = ended or (NO_OFFSET, False)
            stable = next((one.first_offset for one in self._open.values()), offset + 1)
            self.aborts.append(AbortMarker(who, offset, first, least, stable, has_records, before is None))


def open_at(directory: PartitionDirectory, offset: int) -> dict[int, int] | None:
    """Producer id -> first offset of the transactions that were open at `offset`, by its snapshot, in the order of their
    first offsets. None without a good snapshot.
    """
    content = read_if_exists(directory.file(offset, SNAPSHOT_SUFFIX))
    if content is None:
        return None
    try:
        entries = decode_snapshot(content)
    except CorruptSnapshot:
        return None
    opened = sorted((one.current_txn_first_offset, one.producer_id) for one in entries)
    return {who: first for first, who in opened if first != NO_OFFSET}


class _Earlier(NamedTuple):
    """The state of transactions at the end of the segments before one, by producer.

    `opened`: the first offset of the transaction that is open at their end. `records`: the last batch with records.
    `is_exact`: `opened` has all of them.
    """

    opened: dict[int, int]
    records: dict[int, int]
    is_exact: bool


class AbortedCheck:
    """Decides about a segment's entries. `earlier`: (base offset, size) of segments before it, in order."""

    def __init__(
        self,
        directory: PartitionDirectory,
        markers: TransactionMarkers,
        is_compacted: bool,
        earlier: Sequence[tuple[int, int]],
    ) -> None:
        self._directory = directory
        self._markers = markers
        self._is_compacted = is_compacted
        self._segments_before = earlier[-MOST_EARLIER_SEGMENTS:]

    def corrected(self, entries: Sequence[AbortedTransaction]) -> list[AbortedTransaction] | None:
        """Returns the entries that the index should have; None where `entries` are right."""
        old = {one.last_offset: one for one in entries}
        right, is_right = [], len(old) == len(entries)
        for marker in self._markers.aborts if self._markers.is_exact else self._with_beginnings():
            entry = old.pop(marker.offset, None)
            if entry is not None and self._agrees(entry, marker):
                right.append(entry)
                continue
            made = self._entry(marker)
            if made is not None:
                right.append(made)
            is_right = is_right and made is None and entry is None
        return None if is_right and not old else right

    def _with_beginnings(self) -> list[AbortMarker]:
        """The markers, with the first offsets in earlier segments of those that began there."""
        if not self._markers.aborts:
            return []
        base_offset = self._markers.base_offset
        found: list[AbortMarker] = []
        # Transactions that go on behind the segment.
        ended = self._markers.ended
        stable = min((first for who, first in self._earlier.opened.items() if who not in ended), default=1 << 63)
        for marker in reversed(self._markers.aborts):
            if marker.is_first:
                opened = self._earlier.opened.get(marker.producer_id)
                first = marker.first_offset if opened is None else opened
                least = (base_offset if opened is None else opened) if self._earlier.is_exact else 0
                marker = marker._replace(first_offset=first, least_offset=least)
            found.append(marker._replace(stable_offset=min(marker.stable_offset, stable)))
            if marker.first_offset != NO_OFFSET:
                stable = min(stable, marker.first_offset)
        return found[::-1]

    def _agrees(self, entry: AbortedTransaction, marker: AbortMarker) -> bool:
        first, known = entry.first_offset, marker.first_offset
        is_whole = self._markers.is_exact and not self._is_compacted
        if known == NO_OFFSET:
            fits = not is_whole and marker.least_offset <= first < marker.offset
        else:
            fits = first == known if is_whole else marker.least_offset <= first <= known
        # An earlier last stable offset does no harm: it only lets a search go on.
        return (
            fits and entry.producer_id == marker.producer_id and 0 <= entry.last_stable_offset <= marker.stable_offset
        )

    def _entry(self, marker: AbortMarker) -> AbortedTransaction | None:
        """Makes the entry of a marker that has no right one; None where nothing is left of its transaction."""
        who, first, is_exact = marker.producer_id, marker.first_offset, self._markers.is_exact
        if first == NO_OFFSET:
            return None
        if self._is_compacted and not marker.has_records:
            is_left = marker.is_first and self._earlier.records.get(who, NO_OFFSET) >= first
            if not is_left:
                return None
        # Where it is not known what else was open, 0 lets no search end early.
        return AbortedTransaction(who, first, marker.offset, marker.stable_offset if is_exact else 0)

    @cached_property
    def _earlier(self) -> _Earlier:
        """Reads the earlier segments; a walk ends where a batch is not whole, as at a damaged range."""
        opened: dict[int, int] = {}
        records: dict[int, int] = {}
        is_exact = False
        for base_offset, size in self._segments_before:
            began = open_at(self._directory, base_offset)
            if began is not None:
                opened = began
            is_exact = is_exact or began is not None or base_offset == 0
            position = 0
            for at, header, batch in self._batches_of(base_offset, size):
                position = at + header.size
                if header.producer_id < 0 or not header.is_transactional:
                    continue
                if not header.is_control:
                    opened.setdefault(header.producer_id, header.base_offset)
                    if header.record_count:
                        records[header.producer_id] = header.base_offset
                elif _end_of_transaction(batch) is not None:
                    opened.pop(header.producer_id, None)
            is_exact = is_exact and position == size
        return _Earlier(opened, records, is_exact)

    def _batches_of(self, base_offset: int, size: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        with suppress(FileNotFoundError, OldFormatInLog):  # removed meanwhile, or older than transactions
            yield from batches_of(self._directory.file(base_offset, LOG_SUFFIX), size, verify=False)


def _end_of_transaction(batch: memoryview) -> ControlType | None:
    """COMMIT or ABORT; None of another control batch, of one that compaction has emptied, and of one that is poisoned."""
    with suppress(BatchError):  # a marker that cannot be read ends nothing: see log/loading.py
        records = decode_batch(batch, 0)
        marker = decode_control(records[0].key, records[0].value) if records else None
        if marker is not None and marker.type in (ControlType.ABORT, ControlType.COMMIT):
            return marker.type
    return None
