"""The records of streams groups in `__consumer_offsets` as plain values: for each group all its records, in order."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import Any

from odradek.coordinator.groups.streams.record_types import RECORD_TYPES
from odradek.protocol.schema import Message

from tests.coordinator.harness.kinds import decode_record

from .internal_records import History
from .setup_steps import PROBE
from .topic_log import TopicLog
from .topic_names import TopicNames

TOPIC = "__consumer_offsets"
_KEYS = tuple(key for key, _ in RECORD_TYPES.values())


class StreamsLog:
    """A reader of one broker's streams group records, as the broker writes them."""

    def __init__(self, bootstrap: str) -> None:
        self._log = TopicLog(bootstrap, TOPIC)

    def since_then(self, mark: str) -> History:
        """Returns the new records of groups with `mark` in their names since the last call.

        Consecutive records of one type are sorted by member: Kafka writes the targets of members in random order.
        """
        topics = TopicNames(self._log.bootstrap)
        found: dict[str, list[Any]] = defaultdict(list)
        for _, record in self._log.further():
            assert record.key is not None
            key, value, version, *_ = decode_record(record.key, record.value)
            group_id = getattr(key, "group_id", "")
            if isinstance(key, _KEYS) and mark in group_id and not group_id.endswith(PROBE.strip("$")):
                member = getattr(key, "member_id", "")
                found[group_id].append((type(key).__name__, member, version, _words(value, group_id, topics)))
        return {group: _in_order(records) for group, records in found.items()}


def _in_order(records: list[Any]) -> list[Any]:
    return [one for _, some in groupby(records, key=lambda one: one[0]) for one in sorted(some, key=lambda one: one[1])]


def _words(value: Any, group_id: str, topics: TopicNames) -> Any:
    """Returns every field of a value."""
    if isinstance(value, list):
        return [_words(one, group_id, topics) for one in value]
    if not isinstance(value, Message):
        return value
    reported = {one.name: _words(getattr(value, one.name), group_id, topics) for one in value.SCHEMA.fields}
    if "metadata_hash" in reported:
        reported["metadata_hash"] = topics.of_hash(reported["metadata_hash"], group_id)
    if reported.get("assignment_timestamp"):
        reported["assignment_timestamp"] = "a time"
    return reported
