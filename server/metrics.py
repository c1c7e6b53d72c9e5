"""Counters that the broker keeps while it works: plain integers that only grow, added to where the work is done.

Nobody reads them but a scrape (`metrics_http.py`), so there are no locks, no windows and no rates: whoever scrapes computes
those. A partition keeps the counters of its topic at hand: `metrics.topic(name)` once, then `counters.bytes_in += n` for
each request.
"""

from __future__ import annotations

from time import perf_counter_ns

#: Of the requests of one API and version, one in this many (a power of two) is timed: reading a clock twice costs more
#: than the counting.
TIMED_ONE_IN = 16
#: Times are kept by their power of two in microseconds; the last bucket has all from 2^30 us (18 minutes) on.
TIME_BUCKETS = 32


class TopicMetrics:
    """What happened to the partitions of one topic that this broker leads."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "invalid_crc",
        "invalid_magic",
        "invalid_sequence",
        "messages_in",
        "no_key",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
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
    """Partitions in Produce requests, and of them failed_produces were refused."""
    failed_produces: int
    fetches: int
    """Partitions in Fetch requests, and of them failed_fetches were refused."""
    failed_fetches: int
    no_key: int
    """Records refused because a compacted topic takes none without a key."""
    invalid_magic: int
    invalid_crc: int
    invalid_sequence: int
    """Records refused because offsets or sequence numbers do not follow each other."""
    replication_bytes_in: int
    """Bytes that this broker's followers fetched from leaders."""
    replication_bytes_out: int
    """Bytes that other brokers' followers fetched from here."""

    def add(self, other: TopicMetrics) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RequestMetrics:
    """What happened to the requests of one API and version."""

    __slots__ = ("buckets", "errors", "request_bytes", "requests", "response_bytes", "timed", "timed_ns")

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        #: How many answers had an error of their own, by code.
        self.errors: dict[int, int] = {}
        #: Of the timed requests: how many, their times together, and how many took 2^(i-1) to 2^i microseconds.
        self.timed = 0
        self.timed_ns = 0
        self.buckets = [0] * TIME_BUCKETS

    def begin(self, size: int) -> int:
        """Counts a request of that many bytes in. Returns when it came, for `end`, or 0 when it is not timed."""
        self.requests = count = self.requests + 1
        self.request_bytes += size
        return 0 if count & TIMED_ONE_IN - 1 else perf_counter_ns()

    def end(self, began_ns: int) -> None:
        """A timed request has been answered."""
        took_ns = perf_counter_ns() - began_ns
        self.timed += 1
        self.timed_ns += took_ns
        self.buckets[min((took_ns // 1000).bit_length(), TIME_BUCKETS - 1)] += 1

    def quantile_ms(self, quantile: float) -> float:
        """The time that this share of the timed requests did not exceed: the upper end of its bucket, 0.0 without any."""
        rank = quantile * self.timed
        seen = 0
        for power, count in enumerate(self.buckets):
            seen += count
            if count and seen >= rank:
                return float(1 << power) / 1000
        return 0.0


class Metrics:
    """All counters of one broker."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicMetrics] = {}
        self._deleted = TopicMetrics()
        self.isr_shrinks = 0
        self.isr_expands = 0

    def topic(self, name: str) -> TopicMetrics:
        """The counters of a topic; the same object until the topic is deleted."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = TopicMetrics()
        return found

    def drop_topic(self, name: str) -> None:
        """The topic is deleted: its counters go, and count on in those of all topics."""
        gone = self._topics.pop(name, None)
        if gone is not None:
            self._deleted.add(gone)

    def topics(self) -> dict[str, TopicMetrics]:
        return self._topics

    def all_topics(self) -> TopicMetrics:
        """The sum over every topic that there is or was."""
        total = TopicMetrics()
        total.add(self._deleted)
        for counters in self._topics.values():
            total.add(counters)
        return total
