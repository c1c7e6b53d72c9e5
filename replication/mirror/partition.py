"""The state machine of a mirrored partition: what is fetched next, and what becomes of a response.

It begins by comparing the last batch here with the source's at the same offset, since either side may have lost its own
records: an unclean election, a restored backup, a topic that was deleted and made anew. CRCs cover everything of a batch but
its offset and its leader's epoch, so a batch of equal offset, size and CRC is the same batch. It compares again after each
error and each new connection, and when the source's log has become shorter.

Where the batches differ, the partition stops as DIVERGED, or, where that is allowed (`cuts`), it searches the last common
batch by halves (SEARCHING), and the log is cut behind it (CUTTING), as a follower's log is. All before a common batch is
common.

Compaction may have removed records of either side: where it did, a batch of the same offsets, producer and sequence is the
same, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader


class MirrorState(Enum):
    """A partition's state, as people see it."""

    #: The last batch is compared with the source's.
    COMPARING = "comparing"
    FOLLOWING = "following"
    #: The logs differ, and the last common batch is searched.
    SEARCHING = "searching"
    #: The log is to be cut to `MirroredLog.end`.
    CUTTING = "cutting"
    #: Stopped with a reason; nothing is fetched until an operator decides.
    DIVERGED = "diverged"
    #: The source's topic was deleted and made anew.
    RECREATED = "recreated"
    #: The source has no such topic or partition.
    MISSING = "missing"


#: States that only an operator, or another state of the source's metadata, ends.
STOPPED_STATES = frozenset({MirrorState.DIVERGED, MirrorState.RECREATED, MirrorState.MISSING})


class Batch(NamedTuple):
    """The identity of a batch. `producer`: its producer's id and epoch, and the first sequence; -1 each for none.

    `is_cleaned`: compaction has rewritten it.
    """

    base_offset: int
    next_offset: int
    size: int
    crc: int
    producer: tuple[int, int, int] = (-1, -1, -1)
    is_cleaned: bool = False

    @classmethod
    def of(cls, header: BatchHeader) -> Batch:
        producer = (header.producer_id, header.producer_epoch, header.base_sequence)
        return cls(header.base_offset, header.next_offset, header.size, header.crc, producer, header.is_cleaned)

    def is_same(self, other: Batch, *, is_compacted: bool) -> bool:
        """Whether two batches have the same records, but for those that compaction took from either."""
        if self == other:
            return True
        may_lack = is_compacted and (self.is_cleaned or other.is_cleaned)
        return may_lack and self[:2] == other[:2] and self.producer == other.producer


class Ends(NamedTuple):
    """Start and end of the source's log, in offsets."""

    start: int
    end: int


@dataclass(slots=True)
class MirroredLog:
    """`start`, `end`, `last`: of the log here; `last` is its last batch, None where it has none.

    `is_compacted`: the source may have removed batches, whichever they are. `cuts`: a log that differs from the source's is
    cut to what both have.
    """

    end: int
    last: Batch | None
    is_compacted: bool = False
    start: int = 0
    cuts: bool = False
    state: MirrorState = MirrorState.COMPARING
    reason: str = ""
    #: Where the source's log begins, as it last said.
    source_start: int = 0
    #: The batch that is compared in the search, and the offsets between which the first different one begins.
    probe: Batch | None = None
    _common: int = 0
    _different: int = 0

    def __post_init__(self) -> None:
        if self.last is None:
            self.state = MirrorState.FOLLOWING

    @property
    def fetch_offset(self) -> int | None:
        """The offset to fetch from; None while nothing is to be fetched."""
        match self.state:
            case MirrorState.COMPARING:
                assert self.last is not None
                return self._in_source(self.last)
            case MirrorState.SEARCHING:
                return self._in_source(self.probe) if self.probe is not None else None
            case MirrorState.FOLLOWING:
                return self.end
        return None

    def _in_source(self, batch: Batch) -> int:
        """An offset of the batch that the source has: DeleteRecords may have set its start within one."""
        return max(batch.base_offset, min(self.source_start, batch.next_offset - 1))

    def compare_again(self) -> None:
        """Begins anew: after an error, or with another node that leads there. A search goes on: a comparison follows it."""
        if self.state in (MirrorState.COMPARING, MirrorState.FOLLOWING):
            self.state = MirrorState.FOLLOWING if self.last is None else MirrorState.COMPARING

    def compared(self, first: Batch | None, high_watermark: int) -> bool:
        """Takes the source's first batch from `last` on, and the end of its log. None for a response without batches, which
        compares nothing: others may have filled it, or a transaction may be open there.

        Returns whether the source's ends are to be read: a new leader there may learn its high watermark later.
        """
        assert self.state is MirrorState.COMPARING and self.last is not None
        last = self.last
        if first is None:
            return high_watermark < self.end
        if first.is_same(last, is_compacted=self.is_compacted) or first.base_offset >= self.end:
            # Or retention, DeleteRecords or compaction has taken the batch there.
            self.state = MirrorState.FOLLOWING
        elif self.is_compacted and first.base_offset > last.base_offset:
            self.state = MirrorState.FOLLOWING
        else:
            self._diverge(
                f"the batch at offset {last.base_offset} has CRC {last.crc:#010x} and {last.size} bytes here, at the source "
                f"{first.crc:#010x} and {first.size}"
            )
        return False

    def appended(self, end: int, last: Batch) -> None:
        assert self.state is MirrorState.FOLLOWING and end > self.end
        self.end, self.last = end, last

    def emptied(self, end: int) -> None:
        """The log has no records any more; the next one gets the offset `end`."""
        self.start = self.end = end
        self.last = None

    def overlapped(self, batch: Batch) -> None:
        """The source has a batch that begins before this log's end, and ends behind it."""
        assert self.state is MirrorState.FOLLOWING and batch.base_offset < self.end < batch.next_offset
        self._diverge(
            f"this log ends at offset {self.end}, and the source has a batch from {batch.base_offset} to {batch.next_offset}"
        )

    def source_shrank(self, high_watermark: int) -> bool:
        """Compares again where the source's log ends before this one. Returns whether it does."""
        if self.state is MirrorState.FOLLOWING and high_watermark < self.end and self.last is not None:
            self.compare_again()
            return True
        return False

    def ends_known(self, ends: Ends) -> int | None:
        """Takes the source's ends, after it refused an offset or had no batch there. Returns the offset at which the log
        goes on, where that is not its end.
        """
        self.source_start = ends.start
        if self.state is MirrorState.SEARCHING and self.probe is not None:
            if ends.start >= self.probe.next_offset:
                self._common = min(ends.start, self._different)
            elif ends.end <= self.probe.base_offset:
                self._different = self.probe.base_offset
            else:
                return None
            self.probe = None
            self._end_search()
            return None
        if self.state not in (MirrorState.COMPARING, MirrorState.FOLLOWING):
            return None
        if ends.end < self.end:
            self._diverge(f"the source ends at offset {ends.end}, this log at {self.end}", ends.end)
            return None
        if self.state is MirrorState.COMPARING and self.last is not None and ends.start < self.last.next_offset:
            return None  # the source has it: it is compared with the next response
        self.state = MirrorState.FOLLOWING  # the last batch is not there any more: retention has taken it
        if ends.start > self.end:
            skipped, self.end = self.end, ends.start
            self.reason = f"the source had deleted offsets {skipped} to {ends.start}"
            return ends.start
        return None

    # ---- the search for the last common batch

    @property
    def wanted_probe(self) -> int | None:
        """The offset whose batch here is to be compared next (`probe_at`); None while none is."""
        if self.state is not MirrorState.SEARCHING or self.probe is not None:
            return None
        return (self._common + self._different) // 2

    def probe_at(self, offset: int, batch: Batch | None) -> None:
        """Takes the batch here that has `offset`, or the next one. Ends the search where nothing is left to compare."""
        assert self.state is MirrorState.SEARCHING
        if batch is None or batch.base_offset >= self._different:
            self._different = offset
        else:
            self.probe = batch
        self._end_search()

    def probed(self, first: Batch | None, high_watermark: int) -> None:
        """Takes the source's first batch from the probe on, and the end of its log, as `compared` does."""
        assert self.state is MirrorState.SEARCHING and self.probe is not None
        if first is None and high_watermark > self.probe.base_offset:
            return
        if first is not None and first.is_same(self.probe, is_compacted=self.is_compacted):
            self._common = self.probe.next_offset
        else:
            self._different = min(self._different, self.probe.base_offset)
        self.probe = None
        self._end_search()

    def _end_search(self) -> None:
        if self.probe is None and self._common >= self._different:
            self.state, self.end = MirrorState.CUTTING, self._common

    def cut(self, end: int, last: Batch | None, kept: str) -> None:
        """The log ends with `last` now; `kept` names the place of its former end."""
        assert self.state is MirrorState.CUTTING and end <= self.end
        self.end, self.last = end, last
        self.reason = f"{self.reason}; cut to offset {self.end}{kept}"
        self.state = MirrorState.FOLLOWING if last is None else MirrorState.COMPARING

    # ---- stops

    def stop(self, state: MirrorState, reason: str) -> None:
        """The source's topic is another one, or gone."""
        if self.state not in (MirrorState.DIVERGED, MirrorState.CUTTING):
            self.state, self.reason = state, reason

    def found_again(self) -> None:
        """The source has the topic, after it had not."""
        if self.state is MirrorState.MISSING:
            self.state, self.reason = MirrorState.COMPARING, ""
            self.compare_again()

    def allow_cut(self, *, cuts: bool) -> None:
        """Takes the operator's decision: a partition that has diverged goes on where cuts are allowed now."""
        self.cuts = cuts
        if cuts and self.state is MirrorState.DIVERGED:
            self.state, self.reason = MirrorState.COMPARING, ""
            self.compare_again()

    def _diverge(self, reason: str, source_end: int | None = None) -> None:
        self.reason = reason
        if not self.cuts or self.last is None:
            self.state = MirrorState.DIVERGED
            return
        self.state, self.probe = MirrorState.SEARCHING, None
        self._common, self._different = self.start, self.last.base_offset
        if source_end is not None:
            self._different = max(self.start, min(source_end, self._different))
        self._end_search()
