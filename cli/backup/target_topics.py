"""The topics of a restore in the target cluster: created with configs under which old records can be written."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..client.admin_calls import LATEST, check, config_values, partition_offsets
from ..client.connection import Connection
from ..client.errors import CommandError
from .manifests import Part, Topic

if TYPE_CHECKING:
    from ..client.admin import AdminClient, TopicOptions
    from ..client.admin import Topic as TopicDescription


_LAST = str((1 << 63) - 1)
#: Nothing is deleted, compacted or refused for its age while records are written; the backup's configs come at the end.
RESTORE_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LAST,
    "message.timestamp.after.max.ms": _LAST,
    "max.message.bytes": str(100 << 20),
    "compression.type": "producer",
}
_OWN = "DYNAMIC_TOPIC_CONFIG"
_PATIENCE_S = 60.0
_POLL_S = 0.1


def own_configs(admin: AdminClient, name: str) -> dict[str, str]:
    """The configs that a topic itself has; the others are defaults of its cluster."""
    values = config_values(admin, "topic", name)
    return {key: str(one["value"]) for key, one in values.items() if one["config_source"] == _OWN}


def check_creation(admin: AdminClient, topic: Topic, replication_factor: int) -> None:
    """Raises CommandError for a topic that the controller would not create, with its configs during a restore and after."""
    for configs in (RESTORE_CONFIGS, topic.configs):
        options: TopicOptions = {
            "num_partitions": len(topic.parts),
            "replication_factor": replication_factor,
            "configs": {**configs},
        }
        response = admin.create_topics({topic.name: options}, validate_only=True, raise_errors=False)
        for one in response["topics"]:
            check(f"topic {topic.name}", one["error_code"], one["error_message"])


def create(admin: AdminClient, topic: Topic, replication_factor: int) -> None:
    """Creates the topic where it is not there, and waits until its partitions have leaders. Raises CommandError.

    The controller decides whether the topic exists: a broker may still show one that was deleted a moment ago.
    """
    from kafka.admin import NewTopic
    from kafka.errors import TopicAlreadyExistsError

    new = NewTopic(topic.name, len(topic.parts), replication_factor, topic_configs={**RESTORE_CONFIGS})
    with contextlib.suppress(TopicAlreadyExistsError):
        admin.create_topics([new])
    deadline = time.monotonic() + _PATIENCE_S
    while not _is_led(admin, topic):
        _wait(deadline, f"topic {topic.name} has partitions without a leader after {_PATIENCE_S:g} s")


def description(admin: AdminClient, topic: Topic) -> list[TopicDescription]:
    """Describes a topic that was created: a broker may learn of it after others. Raises CommandError."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (found := [one for one in admin.describe_topics([topic.name]) if not one["error_code"]]):
        _wait(deadline, f"a broker does not show the topic {topic.name} after {_PATIENCE_S:g} s")
    return found


def _wait(deadline: float, failure: str) -> None:
    """Waits for the next look. Raises CommandError after the deadline."""
    if time.monotonic() > deadline:
        raise CommandError(failure)
    time.sleep(_POLL_S)


def _is_led(admin: AdminClient, topic: Topic) -> bool:
    """Whether the leaders of all partitions respond: a leader may learn of a new partition after other brokers."""
    from kafka.errors import KafkaError

    found = [one for one in admin.describe_topics([topic.name]) if not one["error_code"]]
    partitions = found[0]["partitions"] if found else []
    if len(partitions) != len(topic.parts) or any(one["leader_id"] < 0 for one in partitions):
        return False
    try:
        return len(partition_offsets(admin, found, LATEST)) == len(partitions)
    except KafkaError as error:
        if error.retriable:
            return False
        raise


def delete_fillers(connection: Connection, topic: Topic, parts: Iterable[Part]) -> None:
    """Moves the start of the logs to where it was."""
    wanted = {part.partition: part.start if part.chunks else part.end for part in parts}
    starts = {index: start for index, start in wanted.items() if start > 0}
    if not starts:
        return
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(connection.librdkafka())
    asked = [TopicPartition(topic.name, index, start) for index, start in starts.items()]
    for where, future in admin.delete_records(asked, request_timeout=connection.timeout_s).items():
        try:
            future.result()
        except Exception as error:
            raise CommandError(f"{where.topic}-{where.partition}: {error}") from None
