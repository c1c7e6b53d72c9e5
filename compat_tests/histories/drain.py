"""The end of a round: transactions end, copiers and share groups catch up, and one reader reads every log to its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from compat_tests import access
from compat_tests.recipes import eventually

from .client import Key
from .operation import ASSIGN, OK, POLL, RECORDER, Content, Operation
from .recorder import Recorder, now_ns

_REQUEST_S = 10.0
_POLL_S = 0.2
_BATCH = 500


@cache
def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient(
        {"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 4_000, **access.librdkafka()}
    )


def ends(bootstrap: str, keys: Sequence[Key]) -> dict[Key, int] | None:
    """Returns the end of each log, None while a transaction is open or no broker answers."""
    admin = admin_of(bootstrap)
    asked = {
        TopicPartition(key.topic, key.partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
        for key in keys
    }
    found = []
    for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
        try:
            listed = admin.list_offsets(asked, isolation_level=level, request_timeout=_REQUEST_S)
            found.append({Key(one.topic, one.partition): listed[one].result(_REQUEST_S).offset for one in asked})
        except (KafkaException, TimeoutError):
            return None
    return found[0] if found[0] == found[1] else None


def is_caught_up(bootstrap: str, group: str, keys: Sequence[Key]) -> bool:
    """Returns whether the group's offsets are the ends of the logs, but for the markers of transactions."""
    logs = ends(bootstrap, keys)
    if logs is None:
        return False
    places = [TopicPartition(key.topic, key.partition) for key in keys if logs[key]]
    try:
        asked = admin_of(bootstrap).list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)], require_stable=True, request_timeout=_REQUEST_S
        )
        committed = asked[group].result(_REQUEST_S).topic_partitions
    except (KafkaException, TimeoutError):
        return False
    return all(one.error is None and one.offset >= logs[Key(one.topic, one.partition)] for one in committed)


def text_of(message: Message) -> str:
    value = message.value()
    return "" if value is None else value.decode()


def drain(bootstrap: str, keys: Sequence[Key], recorder: Recorder, deadline_s: float) -> None:
    """Reads all committed records, and writes down that the history has them. Raises AssertionError if it takes too long."""
    logs = eventually(lambda: ends(bootstrap, keys), what="all transactions are ended", deadline_s=deadline_s)
    assert logs is not None
    reading = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "drain",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "log_level": 0,
            **access.librdkafka(),
        }
    )
    began = now_ns()
    reading.assign([TopicPartition(key.topic, key.partition, 0) for key in keys])
    recorder.add(Operation(RECORDER, ASSIGN, OK, began, now_ns(), {str(key): 0 for key in keys}, "librdkafka"))
    deadline = time.monotonic() + deadline_s
    position = dict.fromkeys(keys, 0)
    while any(position[key] < end for key, end in logs.items()):
        assert time.monotonic() < deadline, f"read up to {position}, and the logs end at {logs}"
        began = now_ns()
        found: dict[str, Content] = {}
        for one in reading.consume(_BATCH, _POLL_S):
            if one.error() is None:
                found.setdefault(f"{one.topic()}/{one.partition()}", []).append([one.offset(), text_of(one)])
        recorder.add(Operation(RECORDER, POLL, OK, began, now_ns(), [["poll", found]], "librdkafka"))
        places = reading.position([TopicPartition(key.topic, key.partition) for key in keys])
        position = {Key(place.topic, place.partition): max(0, place.offset) for place in places}
    reading.close()
    recorder.settings(drained=True)
