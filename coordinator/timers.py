"""Timers of a coordinator shard, ordered by time. The clock is an argument.

They are cheap to move. A heartbeat only moves its member's deadline. A timer with a later deadline stays at its place in
the queue, and is queued again when that place is due. So 10,000 members cost 10,000 queue operations per session
timeout, not per heartbeat. `next_deadline` may therefore be too early, never too late.

Obsolete entries, as of cancelled timers, stay in the queue until they are due. When they may be most of the queue, it
is rebuilt without them, so that a client that joins and leaves in a loop does not fill it.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

#: The deadline of a timer that is not set.
NEVER = 1 << 62
#: A queue is rebuilt when it has this many entries more than twice the live ones of the last time.
MOST_OBSOLETE = 1_000
Event = tuple[str, ...]


class Timer:
    """A timer. `event` identifies it; `deadline_ms` is its deadline; `queued_ms` is its first place in the queue."""

    __slots__ = ("deadline_ms", "event", "queued_ms")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.deadline_ms = NEVER
        self.queued_ms = NEVER

    @property
    def is_set(self) -> bool:
        return self.deadline_ms != NEVER

    def cancel(self) -> None:
        self.deadline_ms = NEVER


class Timers:
    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._rebuild_at = MOST_OBSOLETE

    def set(self, timer: Timer, deadline_ms: int) -> None:
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.queued_ms:
            self._enqueue(timer)

    def next_deadline(self) -> int | None:
        queue = self._queue
        while queue:
            queued_ms, _, timer = queue[0]
            if timer.deadline_ms != NEVER and timer.queued_ms == queued_ms:  # it is live
                return queued_ms
            self._drop_first()
        return None

    def due(self, now_ms: int) -> Timer | None:
        """Removes and returns one timer that is due: the earliest, and among equals the first in the queue."""
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            entry = queue[0]
            live = self._is_live(entry)
            self._drop_first()
            timer = entry[2]
            if not live:
                continue
            if timer.deadline_ms <= now_ms:
                timer.deadline_ms = NEVER
                return timer
            self._enqueue(timer)
        return None

    @staticmethod
    def _is_live(entry: tuple[int, int, Timer]) -> bool:
        """Returns False for an obsolete entry: its timer was cancelled, or is also queued earlier."""
        timer = entry[2]
        return timer.deadline_ms != NEVER and timer.queued_ms == entry[0]

    def _drop_first(self) -> None:
        queued_ms, _, timer = heappop(self._queue)
        if timer.queued_ms == queued_ms:
            timer.queued_ms = NEVER

    def _enqueue(self, timer: Timer) -> None:
        self._sequence += 1
        timer.queued_ms = timer.deadline_ms
        heappush(self._queue, (timer.deadline_ms, self._sequence, timer))
        if len(self._queue) > self._rebuild_at:
            self._rebuild()

    def _rebuild(self) -> None:
        """Drops the obsolete entries; the order of the others stays."""
        live = []
        for entry in self._queue:
            queued_ms, _, timer = entry
            if self._is_live(entry):
                live.append(entry)
            elif timer.queued_ms == queued_ms:
                timer.queued_ms = NEVER
        heapify(live)
        self._queue = live
        self._rebuild_at = 2 * len(live) + MOST_OBSOLETE
