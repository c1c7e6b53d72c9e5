"""The pause between two Fetches of a link to one node of its source, in which records gather there.

A Fetch costs both sides the same for one record as for a hundred, so a Fetch for each record is dear. The rules:

- A link that has all of the source sends its next Fetch `linger_ms` after its last one at the earliest.
- After a longer silence that is at once: the Fetch waits at the source, and the first record is sent as it arrives. So are
  all records that come less often than `linger_ms`.
- A link that the source has more for rests as long as its last response took to write, at most `MOST_REST_MS`. So a link
  that catches up takes half of the broker's time, or of its disk's, and leaves the other half to clients.

A record is late by at most `linger_ms`, by half of it in the mean, and a node gets at most 1000 / `linger_ms` Fetches a
second. A far source needs no pause: the way there and back is one.
"""

from __future__ import annotations

from collections.abc import Callable

#: Longest rest of a link that catches up.
MOST_REST_MS = 200.0


class FetchLinger:
    """`linger_ms` returns the pause, 0 for none; it may change meanwhile. Times are milliseconds of a monotonic clock."""

    def __init__(self, linger_ms: Callable[[], int]) -> None:
        self._linger_ms = linger_ms
        self._sent_ms: float | None = None

    def sent(self, now_ms: float) -> None:
        """Notes a Fetch."""
        assert self._sent_ms is None or now_ms >= self._sent_ms, "the clock goes back"
        self._sent_ms = now_ms

    def pause_ms(self, now_ms: float, *, is_urgent: bool, took_ms: float = 0.0) -> float:
        """Returns the time until the next Fetch, after a response. `is_urgent`: whether the source has more, or batches are
        compared. `took_ms`: from the response's arrival until it was written."""
        if is_urgent:
            return min(took_ms, MOST_REST_MS)
        if self._sent_ms is None:
            return 0.0
        return max(0.0, self._sent_ms + self._linger_ms() - now_ms)
