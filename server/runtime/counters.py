"""Counters that the broker keeps while it works: plain integers that only grow, incremented where the work is done.

Only a scrape (`observability/subsystem.py`) reads them, so there are no locks, windows or rates: the scraper computes
rates. A partition holds a reference to its topic's counters: it calls `metrics.topic(name)` once, then
`counters.bytes_in += n` for each request.
"""

from __future__ import annotations

#: Durations are counted by power of two in microseconds; the last bucket counts everything from 2^30 us (18 minutes)
#: on.
_TIME_BUCKETS = 32


class TopicMetrics:
    """The counters of one topic's partitions that this broker leads."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "failed_share_acknowledgements",
        "failed_share_fetches",
        "fetches",
        "invalid_crc",
        "invalid_sequence",
        "messages_in",
        "produces",
        "share_acknowledgements",
        "share_fetches",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    bytes_in: int
    """Bytes of record batches that producers appended."""
    bytes_out: int
    """Bytes of record batches that consumers were given."""
    bytes_rejected: int
    """Bytes of batches refused for their size."""
    messages_in: int
    """Records that producers appended, by the headers of their batches."""
    produces: int
    """How often a producer appended to a partition."""
    failed_produces: int
    """How often what a producer sent for a partition was refused."""
    fetches: int
    """How often a partition was answered for in a fetch."""
    failed_fetches: int
    """How often of these with an error."""
    share_fetches: int
    """Requests of members of share groups that were for partitions of the topic."""
    failed_share_fetches: int
    """Those answered with an error for one of them."""
    share_acknowledgements: int
    """Requests that said what became of records of the topic."""
    failed_share_acknowledgements: int
    """Those of which it was not taken for one of the partitions."""
    invalid_crc: int
    """Batches refused because their checksum or their form is wrong."""
    invalid_sequence: int
    """Batches refused because their sequence numbers do not follow what is there."""

    def add(self, other: TopicMetrics) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Times:
    """A histogram of durations: the count, the sum, and the count between each power of two and the next."""

    __slots__ = ("buckets", "count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        #: Bucket i: less than 2^i microseconds, and not less than 2^(i-1).
        self.buckets = [0] * _TIME_BUCKETS

    def add(self, took_ns: int) -> None:
        self.count += 1
        self.total_ns += took_ns
        self.buckets[min((took_ns // 1000).bit_length(), _TIME_BUCKETS - 1)] += 1

    def include(self, other: Times) -> None:
        self.count += other.count
        self.total_ns += other.total_ns
        self.buckets = [ours + theirs for ours, theirs in zip(self.buckets, other.buckets)]

    def quantile_ms(self, quantile: float) -> float:
        """Returns the duration that this share of them did not exceed: the upper end of its bucket, 0.0 when there are
        none.
        """
        rank = quantile * self.count
        seen = 0
        for power, count in enumerate(self.buckets):
            seen += count
            if count and seen >= rank:
                return float(1 << power) / 1000
        return 0.0


class LeaderlessTimes(Times):
    """Durations without a known leader, after there had been one."""

    def __init__(self) -> None:
        super().__init__()
        self._since_ms: int | None = None
        self._was_led = False

    def leader_is(self, leader_id: int, now_ms: int) -> None:
        """Notes the current leader; -1 for none."""
        if leader_id < 0 and self._was_led and self._since_ms is None:
            self._since_ms = now_ms
        elif leader_id >= 0:
            self._was_led = True
            if self._since_ms is not None:
                self.add((now_ms - self._since_ms) * 1_000_000)
                self._since_ms = None


class Metrics:
    """The counters of one broker that the counted objects do not keep themselves."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicMetrics] = {}
        self._deleted = TopicMetrics()

    def topic(self, name: str) -> TopicMetrics:
        """Returns the counters of a topic; the same object until the topic is deleted."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = TopicMetrics()
        return found

    def drop_topic(self, name: str) -> None:
        """Removes a deleted topic's counters. Their values stay in the totals of all topics."""
        gone = self._topics.pop(name, None)
        if gone is not None:
            self._deleted.add(gone)

    def topics(self) -> dict[str, TopicMetrics]:
        return self._topics

    def all_topics(self) -> TopicMetrics:
        """Returns the sum over all existing and deleted topics."""
        total = TopicMetrics()
        total.add(self._deleted)
        for counters in self._topics.values():
            total.add(counters)
        return total
