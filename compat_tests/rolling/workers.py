"""The clients of the matrix, each a process: `python -m compat_tests.rolling.workers KIND BOOTSTRAP TOPIC GROUP NAME`.

They are written as most users write them: without timeouts of their own around calls, and with each client's defaults. A
worker prints a line of JSON for each step, with the time of a clock that all processes share:

    ["seen", time, value]        a record was handled, or a copy of it committed
    ["begins", time, call]       a call that may take long
    ["ends", time, call, error]  its end; the error is null or the client's name for it

SIGTERM closes the client and ends the process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import errors as kafka_python

SEEN, BEGINS, ENDS = "seen", "begins", "ends"
POLL_S = 0.2
COMMIT_EVERY_S = 0.5
ADMIN_PAUSE_S = 0.5
#: Between the transactions of a worker that only sends offsets, and of one that does so rarely.
OFFSETS_PAUSE_S, RARE_PAUSE_S = 0.2, 4.0
#: The most records of one transaction.
MOST_RECORDS = 20

is_ending = False


def note(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def seen(value: bytes | None) -> None:
    note(SEEN, time.monotonic(), int(value or b"-1"))


@contextmanager
def call(name: str) -> Iterator[None]:
    """Notes a call. Its error is noted and raised."""
    note(BEGINS, time.monotonic(), name)
    error: str | None = None
    try:
        yield
    except KafkaException as failure:
        error = failure.args[0].name()
        raise
    except Exception as failure:
        error = type(failure).__name__
        raise
    finally:
        note(ENDS, time.monotonic(), name, error)


def good(message: Message | None) -> Message | None:
    """Returns a message that is a record. Raises the client's fatal error; others are of a broker that is away."""
    error = message.error() if message is not None else None
    if error is None:
        return message
    if error.fatal():
        raise KafkaException(error)
    return None


# ---- members of groups


def librdkafka(bootstrap: str, topic: str, group: str, **settings: Any) -> None:
    """Handles records and commits their offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )
    consumer.subscribe([topic])
    committed = time.monotonic()
    while not is_ending:
        message = good(consumer.poll(POLL_S))
        if message is not None:
            seen(message.value())
        if time.monotonic() - committed > COMMIT_EVERY_S:
            try:
                with call("commit"):
                    consumer.commit(asynchronous=False)
            except KafkaException:
                pass  # nothing to commit, or a rebalance: the records come again
            committed = time.monotonic()
    consumer.close()


def classic(bootstrap: str, topic: str, group: str, name: str) -> None:
    librdkafka(bootstrap, topic, group)


def consumer(bootstrap: str, topic: str, group: str, name: str) -> None:
    librdkafka(bootstrap, topic, group, **{"group.protocol": "consumer"})


def share(bootstrap: str, topic: str, group: str, name: str) -> None:
    """Handles records of a share group; the next poll acknowledges them."""
    members = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    members.subscribe([topic])
    while not is_ending:
        for message in members.poll(POLL_S):
            if good(message) is not None:
                seen(message.value())
    members.close()


def aiokafka(bootstrap: str, topic: str, group: str, name: str) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, group))


async def _aiokafka(bootstrap: str, topic: str, group: str) -> None:
    settings = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": int(COMMIT_EVERY_S * 1000)}
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **settings) as members:
        while not is_ending:
            for records in (await members.getmany(timeout_ms=int(POLL_S * 1000))).values():
                for record in records:
                    seen(record.value)


def kafka_python_member(bootstrap: str, topic: str, group: str, name: str) -> None:
    members = _kafka_python_consumer(bootstrap, topic, group, enable_auto_commit=True)
    while not is_ending:
        try:
            found = members.poll(int(POLL_S * 1000))
        except kafka_python.KafkaError:
            time.sleep(POLL_S)
            continue
        for records in found.values():
            for record in records:
                seen(record.value)
    members.close()


def _kafka_python_consumer(bootstrap: str, topic: str, group: str, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=int(COMMIT_EVERY_S * 1000),
        **settings,
    )


# ---- exactly-once copiers


def copier(bootstrap: str, topic: str, group: str, name: str) -> None:
    """Copies records into the topic of the group's name: a transaction has the copies and the consumed offsets."""
    members = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    with call("init_transactions"):
        producer.init_transactions()
    members.subscribe([topic])
    while not is_ending:
        messages = [one for one in members.consume(MOST_RECORDS, POLL_S) if good(one) is not None]
        if not messages:
            continue
        try:
            _copy(producer, members, group, messages)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            with call("abort_transaction"):
                _retried(producer.abort_transaction)
            _rewind(members)
            continue
        for message in messages:
            seen(message.value())
    members.close()


def _copy(producer: Producer, members: Consumer, target: str, messages: list[Message]) -> None:
    positions: dict[tuple[str, int], int] = {}
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, message.value(), partition=message.partition())
        positions[message.topic(), message.partition()] = message.offset() + 1
    moved = [TopicPartition(topic, index, offset) for (topic, index), offset in positions.items()]
    with call("send_offsets_to_transaction"):
        _retried(lambda: producer.send_offsets_to_transaction(moved, members.consumer_group_metadata()))
    with call("commit_transaction"):
        _retried(producer.commit_transaction)


def _retried(step: Callable[[], object]) -> None:
    """Makes a call again as long as librdkafka marks its failure as retriable."""
    while True:
        try:
            step()
            return
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.retriable():
                raise


def _rewind(members: Consumer) -> None:
    """Seeks to the committed offsets, so that records of an aborted transaction are read again."""
    for place in members.committed(members.assignment()):
        place.offset = max(place.offset, 0)
        members.seek(place)


def kafka_python_copier(bootstrap: str, topic: str, group: str, name: str) -> None:
    members = _kafka_python_consumer(bootstrap, topic, group, enable_auto_commit=False)
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=name)
    with call("init_transactions"):
        producer.init_transactions()
    while not is_ending:
        found = members.poll(int(POLL_S * 1000), max_records=MOST_RECORDS)
        records = [record for some in found.values() for record in some]
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            producer.send(group, record.value, partition=record.partition)
        offsets = {place: OffsetAndMetadata(some[-1].offset + 1, "", -1) for place, some in found.items()}
        try:
            with call("send_offsets_to_transaction"):
                producer.send_offsets_to_transaction(offsets, members.group_metadata())
            with call("commit_transaction"):
                producer.commit_transaction()
        except kafka_python.KafkaError:
            with call("abort_transaction"):
                producer.abort_transaction()
            for place in members.assignment():
                members.seek(place, members.committed(place) or 0)
            continue
        for record in records:
            seen(record.value)
    members.close()


# ---- single calls


def offsets(bootstrap: str, topic: str, group: str, name: str, pause_s: float = OFFSETS_PAUSE_S) -> None:
    """Sends offsets of a group without members in transactions, and nothing else."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    idle = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{group}-{name}", "log_level": 0})
    with call("init_transactions"):
        producer.init_transactions()
    for number in itertools.count(1):
        if is_ending:
            break
        try:
            producer.begin_transaction()
            with call("send_offsets_to_transaction"):
                at = [TopicPartition(topic, 0, number)]
                _retried(lambda at=at: producer.send_offsets_to_transaction(at, idle.consumer_group_metadata()))
            with call("commit_transaction"):
                _retried(producer.commit_transaction)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            with call("abort_transaction"):
                _retried(producer.abort_transaction)
        time.sleep(pause_s)


def rare(bootstrap: str, topic: str, group: str, name: str) -> None:
    offsets(bootstrap, topic, group, name, RARE_PAUSE_S)


def admin(bootstrap: str, topic: str, group: str, name: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    calls: dict[str, Callable[[], Any]] = {
        "describe_cluster": lambda: client.describe_cluster(request_timeout=30).result(),
        "list_topics": lambda: client.list_topics(timeout=30),
        "list_consumer_groups": lambda: client.list_consumer_groups(request_timeout=30).result(),
        "describe_consumer_groups": lambda: client.describe_consumer_groups([group], request_timeout=30)[
            group
        ].result(),
    }
    for named in itertools.cycle(calls):
        if is_ending:
            break
        try:
            with call(named):
                calls[named]()
        except KafkaException:
            pass  # counted by its note
        time.sleep(ADMIN_PAUSE_S)


KINDS: dict[str, Callable[[str, str, str, str], None]] = {
    "classic": classic,
    "consumer": consumer,
    "share": share,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python_member,
    "copier": copier,
    "kafka-python-copier": kafka_python_copier,
    "offsets": offsets,
    "rare": rare,
    "admin": admin,
}


def _end(*_: object) -> None:
    global is_ending
    is_ending = True


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    kind, *words = sys.argv[1:]
    try:
        KINDS[kind](*words)  # type: ignore[call-arg]
    except KafkaException as failure:
        sys.exit(f"{words[-1]}: {failure.args[0].name()}: {failure.args[0].str()}")
