"""The records of the persister of share groups in `__share_group_state`, as plain values.

The records of the groups themselves are in `__consumer_offsets` (group_records.py).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from odradek.coordinator.share_state_records import decode_record
from odradek.protocol.schema import Message

from .internal_records import History
from .topic_log import TopicLog
from .topic_names import TopicNames

TOPIC = "__share_group_state"
_TIMES = ("create_timestamp", "write_timestamp")


def states(bootstrap: str, mark: str) -> History:
    """Returns the records for each group, topic and partition, in order, for groups with `mark` in their names."""
    topics = TopicNames(bootstrap)
    found: History = defaultdict(list)
    for _, record in TopicLog(bootstrap, TOPIC).further():
        assert record.key is not None
        key, value, version, *_ = decode_record(record.key, record.value)
        place: Any = key
        if mark in place.group_id:
            name = f"{place.group_id} {topics.of_id(place.topic_id)} {place.partition}"
            found[name].append((type(key).__name__, version, _words(value)))
    return found


def _words(value: Message | None) -> Any:
    if value is None:
        return None
    return {field.name: _word(field.name, getattr(value, field.name)) for field in value.SCHEMA.fields}


def _word(name: str, value: Any) -> Any:
    if name in _TIMES:
        return "a time" if value > 0 else value
    if isinstance(value, list):
        return [_words(one) for one in value]
    return value
