"""Topics of the target cluster, created with configs under which old records can be written."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...admin.errors import ResponseError, check
from ...admin.log_offsets import partition_offsets
from ...admin.topic_changes import NewTopic, create_topics, delete_records
from ...admin.topics import describe_topics
from ...client.user_errors import UserError
from ...protocol.errors import ErrorCode
from ...protocol.log_places import LATEST
from .manifests import Part, Topic

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...admin.topics import Topic as TopicDescription

_LAST = str((1 << 63) - 1)

#: Nothing is deleted, compacted or refused for its age while records are written; the backup's configs come at the end.
_RESTORE_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LAST,
    "message.timestamp.after.max.ms": _LAST,
    "max.message.bytes": str(100 << 20),
    "compression.type": "producer",
}
_TIERED = ("remote.storage.enable", "local.retention.ms", "local.retention.bytes", "segment.bytes", "segment.ms")
_FROM_RETENTION = "-2"
_TOPIC_PATIENCE_S = 60.0
_POLL_S = 0.1


def restore_configs(topic: Topic) -> dict[str, str]:
    """The configs of a topic while its records are written. A tiered one is tiered from its creation on: the disks may not
    have room for all of it.
    """
    own = topic.configs
    if own.get("remote.storage.enable") != "true":
        return {**_RESTORE_CONFIGS}
    tiered = {key: own[key] for key in _TIERED if key in own}
    for unit in ("ms", "bytes"):
        total = own.get(f"retention.{unit}")
        if total is not None and own.get(f"local.retention.{unit}", _FROM_RETENTION) == _FROM_RETENTION:
            tiered[f"local.retention.{unit}"] = total
    return _RESTORE_CONFIGS | tiered


def check_creation(admin: Admin, topic: Topic, replication_factor: int) -> None:
    """Raises UserError for a topic that the controller would not create, with its configs during a restore and after."""
    for configs in (restore_configs(topic), topic.configs):
        new = NewTopic(len(topic.parts), replication_factor, configs)
        for one in create_topics(admin, {topic.name: new}, validate_only=True):
            check(f"topic {topic.name}", one.error_code, one.error_message)


def create(admin: Admin, topic: Topic, replication_factor: int) -> None:
    """Creates the topic where it is not there, and waits until its partitions have leaders. Raises UserError.

    The controller decides whether the topic exists: a broker may still show one that was deleted a moment ago.
    """
    new = NewTopic(len(topic.parts), replication_factor, restore_configs(topic))
    for one in create_topics(admin, {topic.name: new}):
        if one.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(f"topic {topic.name}", one.error_code, one.error_message)
    deadline = time.monotonic() + _TOPIC_PATIENCE_S
    while not _is_led(admin, topic):
        _wait(deadline, f"topic {topic.name} has partitions without a leader after {_TOPIC_PATIENCE_S:g} s")


def description(admin: Admin, topic: Topic) -> list[TopicDescription]:
    """Describes a topic that was created: a broker may learn of it after others. Raises UserError."""
    deadline = time.monotonic() + _TOPIC_PATIENCE_S
    while not (found := [one for one in describe_topics(admin, [topic.name]) if not one.error_code]):
        _wait(deadline, f"a broker does not show the topic {topic.name} after {_TOPIC_PATIENCE_S:g} s")
    return found


def _wait(deadline: float, failure: str) -> None:
    """Waits for the next look. Raises UserError after the deadline."""
    if time.monotonic() > deadline:
        raise UserError(failure)
    time.sleep(_POLL_S)


def _is_led(admin: Admin, topic: Topic) -> bool:
    """Whether the leaders of all partitions respond: a leader may learn of a new partition after other brokers."""
    found = [one for one in describe_topics(admin, [topic.name]) if not one.error_code]
    partitions = found[0].partitions if found else []
    if len(partitions) != len(topic.parts) or any(one.leader_id < 0 for one in partitions):
        return False
    try:
        return len(partition_offsets(admin, found, LATEST)) == len(partitions)
    except ResponseError as error:
        if ErrorCode(error.code).retriable:
            return False
        raise


def delete_fillers(admin: Admin, topic: Topic, parts: Iterable[Part]) -> None:
    """Moves the start of the logs to where it was."""
    wanted = {part.partition: part.start if part.chunks else part.end for part in parts}
    starts = {index: start for index, start in wanted.items() if start > 0}
    if not starts:
        return
    delete_records(admin, {(topic.name, index): start for index, start in starts.items()})
