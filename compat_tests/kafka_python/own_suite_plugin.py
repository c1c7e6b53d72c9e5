"""A plugin of pytest for kafka-python's own tests: each consumer has its first metadata before a test subscribes it.

With `api_version` set, as in these tests, KafkaConsumer 3.0.12 fetches its first metadata in the background. A `subscribe`
between that request, which names no topic, and its response is forgotten (its `ClusterMetadata.set_topics`: "handle
future when old metadata request is currently in-flight"), and the consumer reads nothing for metadata.max.age.ms, 5 minutes.
"""

from __future__ import annotations

import functools
from typing import Any

from kafka import KafkaConsumer


def pytest_configure() -> None:
    begin = KafkaConsumer.__init__

    @functools.wraps(begin)
    def begin_with_metadata(self: KafkaConsumer, *topics: str, **configs: Any) -> None:
        begin(self, *topics, **configs)
        self.bootstrap()

    KafkaConsumer.__init__ = begin_with_metadata
