"""A transactional producer that kills itself with -9 after one step: `python dying_client.py BOOTSTRAP TOPIC STEP`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.exactly_once.copier import CLIENT, TIMEOUT_S, retried

#: What has been done when it dies. Of a commit that goes on, nobody knows whether it arrived.
STEPS = ("begun", "sent", "flushed", "offsets joined", "committing", "committed")
VALUE = b"of the dead"


def steps(bootstrap: str, topic: str) -> Iterator[str]:
    producer = Producer(
        {**CLIENT, "bootstrap.servers": bootstrap, "transactional.id": topic, "transaction.timeout.ms": 2_000}
    )
    retried(lambda: producer.init_transactions(TIMEOUT_S))
    producer.begin_transaction()
    yield "begun"
    producer.produce(topic, VALUE, partition=0)
    yield "sent"
    producer.flush(TIMEOUT_S)
    yield "flushed"
    consumer = Consumer({**CLIENT, "bootstrap.servers": bootstrap, "group.id": topic})
    metadata = consumer.consumer_group_metadata()
    retried(lambda: producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], metadata, TIMEOUT_S))
    yield "offsets joined"
    threading.Thread(target=producer.commit_transaction, args=(TIMEOUT_S,), daemon=True).start()
    yield "committing"
    for thread in threading.enumerate():
        if thread.daemon:
            thread.join(TIMEOUT_S)
    yield "committed"


def main() -> None:
    bootstrap, topic, last = sys.argv[1:]
    for step in steps(bootstrap, topic):
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
