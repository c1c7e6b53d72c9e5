"""Helpers of the tests of dead letter queues: the feature's level, and the dead-letter records of a queue."""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from compat_tests.batches import partition_count, read_batches, topic_names
from compat_tests.wire import WireClient

PREFIX = "__dlq.errors."
REJECTED = "Offset rejected by client."
EXCEEDED = "Offset delivery count exceeded the threshold."


class DeadLetterRecord(NamedTuple):
    """A dead-letter record; `headers` without their prefix."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: dict[str, str]

    @property
    def offset(self) -> int:
        """The offset of the original record."""
        return int(self.headers["offset"])


def upgrade(bootstrap: str, level: int = 2) -> Any:
    """Finalizes `share.version`."""
    update = FeatureUpdateKey(feature="share.version", max_version_level=level)
    with WireClient(bootstrap) as client:
        return client.call(UpdateFeaturesRequest(feature_updates=[update]), 2)


def dead_letter_records(bootstrap: str, topic: str) -> list[DeadLetterRecord]:
    """Returns all records in the queue, partition by partition; none while the topic does not exist or has no leader."""
    if topic not in topic_names(bootstrap.split(",")[0]):
        return []
    try:
        indexes = range(partition_count(bootstrap, topic))
        found = [
            record for index in indexes for _, records in read_batches(bootstrap, topic, index) for record in records
        ]
    except AssertionError:
        return []
    return [DeadLetterRecord(record.key, record.value, record.timestamp, _texts(record.headers)) for record in found]


def _texts(headers: list[tuple[str, bytes | None]]) -> dict[str, str]:
    assert all(name.startswith(PREFIX) and value is not None for name, value in headers), headers
    return {name.removeprefix(PREFIX): (value or b"").decode() for name, value in headers}
