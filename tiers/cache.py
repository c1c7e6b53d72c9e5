"""The remote segments of one partition, by leader epoch (Kafka's `RemoteLogMetadataCache`, KIP-405).

A pure state machine: `apply` takes events in the order of the metadata topic, and every broker comes to the same cache.

| question | COPY_SEGMENT_STARTED | COPY_SEGMENT_FINISHED | DELETE_SEGMENT_STARTED |
|---|---|---|---|
| `segment_for` an epoch and offset | no | yes, if it is the newest copy | no |
| `segments_of` an epoch, `segments` | yes | yes | yes |
| `highest_offset` of an epoch | no | yes | yes, and after the deletion too |

A segment is referenced by each of its epochs once it is copied. A copy that a later copy covers is no longer referenced: two
leaders may have copied the same offsets, in segments with other borders. It stays listed, so that it can be deleted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from ..protocol.offsets import NO_OFFSET
from .segment_metadata import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    DELETE_SEGMENT_FINISHED,
    DELETE_SEGMENT_STARTED,
    VALID_PREVIOUS_STATES,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)

#: No segment of the epoch was copied.
#: Changed segments that are kept for `take_changed`. Only a leader takes them.
_MOST_CHANGED = 10_000


class Applied(Enum):
    """The effect of an event."""

    #: The cache has it now.
    APPLIED = "applied"
    #: The transition is not valid: an event that came late, or twice. Nothing changed.
    INVALID_TRANSITION = "invalid transition"
    #: An update of a segment that the cache has not, or no longer.
    UNKNOWN_SEGMENT = "unknown segment"


class EpochReferences(NamedTuple):
    """The state of an epoch in a snapshot: its highest copied offset, and (start offset, id) of the referenced segments."""

    epoch: int
    highest_offset: int
    references: tuple[tuple[int, bytes], ...]


class _EpochState:
    """The segments of one leader epoch."""

    __slots__ = ("_first", "_longest", "_starts", "_with_aborted", "highest_offset", "ids", "unreferenced")

    def __init__(self) -> None:
        #: Start offsets of the referenced segments in this epoch, ascending, from `_first` on. Those before are of deleted
        #: segments: the oldest go first, and to take each out of the list would move all others.
        self._starts: list[int] = []
        self._first = 0
        #: The referenced segments' ids, by their start offsets.
        self.ids: dict[int, bytes] = {}
        self.unreferenced: set[bytes] = set()
        self.highest_offset = NO_OFFSET
        #: (first offset, last offset, id) of the copied segments that may have aborted transactions, in order; and the most
        #: offsets that one of them has had.
        self._with_aborted: list[tuple[int, int, bytes]] = []
        self._longest = 0

    def add_aborted(self, start: int, end: int, segment_id: bytes) -> None:
        insort(self._with_aborted, (start, end, segment_id))
        self._longest = max(self._longest, end - start)

    def remove_aborted(self, start: int, end: int, segment_id: bytes) -> None:
        del self._with_aborted[bisect_left(self._with_aborted, (start, end, segment_id))]

    def ranges_with_aborted(self, offset: int) -> Iterator[tuple[int, int]]:
        """Returns first and last offset of the segments that end at `offset` or behind it, in order of the first."""
        first = bisect_left(self._with_aborted, offset - self._longest, key=itemgetter(0))
        for number in range(first, len(self._with_aborted)):
            start, end, _ = self._with_aborted[number]
            if end >= offset:
                yield start, end

    def reference(self, start: int, segment_id: bytes, end: int) -> None:
        """The segment is copied. It replaces the copies that it covers."""
        while self.ids and self._starts[-1] >= start and self.highest_offset <= end:
            self.unreferenced.add(self.ids.pop(self._starts.pop()))
        replaced = self.ids.get(start)
        if replaced is None:
            insort(self._starts, start, self._first)
        elif replaced != segment_id:
            self.unreferenced.add(replaced)
        self.ids[start] = segment_id
        self.unreferenced.discard(segment_id)
        self.highest_offset = max(self.highest_offset, end)

    def unreference(self, start: int, segment_id: bytes) -> None:
        """The segment is being deleted."""
        if self.ids.get(start) == segment_id:
            del self.ids[start]
            place = bisect_left(self._starts, start, self._first)
            if place > self._first:
                del self._starts[place]
            else:
                self._first += 1
                if self._first > len(self.ids):
                    del self._starts[: self._first]
                    self._first = 0
        self.unreferenced.add(segment_id)

    def starts(self) -> list[int]:
        """Returns the start offsets of the referenced segments, ascending."""
        return self._starts[self._first :]

    def floor(self, offset: int) -> bytes | None:
        """Returns the id of the referenced segment with the greatest start that is not above `offset`."""
        number = bisect_right(self._starts, offset, self._first) - 1
        return self.ids[self._starts[number]] if number >= self._first else None


class RemoteLogMetadataCache:
    """See the head of the file. No method raises for an event from outside; `Applied` has its effect."""

    __slots__ = ("_changed", "_epochs", "_segments", "_unfinished", "copied_bytes")

    def __init__(self) -> None:
        self._segments: dict[bytes, RemoteLogSegmentMetadata] = {}
        #: Segments whose copy or deletion has not ended.
        self._unfinished: dict[bytes, RemoteLogSegmentMetadata] = {}
        self.copied_bytes = 0
        #: Ids of the segments that have changed since `take_changed`; None before the first call, and if they are too many.
        self._changed: set[bytes] | None = None
        self._epochs: dict[int, _EpochState] = {}

    def __len__(self) -> int:
        return len(self._segments)

    # ---- events

    def apply(self, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> Applied:
        """Applies an event that passed the checks of `decode_event`."""
        known = self._segments.get(event.segment_id)
        if isinstance(event, RemoteLogSegmentMetadata):
            return self._add(event, known)
        if known is None:
            return Applied.UNKNOWN_SEGMENT
        # A segment begins with its whole metadata, so an update into the first state is none.
        if event.state is COPY_SEGMENT_STARTED or known.state not in VALID_PREVIOUS_STATES[event.state]:
            return Applied.INVALID_TRANSITION
        self._enter(known.updated(event))
        return Applied.APPLIED

    def restore(self, segments: Iterable[RemoteLogSegmentMetadata], epochs: Iterable[EpochReferences]) -> None:
        """Fills an empty cache with `segments()` and `references()` of another one.

        Raises ValueError for references that segments of these states cannot have.
        """
        assert not self._segments, "a cache is restored before the first event"
        for one in segments:
            self._begin(one)
        for epoch, highest_offset, references in epochs:
            state = self._epoch(epoch)
            state.highest_offset = highest_offset
            for start, segment_id in references:
                segment = self._segments.get(segment_id)
                if (
                    segment is None
                    or segment.state is not COPY_SEGMENT_FINISHED
                    or (epoch, start) not in segment.epochs
                    or start in state.ids
                ):
                    raise ValueError(f"epoch {epoch} refers to {segment or segment_id.hex()} at offset {start}")
                insort(state._starts, start)
                state.ids[start] = segment_id
                state.unreferenced.discard(segment_id)

    def _add(self, segment: RemoteLogSegmentMetadata, known: RemoteLogSegmentMetadata | None) -> Applied:
        if segment.state is not COPY_SEGMENT_STARTED or (known and known.state is not COPY_SEGMENT_STARTED):
            return Applied.INVALID_TRANSITION
        if known is not None:  # it may have other epochs
            self._forget(known)
        self._begin(segment)
        return Applied.APPLIED

    def _begin(self, segment: RemoteLogSegmentMetadata) -> None:
        for epoch, _ in segment.epochs:
            self._epoch(epoch).unreferenced.add(segment.segment_id)
        self._put(segment)

    def _put(self, segment: RemoteLogSegmentMetadata) -> None:
        self._remove(segment.segment_id)
        segment_id = segment.segment_id
        self._segments[segment_id] = segment
        if segment.state is COPY_SEGMENT_FINISHED:
            self.copied_bytes += segment.size_bytes
            if not segment.txn_index_empty:
                for epoch, start in segment.epochs:
                    self._epoch(epoch).add_aborted(start, segment.epoch_end_offset(epoch), segment_id)
        else:
            self._unfinished[segment_id] = segment

    def _remove(self, segment_id: bytes) -> None:
        known = self._segments.pop(segment_id, None)
        if known is not None and known.state is COPY_SEGMENT_FINISHED:
            self.copied_bytes -= known.size_bytes
            if not known.txn_index_empty:
                for epoch, start in known.epochs:
                    self._epoch(epoch).remove_aborted(start, known.epoch_end_offset(epoch), segment_id)
        self._unfinished.pop(segment_id, None)
        if self._changed is not None:
            self._changed.add(segment_id)
            if len(self._changed) > _MOST_CHANGED:
                self._changed = None

    def _enter(self, segment: RemoteLogSegmentMetadata) -> None:
        """The segment is in a state after COPY_SEGMENT_STARTED."""
        self._put(segment)
        if segment.state is COPY_SEGMENT_FINISHED:
            for epoch, start in segment.epochs:
                self._epoch(epoch).reference(start, segment.segment_id, segment.epoch_end_offset(epoch))
        elif segment.state is DELETE_SEGMENT_STARTED:
            for epoch, start in segment.epochs:
                self._epoch(epoch).unreference(start, segment.segment_id)
        elif segment.state is DELETE_SEGMENT_FINISHED:
            self._forget(segment)

    def _forget(self, segment: RemoteLogSegmentMetadata) -> None:
        self._remove(segment.segment_id)
        for epoch, _ in segment.epochs:
            self._epoch(epoch).unreferenced.discard(segment.segment_id)

    def _epoch(self, epoch: int) -> _EpochState:
        state = self._epochs.get(epoch)
        if state is None:
            state = self._epochs[epoch] = _EpochState()
        return state

    # ---- questions

    def segment(self, segment_id: bytes) -> RemoteLogSegmentMetadata | None:
        return self._segments.get(segment_id)

    def segment_for(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Returns the copied segment that has `offset`, written in `epoch`; None if there is none.

        Where a shorter copy begins within a longer one, Kafka finds nothing behind the end of the shorter one. Here the
        longer copy, which has the same records of the epoch, is found.
        """
        state = self._epochs.get(epoch)
        if state is None or offset > state.highest_offset:
            return None
        referenced = state.floor(offset)
        if referenced is not None and offset <= (segment := self._segments[referenced]).epoch_end_offset(epoch):
            return segment
        for ids in (state.ids.values(), state.unreferenced):
            segments = map(self._segments.__getitem__, ids)
            found = [one for one in segments if one.state is COPY_SEGMENT_FINISHED and one.has(epoch, offset)]
            if found:  # the same one whatever the order of the events was, and after a restart
                return max(found, key=lambda one: (one.end_offset, one.segment_id))
        return None

    def next_segment_with_aborted(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Returns the first copied segment of `epoch` from `offset` on that may have aborted transactions (KIP-405).

        Each copy that has some is walked from its first offset on, since another copy may be in use for its first part.
        """
        state = self._epochs.get(epoch)
        if state is None:
            return None
        walked = offset
        for start, end in state.ranges_with_aborted(offset):
            walked = max(walked, start)
            while walked <= end:
                found = self.segment_for(epoch, walked)
                if found is None:
                    break
                if not found.txn_index_empty:
                    return found
                walked = found.epoch_end_offset(epoch) + 1
        return None

    def highest_offset(self, epoch: int) -> int:
        """Returns the last offset of `epoch` that was ever copied, or NO_OFFSET."""
        state = self._epochs.get(epoch)
        return NO_OFFSET if state is None else state.highest_offset

    def references(self) -> list[EpochReferences]:
        """Returns the state of each epoch, for `restore`, by epoch."""
        return [
            EpochReferences(epoch, state.highest_offset, tuple((start, state.ids[start]) for start in state.starts()))
            for epoch, state in sorted(self._epochs.items())
            if state.ids or state.highest_offset != NO_OFFSET
        ]

    def segments_of(self, epoch: int) -> list[RemoteLogSegmentMetadata]:
        """Returns all segments with records of `epoch`, referenced or not, by their start offset."""
        state = self._epochs.get(epoch)
        if state is None:
            return []
        found = [self._segments[one] for one in (*(state.ids[start] for start in state.starts()), *state.unreferenced)]
        return sorted(found, key=lambda one: (one.start_offset, one.segment_id))

    def segments(self) -> list[RemoteLogSegmentMetadata]:
        """Returns all segments, in no order that means anything."""
        return list(self._segments.values())

    def ids(self) -> set[bytes]:
        return set(self._segments)

    def unfinished(self) -> list[RemoteLogSegmentMetadata]:
        """Returns the segments whose copy or deletion has not ended."""
        return list(self._unfinished.values())

    def take_changed(self) -> set[bytes] | None:
        """Returns the ids of the segments that have changed since the last call; None where any may have. RetainedSegments
        is the one caller.
        """
        changed, self._changed = self._changed, set()
        return changed

    def epochs(self) -> list[int]:
        """Returns the epochs of all segments that are left, ascending."""
        return sorted(epoch for epoch, state in self._epochs.items() if state.ids or state.unreferenced)
