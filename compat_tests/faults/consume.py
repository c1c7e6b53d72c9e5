"""A consumer under faults: `reader` reads every partition from its start, `member` is one of a group and commits.

`python -m compat_tests.faults.consume reader|member BOOTSTRAP TOPIC PARTITIONS NAME FILE`; ends on SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from compat_tests import access

from .history import Committed, Resumed, Seen, write

BATCH = 100
POLL_S = 0.2
_SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "socket.timeout.ms": 5_000,
    "session.timeout.ms": 6_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 5_000,
    "fetch.wait.max.ms": 100,
    "log_level": 0,
}


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({**_SETTINGS, **access.librdkafka(), "bootstrap.servers": bootstrap, "group.id": group})


def from_the_start(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)]


def good(messages: Iterable[Message]) -> list[Message]:
    return [message for message in messages if message.error() is None]


def note(file: TextIO, session: str, messages: Iterable[Message]) -> None:
    for message in messages:
        write(file, Seen(session, message.partition(), message.offset(), message.value().decode()))


def read(bootstrap: str, topic: str, partitions: int, name: str, file: TextIO, stopped: list[int]) -> None:
    reading = consumer(bootstrap, f"reader-{name}")
    reading.assign(from_the_start(topic, partitions))
    while not stopped:
        note(file, name, good(reading.consume(BATCH, POLL_S)))
    reading.close()


def join(bootstrap: str, topic: str, name: str, file: TextIO, stopped: list[int]) -> None:
    """Consumes as a member. Each assignment is a session of its own; it begins with a request for the group's offsets."""
    member = consumer(bootstrap, "members")
    sessions: list[str] = []

    def assigned(member: Consumer, given: list[TopicPartition]) -> None:
        sessions.append(f"{name}/{len(sessions)}")
        asked = time.monotonic_ns()
        try:
            known = member.committed(given, timeout=60)
        except KafkaException:
            return
        for one in known:
            if one.error is None:
                write(file, Resumed(asked, one.partition, max(-1, one.offset)))

    member.subscribe([topic], on_assign=assigned)
    while not stopped:
        messages = good(member.consume(BATCH, POLL_S))
        note(file, sessions[-1] if sessions else name, messages)
        if messages:
            commit(member, topic, messages, file)
    member.close()


def commit(member: Consumer, topic: str, messages: Iterable[Message], file: TextIO) -> None:
    ends = {message.partition(): message.offset() + 1 for message in messages}
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in ends.items()]
    try:
        done = member.commit(offsets=wanted, asynchronous=False)
    except KafkaException:
        return
    for one in done or ():
        if one.error is None:
            write(file, Committed(time.monotonic_ns(), one.partition, one.offset))


def everything(bootstrap: str, topic: str, partitions: int, deadline_s: float) -> dict[tuple[int, int], str]:
    """Returns the whole topic, up to the current end of each partition."""
    found: dict[tuple[int, int], str] = {}
    reading = consumer(bootstrap, "everything")
    deadline = time.monotonic() + deadline_s
    ends = {index: reading.get_watermark_offsets(TopicPartition(topic, index), 30)[1] for index in range(partitions)}
    reading.assign(from_the_start(topic, partitions))
    last = dict.fromkeys(ends, 0)
    while any(last[index] < end for index, end in ends.items()):
        assert time.monotonic() < deadline, f"read up to {last}, and the topic ends at {ends}"
        for message in good(reading.consume(1000, POLL_S)):
            found[message.partition(), message.offset()] = message.value().decode()
        last = {
            place.partition: max(0, place.offset) for place in reading.position(list(from_the_start(topic, partitions)))
        }
    reading.close()
    return found


def main(kind: str, bootstrap: str, topic: str, partitions: str, name: str, path: str) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with Path(path).open("a", buffering=1) as file:
        if kind == "reader":
            read(bootstrap, topic, int(partitions), name, file, stopped)
        else:
            join(bootstrap, topic, name, file, stopped)


if __name__ == "__main__":
    main(*sys.argv[1:])
