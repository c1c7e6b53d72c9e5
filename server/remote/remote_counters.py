"""Counters of what a broker copies to the remote store and reads from it."""

from __future__ import annotations


class RemoteTopicCounters:
    """Counters of one topic. They only grow."""

    __slots__ = (
        "aux_errors", "aux_requests", "copy_bytes", "copy_errors", "copy_requests", "delete_errors", "delete_requests",
        "expired_searches", "fetch_bytes", "fetch_errors", "fetch_requests",
    )  # fmt: skip

    def __init__(self) -> None:
        self.copy_bytes = self.copy_requests = self.copy_errors = 0
        self.fetch_bytes = self.fetch_requests = self.fetch_errors = 0
        self.delete_requests = self.delete_errors = 0
        self.aux_requests = self.aux_errors = 0
        #: Partitions of ListOffsets that were answered before the store was searched.
        self.expired_searches = 0


class RemoteCounters:
    """Counters of this broker."""

    def __init__(self) -> None:
        self.topics: dict[str, RemoteTopicCounters] = {}
        #: Fetches that were answered before their remote reads had ended.
        self.expired_fetches = 0
        #: Reads of the store that have ended, and the time that they took.
        self.reads = 0
        self.read_ms = 0.0
        self.copy_throttled_ms = 0
        self.fetch_throttled_ms = 0

    def topic(self, name: str) -> RemoteTopicCounters:
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = RemoteTopicCounters()
        return found
