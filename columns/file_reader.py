"""Reads a split from its files, while a broker may change them.

A reader of files opens the segment that has the next offset, and keeps it open to its end: a broker that removes or replaces
the file meanwhile changes nothing in what is read. At the end of a file the directory is listed again, and the offset alone
decides what comes next, so that a compaction in between neither repeats nor loses a record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from ..protocol.uuids import uuid_to_text
from ..storage.files.checkpoints import CLEANER_OFFSETS, inspect_offsets
from ..storage.files.partition_directory import PartitionDirectory
from ..storage.segments.damage import Damage, DamagedRange
from . import layout
from .batch_decoder import BatchDecoder
from .batch_selection import data_rows
from .directory import segments_of, topic_id_of
from .layout import Numbers
from .open_segment import OpenSegment
from .segment import Segment
from .split import Split
from .split_reader import Batches, ReadOptions, SplitReader

#: A segment that vanished between the listing and the opening: the directory is listed again, this often.
_MOST_LISTINGS = 20


class FileReader(SplitReader):
    """Yields the records of a split from the partition's directory."""

    def __init__(self, split: Split, options: ReadOptions, *, stops_when_gone: bool = False) -> None:
        """`stops_when_gone`: ends before the split's end, and reports nothing, where the files are no longer there."""
        super().__init__(split, options)
        assert split.path is not None
        self._stops_when_gone = stops_when_gone
        self._path = split.path
        self._bounds = split.bounds
        self._damage: list[DamagedRange] | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        decoder = self._new_decoder(self._options.columns)
        for file, rows, wanted in self._chunks(whole=True):
            yield from self._decoded(decoder, self._batches(file, rows, wanted))

    def count(self) -> int:
        """The number of records, by the headers of their batches alone. Batches that reach over a bound are decoded."""
        decoder = self._new_decoder(())
        chunks = self._chunks(whole=False)
        return sum(
            self._counted(rows, wanted, self._bounds, partial(self._one, decoder, file))
            for file, rows, wanted in chunks
        )

    def _one(
        self, decoder: BatchDecoder, file: OpenSegment, row: Numbers, wanted: Numbers, behind: int | None
    ) -> Iterator[pa.RecordBatch]:
        file.load(row[0])
        return self._decoded(decoder, self._batches(file, row, wanted), behind)

    def _batches(self, file: OpenSegment, rows: Numbers, wanted: Numbers) -> Batches:
        return Batches(file.segment.path, file.data, file.data_at, rows, wanted, self._bounds)

    def _chunks(self, *, whole: bool) -> Iterator[tuple[OpenSegment, Numbers, Numbers]]:
        file: OpenSegment | None = None
        try:
            while self.next_offset < self.split.next_offset:
                file = self._open_next(file)
                if file is None:
                    return
                # A segment that took the place of another may begin with records that were read from that one.
                self._bounds = self._bounds._replace(first_offset=self.next_offset)
                yield from self._file_chunks(file, whole=whole)
        finally:
            if file is not None:
                file.close()

    def _open_next(self, before: OpenSegment | None) -> OpenSegment | None:
        """The segment with the next offset; None where the log ends before the split does."""
        for _ in range(_MOST_LISTINGS):
            segments = self._listed()
            if segments is None:
                return None
            holding = [one for one in segments if one.base_offset <= self.next_offset]
            if not holding:
                self._report_gone(
                    segments[0].base_offset, "removed by retention or DeleteRecords since the scan was planned"
                )
                if self._stops_when_gone:
                    return None
                continue
            segment = holding[-1]
            if before is not None and before.is_same(segment):
                if segment.next_base is None:
                    self._report_gone(self.split.next_offset, f"{segment.path} ends before: it was truncated")
                    return None
                self._check_end(before, segment.next_base)
                self._advance(segment.next_base)
                if self.next_offset >= self.split.next_offset:
                    return None
                continue
            if before is not None:
                before.close()
                before = None
            try:
                return OpenSegment(segment, self.next_offset, self.split)
            except FileNotFoundError:
                continue
        self._report_gone(self.split.next_offset, "its files vanish again and again")
        return None

    def _listed(self) -> list[Segment] | None:
        """The segments that are there. Returns None, or raises, where it is not the directory of this topic any more."""
        try:
            segments = segments_of(self._path)
        except OSError as error:
            self._report_gone(self.split.next_offset, error.strerror or str(error))
            return None
        expected = self.split.topic_id
        found = topic_id_of(self._path) if expected is not None else None
        if found is not None and found != expected:
            self._report_gone(
                self.split.next_offset, f"the directory is of another topic, with the id {uuid_to_text(found)}"
            )
            return None
        if not segments:
            self._report_gone(self.split.next_offset, "there is no segment")
            return None
        return segments

    def _check_end(self, file: OpenSegment, next_base: int) -> None:
        """Reports a file that has become shorter, which looks whole when it was cut between two batches.

        Batches without a gap before them are those of a log that was never compacted, and so is what follows them.
        """
        self._end_faulty(next_base)
        if self._damage is None:
            self._damage = list(Damage.load(PartitionDirectory(self._path)))
        for one in self._damage:
            if one.size == 0 and one.first_offset < next_base and one.next_offset > self.next_offset:
                self._unreadable(min(one.next_offset, next_base), file.segment.path, one.position, one.reason)
        if self.next_offset < next_base and (
            file.position > file.size or (file.is_dense and self._is_never_compacted())
        ):
            self._unreadable(next_base, file.segment.path, file.size, "the file ends early")

    def _is_never_compacted(self) -> bool:
        directory, _ = os.path.split(self._path)
        if not os.path.exists(f"{directory}/{CLEANER_OFFSETS}"):
            return False
        cleaned = inspect_offsets(directory, CLEANER_OFFSETS).offsets
        return (self.split.topic, self.split.partition) not in cleaned

    def _report_gone(self, next_offset: int, reason: str) -> None:
        if not self._stops_when_gone:
            self._unreadable(next_offset, self._path, -1, reason)

    def _file_chunks(self, file: OpenSegment, *, whole: bool) -> Iterator[tuple[OpenSegment, Numbers, Numbers]]:
        """Yields the headers of batches, in the file's order, and which of them have records of the split.

        `whole`: the batches are in `file.data`.
        """
        split = self.split
        while self.next_offset < split.next_offset:
            rows = file.read() if whole else file.read_headers()
            if len(rows):
                self._end_faulty(int(rows[0, layout.BASE_OFFSET]))
                aborted = split.aborted
                if aborted is not None:
                    aborted += self._aborts.added(file.segment.path, file.batch, rows)
                yield file, rows, data_rows(rows, self._bounds, aborted)
                last = rows[-1]
                self._advance(int(last[layout.BASE_OFFSET] + last[layout.LAST_DELTA]) + 1)
            elif file.is_at_end() or not self._pass_damage(file):
                return

    def _pass_damage(self, file: OpenSegment) -> bool:
        """Goes to the next whole batch behind bytes that are none; False at the torn tail of the log."""
        found = file.resync(self.next_offset)
        segment = file.segment
        if found is None:
            if segment.next_base is None and self.next_offset >= self.split.next_offset:
                return False
            end = segment.next_base if segment.next_base is not None else self.split.next_offset
            self._unreadable(end, segment.path, file.position, file.reason)
            file.position = file.size
            return segment.next_base is not None
        position, offset = found
        self._unreadable(offset, segment.path, file.position, file.reason)
        file.position = position
        file.expected = offset
        return True
