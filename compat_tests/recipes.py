"""Steps that tests of several clients share: creating topics, waiting for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from .access import connect

T = TypeVar("T")
DEADLINE_S = 120.0
_POLL_S = 0.02
#: Time between two probes, in times of one. Probes that take long, such as commands and pages, took a whole core.
_PAUSE_FACTOR = 3
_LONGEST_PAUSE_S = 0.5


def eventually(probe: Callable[[], T], *, what: str, deadline_s: float = DEADLINE_S) -> T:
    """Returns the first true value of `probe`; raises AssertionError with `what` when none comes in time."""
    deadline = time.monotonic() + deadline_s
    while True:
        began = time.monotonic()
        found = probe()
        if found:
            return found
        assert time.monotonic() < deadline, f"in {deadline_s} s it did not happen that {what}"
        pause_after_probe(began)


def pause_after_probe(began: float) -> None:
    """Sleeps until the next probe of a condition. `began`: when the last one began, in seconds of `time.monotonic`."""
    lasted = time.monotonic() - began
    time.sleep(max(_POLL_S, min(_LONGEST_PAUSE_S, _PAUSE_FACTOR * lasted)))


def is_end_of_partition(message: Message) -> bool:
    """Returns whether a message stands for the end of a partition in place of a record. Raises AssertionError for an error:
    a reader that takes one for an end misses the rest.
    """
    error = message.error()
    if error is None:
        return False
    assert error.code() == KafkaError._PARTITION_EOF, error
    return True


def make_topic(bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> bytes:
    """Creates a topic, waits until every partition has a leader, and returns the topic's id."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    with connect(bootstrap) as client:
        made = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7).topics[0]
        assert made.error_code == 0, made.error_message
        ends = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        ask = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=ends)])
        eventually(lambda: _all_well(client.call(ask, 7)), what=f"{name} is led")
        topic_id: bytes = made.topic_id
        return topic_id


def make_replicated_topic(bootstrap: str, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
    """Creates a topic with a replica on each broker that `bootstrap` lists."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(name, partitions, bootstrap.count(",") + 1, config=dict(configs or {}))
    made = admin.create_topics([topic])
    made[name].result(DEADLINE_S)


@contextmanager
def hanging_transaction(bootstrap: str, topic: str, name: str) -> Iterator[int]:
    """Begins a transaction in partition 0 and never ends it. Yields the offset of its first record."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 60_000, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    offsets: list[int] = []
    producer.produce(topic, b"hanging", partition=0, on_delivery=lambda _, message: offsets.append(message.offset()))
    producer.flush(30)
    yield offsets[0]


def _all_well(response: Any) -> bool:
    return all(part.error_code == 0 for topic in response.topics for part in topic.partitions)
