"""A plugin of pytest for kafka-python's own tests: consumers have their first metadata, and their polls more patience.

With `api_version` set, as in these tests, KafkaConsumer 3.0.12 fetches its first metadata in the background. A `subscribe`
between that request, which names no topic, and its response is forgotten (its `ClusterMetadata.set_topics`: "handle
future when old metadata request is currently in-flight"), and the consumer reads nothing for metadata.max.age.ms, 5 minutes.

A test that polls once has 2 s for a new group's first records, which a machine that runs other tests beside it may exceed.
A poll returns as soon as it has records, so that a longer time-out costs nothing where a test passes.
"""

from __future__ import annotations

import functools
from typing import Any

from kafka import KafkaConsumer

#: How many times longer a test's own poll waits.
_PATIENCE = 5


def pytest_configure() -> None:
    begin = KafkaConsumer.__init__

    @functools.wraps(begin)
    def begin_with_metadata(self: KafkaConsumer, *topics: str, **configs: Any) -> None:
        begin(self, *topics, **configs)
        self.bootstrap()

    KafkaConsumer.__init__ = begin_with_metadata

    poll = KafkaConsumer.poll

    @functools.wraps(poll)
    def poll_patiently(self: KafkaConsumer, timeout_ms: float = 0, *arguments: Any, **named: Any) -> Any:
        # The client's iterator names update_offsets, and its tests measure how long that waits.
        patience = 1 if "update_offsets" in named else _PATIENCE
        return poll(self, timeout_ms * patience, *arguments, **named)

    KafkaConsumer.poll = poll_patiently
