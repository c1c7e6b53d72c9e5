"""The records of groups in `__consumer_offsets` as plain values: for each key its values, in order.

After the same requests two brokers have equal records, field by field, except for times and generated ids.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from odradek.coordinator.groups.silence import SilentMembersKey
from odradek.protocol.internal.consumer_offsets import GroupMetadataKey, OffsetCommitKey
from odradek.protocol.schema import Message

from tests.coordinator.harness.kinds import decode_record

from .internal_records import History
from .setup_steps import PROBE
from .topic_log import TopicLog
from .topic_names import TopicNames

TOPIC = "__consumer_offsets"
#: The least length of a generated member id; the ids in the scenarios are shorter.
DRAWN_CHARACTERS = 22
_TIMES = (
    "assignment_timestamp",
    "commit_timestamp",
    "expire_timestamp",
    "timestamp",
    "current_state_timestamp",
    "version",
)


class GroupLog:
    """A reader of one broker's group records, as the broker writes them."""

    def __init__(self, bootstrap: str, *, has_departures: bool = False) -> None:
        """`has_departures`: the broker is Odradek, which also writes what the next coordinator is to know of members that
        have gone (`write_departures` in coordinator/groups/classic/group.py) or are silent (coordinator/groups/silence.py).
        """
        self._log = TopicLog(bootstrap, TOPIC)
        self._has_departures = has_departures

    def since_then(self, mark: str) -> History:
        """Returns the new records of groups with `mark` in their names since the last call.

        A call right after each scenario comes before sessions of idle members expire. They expire sooner on one broker
        than on the other.
        """
        history = _History(mark, TopicNames(self._log.bootstrap), self._has_departures)
        for _, record in self._log.further():
            assert record.key is not None
            key, value, version, *_ = decode_record(record.key, record.value)
            if not (self._has_departures and type(key) is SilentMembersKey):
                history.take(key, value, version)
        return history.records


class _History:
    def __init__(self, mark: str, topics: TopicNames, has_departures: bool) -> None:
        self.records: History = defaultdict(list)
        self._has_departures = has_departures
        #: Label -> the words of the last record, departures included.
        self._last: dict[str, Any] = {}
        self._mark = mark
        self._topics = topics
        #: Group and generated id -> the member's name.
        self._members: dict[tuple[str, str], str] = {}

    def take(self, key: Any, value: Message | None, version: int) -> None:
        group_id = key.group if hasattr(key, "group") else key.group_id
        if self._mark not in group_id or group_id.endswith(PROBE.strip("$")):
            return
        words = {name: self._word(group_id, name, getattr(key, name)) for name in _names(key)}
        label = f"{type(key).__name__} {words}"
        found = None if value is None else (version, self._words(group_id, value))
        last = self._last.get(label)
        self._last[label] = found
        if not (self._has_departures and isinstance(key, GroupMetadataKey) and is_departure(last, found)):
            self.records[label].append(found)

    def _words(self, group_id: str, message: Message) -> Any:
        words = {name: self._word(group_id, name, getattr(message, name)) for name in _names(message)}
        if not isinstance(message, OffsetCommitKey) and {"partitions", "assignment_epochs"} <= words.keys():
            # Each partition has one epoch.
            epochs = message.assignment_epochs or [None] * len(message.partitions)  # type: ignore[attr-defined]
            words["partitions"] = sorted(zip(message.partitions, epochs))  # type: ignore[attr-defined]
            del words["assignment_epochs"]
        return words

    def _word(self, group_id: str, name: str, value: Any) -> Any:
        if name == "topic_id":
            return self._topics.of_id(value)
        if name in ("member_id", "leader") and isinstance(value, str) and len(value) >= DRAWN_CHARACTERS:
            count = sum(1 for group, _ in self._members if group == group_id)
            return self._members.setdefault((group_id, value), f"<member {count}>")
        if name in _TIMES:
            return "a time" if value > 0 else value
        if name == "metadata_hash":
            return self._topics.of_hash(value, group_id)
        if isinstance(value, list):
            return sorted((self._words(group_id, one) if isinstance(one, Message) else one for one in value), key=str)
        return self._words(group_id, value) if isinstance(value, Message) else value


def is_departure(last: Any, found: Any) -> bool:
    """Returns whether a record differs from the last one only by times of 0 ms for members that had a session before."""
    if last is None or found is None or last[0] != found[0]:
        return False
    before, after = dict(last[1]), dict(found[1])
    were = {member["member_id"]: member for member in before.pop("members")}
    are = {member["member_id"]: member for member in after.pop("members")}
    if before != after or were.keys() != are.keys():
        return False
    changed = [name for name, member in are.items() if member != were[name]]
    return bool(changed) and all(
        were[name]["session_timeout"] and are[name] == {**were[name], "session_timeout": 0, "rebalance_timeout": 0}
        for name in changed
    )


def _names(message: Message) -> list[str]:
    return [one.name for one in message.SCHEMA.fields]
