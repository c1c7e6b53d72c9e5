"""What groups left in `__consumer_offsets`, put into words: for each key the values that it had, in their order.

Two brokers that were asked the same must have the same there, field by field, but for ids that they drew and times.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from odradek.coordinator.records import decode_record
from odradek.protocol.internal.classic_group_records import OffsetCommitKey
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import Message

from ..batches import partition_count, read_batches
from ..wire import WireClient
from .ground import PROBE
from .internal_records import History

_METADATA_VERSION = 12
#: The members that the scenarios name themselves have shorter ids.
DRAWN_CHARACTERS = 22
_TIMES = ("assignment_timestamp", "commit_timestamp", "timestamp", "current_state_timestamp", "version")
#: Of topics with their ids; only whether there is one can be compared (the unit tests know Kafka's own for given ids).
_HASHES = ("metadata_hash",)


class GroupRecords:
    """`mark` is in the names of all groups that are looked at."""

    def __init__(self, bootstrap: str, mark: str) -> None:
        self._mark = mark
        self._names: dict[Any, str] = {}
        with WireClient(bootstrap) as client:
            for topic in client.call(MetadataRequest(None, False), _METADATA_VERSION).topics:
                self._names[topic.topic_id] = topic.name

    def read(self, bootstrap: str) -> History:
        history: History = defaultdict(list)
        for index in range(partition_count(bootstrap, "__consumer_offsets")):
            for header, records in read_batches(bootstrap, "__consumer_offsets", index):
                for record in records if not header.is_control else ():
                    assert record.key is not None
                    self._take(history, *decode_record(record.key, record.value)[:3])
        return history

    def _take(self, history: History, key: Any, value: Message | None, version: int) -> None:
        group_id = key.group if hasattr(key, "group") else key.group_id
        if self._mark not in group_id or group_id.endswith(PROBE.strip("$")):
            return
        words = {name: self._word(group_id, name, getattr(key, name)) for name in _names(key)}
        label = f"{type(key).__name__} {words}"
        history[label].append(None if value is None else (version, self._words(group_id, value)))

    def _words(self, group_id: str, message: Message) -> Any:
        words = {name: self._word(group_id, name, getattr(message, name)) for name in _names(message)}
        if not isinstance(message, OffsetCommitKey) and {"partitions", "assignment_epochs"} <= words.keys():
            # They belong together, one for each.
            epochs = message.assignment_epochs or [None] * len(message.partitions)  # type: ignore[attr-defined]
            words["partitions"] = sorted(zip(message.partitions, epochs))  # type: ignore[attr-defined]
            del words["assignment_epochs"]
        return words

    def _word(self, group_id: str, name: str, value: Any) -> Any:
        if name == "topic_id":
            return self._names.get(value, "no topic" if not any(value) else "a topic that is gone")
        if name in ("member_id", "leader") and isinstance(value, str) and len(value) >= DRAWN_CHARACTERS:
            count = sum(1 for known in self._names if isinstance(known, tuple) and known[0] == group_id)
            return self._names.setdefault((group_id, value), f"<member {count}>")
        if name in _TIMES:
            return "a time" if value > 0 else value
        if name in _HASHES:
            return "a hash" if value else value
        if isinstance(value, list):
            return sorted((self._words(group_id, one) if isinstance(one, Message) else one for one in value), key=str)
        return self._words(group_id, value) if isinstance(value, Message) else value


def _names(message: Message) -> list[str]:
    return [one.name for one in message.SCHEMA.fields]
