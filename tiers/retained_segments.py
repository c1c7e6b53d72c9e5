"""The copied segments of a log in the order of retention, kept up to date with the changes of a cache.

Segments go from the oldest on, up to the first of the log's history that is to stay. Segments of epochs before the log's
first one go too, whatever their age: they are of a history that no leader has. Interrupted copies and deletions are those of
`plan_collection`.

A leader looks often: a pass costs in proportion to what has changed and to what goes. A change of the log's leader epochs
has all segments looked at again, in steps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator

from .cache import RemoteLogMetadataCache
from .lineage import Epochs, is_within, without_empty
from .retention import Retention, RetentionPlan, is_expired
from .segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata

#: Segments that are looked at in one step: some 10 us each.
SEGMENTS_AT_A_TIME = 200
#: Deletions of one plan. The caller makes the next one.
MOST_DELETIONS = 1_000

_Place = tuple[int, int, bytes]


class RetainedSegments:
    """Calls `update_in_steps`, to its end, before `plan`."""

    def __init__(self, cache: RemoteLogMetadataCache) -> None:
        self.cache = cache
        self._log_epochs: list[tuple[int, int]] = []
        self._epochs: set[int] = set()
        #: (first epoch that the log has, start offset, id), in order.
        self._order: list[_Place] = []
        self._places: dict[bytes, _Place] = {}
        #: Sizes of the segments that are of the log's history, and of those at or behind its end, which may become so.
        self._within: dict[bytes, int] = {}
        self._beyond: set[bytes] = set()
        self._within_bytes = 0
        #: Segments of epochs before the log's first one.
        self._foreign: set[bytes] = set()

    def update_in_steps(self, epochs: Epochs, log_end_offset: int) -> Iterator[None]:
        """Takes in what has changed. The cache may change between two steps."""
        log_epochs = without_empty(epochs)
        # The start of the first epoch is that of the log: it moves with each deletion, and decides nothing.
        is_same = [epoch for epoch, _ in log_epochs[:1]] == [epoch for epoch, _ in self._log_epochs[:1]]
        changed = self.cache.take_changed()
        if changed is None or not is_same or log_epochs[1:] != self._log_epochs[1:]:
            self._forget_all()
            changed = self.cache.ids()
        else:
            changed |= self._beyond
        self._log_epochs, self._epochs = log_epochs, {epoch for epoch, _ in log_epochs}
        while changed:
            for count, segment_id in enumerate(changed, 1):
                self._take(segment_id, log_end_offset)
                if count % SEGMENTS_AT_A_TIME == 0:
                    yield
            changed = self.cache.take_changed()
            if changed is None:
                self._forget_all()
                changed = self.cache.ids()

    def _forget_all(self) -> None:
        self._order, self._places, self._within, self._within_bytes = [], {}, {}, 0
        self._beyond, self._foreign = set(), set()

    def _take(self, segment_id: bytes, log_end_offset: int) -> None:
        place = self._places.pop(segment_id, None)
        if place is not None:
            del self._order[bisect_left(self._order, place)]
        self._within_bytes -= self._within.pop(segment_id, 0)
        self._beyond.discard(segment_id)
        self._foreign.discard(segment_id)
        segment = self.cache.segment(segment_id)
        if segment is None or segment.state is not COPY_SEGMENT_FINISHED or not self._log_epochs:
            return
        if segment.epochs[-1][0] < self._log_epochs[0][0]:
            self._foreign.add(segment_id)
        first = next((epoch for epoch, _ in segment.epochs if epoch in self._epochs), None)
        if first is None:
            return
        place = self._places[segment_id] = first, segment.start_offset, segment_id
        if not self._order or place > self._order[-1]:
            self._order.append(place)
        else:
            insort(self._order, place)
        if segment.end_offset >= log_end_offset:
            self._beyond.add(segment_id)
        if is_within(segment, log_end_offset, self._log_epochs):
            self._within[segment_id] = segment.size_bytes
            self._within_bytes += segment.size_bytes

    def plan(
        self,
        retention: Retention,
        *,
        log_start_offset: int,
        only_local_bytes: int,
        now_ms: int,
        copying: Collection[bytes] = (),
    ) -> RetentionPlan:
        """Returns the log's new start, and the first MOST_DELETIONS copied segments that the leader deletes now. `copying`:
        ids of segments that it copies.
        """
        if not self._log_epochs:
            return RetentionPlan(log_start_offset, [])
        within_bytes = self._within_bytes - sum(self._within.get(one, 0) for one in copying)
        excess = only_local_bytes + within_bytes - retention.bytes if retention.bytes >= 0 else 0
        first_epoch = self._log_epochs[0][0]
        deletions: dict[bytes, RemoteLogSegmentMetadata] = {}
        start = log_start_offset
        for _, _, segment_id in self._order:
            segment = self.cache.segment(segment_id)
            if segment is None or segment_id in copying:
                continue
            if len(deletions) == MOST_DELETIONS:
                break
            is_within_log = segment_id in self._within
            if segment.end_offset >= log_start_offset or segment.epochs[-1][0] > first_epoch:
                if not is_within_log:
                    continue
                is_too_much = excess > 0 and segment.size_bytes <= excess
                if not is_too_much and not is_expired(segment, retention, now_ms):
                    break
                start = max(start, segment.end_offset + 1)
            # Kafka does not subtract segments below the log's start, and then deletes younger ones for their size.
            excess -= segment.size_bytes if is_within_log else 0
            deletions[segment_id] = segment
        for segment_id in self._foreign:
            segment = self.cache.segment(segment_id)
            if len(deletions) >= MOST_DELETIONS:
                break
            if segment is not None and segment_id not in copying:
                deletions.setdefault(segment_id, segment)
        return RetentionPlan(start, list(deletions.values()))
