"""A reader of a split, wherever its batches come from: what all readers share.

Batches must follow each other by their offsets, and have the right CRC. Offsets that cannot be read raise UnreadableOffsets
or, with `skip`, are in `unread`; there is no third way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..protocol.records.batch import CONTROL_FLAG
from . import layout
from .abort_check import AbortCheck
from .batch_decoder import BatchDecoder, BatchFault
from .batch_selection import Bounds, count_rows
from .errors import Unread, UnreadableOffsets
from .layout import Numbers
from .split import Split


@dataclass(slots=True)
class ReadOptions:
    """`columns`: names of SCHEMA, in the order of the result. `skip`: unreadable offsets do not raise."""

    columns: Sequence[str]
    skip: bool = False
    check_crcs: bool = True


class Faulty(NamedTuple):
    """A batch that cannot be read."""

    file: str
    position: int
    reason: str


def end_of_faulty(row: Numbers, rows: Numbers, behind: int | None) -> int:
    """The offset after a batch that cannot be read. `rows`: those behind it, and `behind` is the base offset after them.

    Its own header may be wrong, and the next batch is the one that has a right CRC, or is reported, too.
    """
    own = int(row[layout.BASE_OFFSET] + row[layout.LAST_DELTA]) + 1
    return max(own, int(rows[0, layout.BASE_OFFSET]) if len(rows) else behind or 0)


class Batches(NamedTuple):
    """Batches to decode: `rows[wanted]` of `data`, which begins at the position `data_at` of `file`.

    None: the bytes are of a response, and have no position in a file.
    """

    file: str
    data: memoryview
    data_at: int | None
    rows: Numbers
    wanted: Numbers
    bounds: Bounds


class SplitReader:
    """A reader of a split, wherever its batches come from: how far the split is read, and which offsets cannot be.

    `next_offset`: all records of the split below it were yielded, or are in `unread`.
    """

    def __init__(self, split: Split, options: ReadOptions) -> None:
        self.split = split
        self.next_offset = split.first_offset
        self.unread: list[Unread] = []
        self._options = options
        self._aborts = AbortCheck(split)
        #: The last batch that was read, if its CRC is wrong, and so maybe its number of offsets.
        self._faulty: Faulty | None = None

    def _new_decoder(self, columns: Sequence[str]) -> BatchDecoder:
        split = self.split
        return BatchDecoder(split.topic, split.partition, columns, check_crcs=self._options.check_crcs)

    def _advance(self, next_offset: int) -> None:
        self.next_offset = max(self.next_offset, min(next_offset, self.split.next_offset))

    def _decoded(self, decoder: BatchDecoder, batches: Batches, behind: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the records of batches, and reports the offsets of those that cannot be read.

        `behind`: the base offset of the batch behind these; None where it is not read yet (`_end_faulty`).
        """
        file, data, data_at, rows, wanted, bounds = batches
        while len(rows):
            try:
                yield from decoder.decode(data, data_at or 0, rows, wanted, bounds)
                return
            except BatchFault as fault:
                row = rows[fault.row]
                rows, wanted = rows[fault.row + 1 :], wanted[fault.row + 1 :]
                position = -1 if data_at is None else int(row[layout.POSITION])
                self._advance(min(int(row[layout.BASE_OFFSET]), bounds.last_offset + 1))
                self._unreadable(end_of_faulty(row, rows, behind), file, position, fault.reason)
                if not len(rows) and behind is None:
                    self._faulty = Faulty(file, position, fault.reason)

    def _counted(
        self,
        rows: Numbers,
        wanted: Numbers,
        bounds: Bounds,
        decoded: Callable[[Numbers, Numbers, int | None], Iterator[pa.RecordBatch]],
    ) -> int:
        """The number of records, by the headers of their batches. `decoded` has those of one batch, whose CRC it checks; its
        arguments are the row, whether it is wanted, and the base offset of the batch behind it.

        A header counts where its number of records is that of its offsets: no CRC of a header alone shows a wrong number.
        Every other batch is read: one that reaches over a bound, that compaction has thinned out, a control batch.
        """
        base, last = rows[:, layout.BASE_OFFSET], rows[:, layout.BASE_OFFSET] + rows[:, layout.LAST_DELTA]
        inside = (base >= bounds.first_offset) & (last <= bounds.last_offset)
        inside &= (rows[:, layout.ATTRIBUTES] & CONTROL_FLAG == 0) & (rows[:, layout.COUNT] == last - base + 1)
        inside &= not bounds.has_times
        found = count_rows(rows, wanted & inside)
        is_reached = (last >= bounds.first_offset) & (base <= bounds.last_offset)
        for row in np.flatnonzero(is_reached & ~inside):
            behind = int(base[row + 1]) if row + 1 < len(rows) else None
            found += sum(batch.num_rows for batch in decoded(rows[row : row + 1], wanted[row : row + 1], behind))
        return found

    def _end_faulty(self, next_offset: int) -> None:
        """Reports the offsets between a batch with a wrong CRC and the next one."""
        faulty, self._faulty = self._faulty, None
        if faulty is not None:
            self._unreadable(next_offset, *faulty)

    def _unreadable(self, next_offset: int, file: str, position: int, reason: str) -> None:
        """Reports the offsets from the reader's own up to before another one, within the split."""
        split, end = self.split, min(next_offset, self.split.next_offset)
        if self.next_offset < end:
            found = Unread(split.topic, split.partition, self.next_offset, end, file, position, reason)
            if not self._options.skip:
                raise UnreadableOffsets(found)
            self.unread.append(found)
            self._aborts.forget()
            self.next_offset = end
