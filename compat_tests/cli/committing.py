"""Commits of offsets by a client, to a coordinator that may still load."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from compat_tests.recipes import eventually

#: Errors of a new cluster for a while; librdkafka does not regard all of them as retriable.
_LATER = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def commit(bootstrap: str, group: str, places: list[TopicPartition]) -> None:
    """Commits the offsets of `places` for a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            (reason,) = error.args
            assert reason.retriable() or reason.code() in _LATER, error
            return False
        return True

    try:
        eventually(is_committed, what="the offsets are committed")
    finally:
        consumer.close()
