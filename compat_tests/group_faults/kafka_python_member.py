"""The member of member.py, with kafka-python.

python -m compat_tests.group_faults.kafka_python_member BOOTSTRAP TOPIC GROUP cooperative-sticky|range
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Collection
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from .ledger import SESSION_S
from .notes import COMMIT_EVERY_S, COMMITS, GIVES, HANDLED, HAS, LEFT, LOSES, POLL_S, note

ASSIGNORS = {"cooperative-sticky": CooperativeStickyAssignor, "range": RangePartitionAssignor}


class Member(ConsumerRebalanceListener):
    def __init__(self, bootstrap: str, topic: str, group: str, protocol: str) -> None:
        self._is_ending = False
        self._next: dict[int, int] = {}
        self._topic = topic
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
            reconnect_backoff_max_ms=300,
            partition_assignment_strategy=[ASSIGNORS[protocol]],
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=500,
        )
        signal.signal(signal.SIGTERM, self._end)
        self._consumer.subscribe([topic], listener=self)

    def _end(self, *_: object) -> None:
        self._is_ending = True

    def run(self) -> None:
        committed = time.monotonic()
        while not self._is_ending:
            records = self._poll()
            if time.monotonic() - committed > COMMIT_EVERY_S:
                self._commit(list(self._next))
                committed = time.monotonic()
            for place, some in records.items():
                for record in some:
                    note(HANDLED, time.monotonic(), int(record.value))
                self._next[place.partition] = some[-1].offset + 1
        self._consumer.close()
        note(LEFT, time.monotonic())

    def _poll(self) -> dict[TopicPartition, list[Any]]:
        """Polls for records. Errors come from a broker that is down: the client reconnects by itself."""
        try:
            return self._consumer.poll(int(POLL_S * 1000))  # type: ignore[no-any-return]
        except KafkaError:
            time.sleep(POLL_S)
            return {}

    def _commit(self, partitions: list[int]) -> None:
        offsets = {
            TopicPartition(self._topic, one): OffsetAndMetadata(self._next[one], "", -1)
            for one in partitions
            if one in self._next
        }
        if not offsets:
            return
        began, error = time.monotonic(), None
        try:
            self._consumer.commit(offsets, timeout_ms=10_000)
        except KafkaError as failure:
            error = type(failure).__name__
        note(COMMITS, began, time.monotonic(), [place.partition for place in offsets], error)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        note(HAS, time.monotonic(), [place.partition for place in assigned])

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Notes the revocation. This client cannot wait for a commit here: uncommitted records are handled again."""
        self._ends(GIVES, [place.partition for place in revoked])

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._ends(LOSES, [place.partition for place in lost])

    def _ends(self, how: str, gone: list[int]) -> None:
        for partition in gone:
            self._next.pop(partition, None)
        note(how, time.monotonic(), gone)


def begin(*words: str) -> Member:
    """Creates a member. Retries, because this client does not start while no broker is up."""
    while True:
        try:
            return Member(*words)
        except KafkaError:
            time.sleep(POLL_S)


if __name__ == "__main__":
    begin(*sys.argv[1:]).run()
