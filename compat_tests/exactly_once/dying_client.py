"""A transactional producer that kills itself with -9 after one step: `python dying_client.py BOOTSTRAP TOPIC STEP`.

With any other STEP it runs to the end, unless it is killed first (held_steps.py).
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Iterator

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.exactly_once.copier import CLIENT, TIMEOUT_S, retried

#: The last completed step before the death. At `committing`, the commit may or may not have arrived.
STEPS = ("begun", "sent", "flushed", "offsets joined", "committing", "committed")
VALUE, OFFSET = b"of the dead", 7


def steps(bootstrap: str, topic: str, timeout_ms: int, *, aborts: bool) -> Iterator[str]:
    producer = Producer(
        {**CLIENT, "bootstrap.servers": bootstrap, "transactional.id": topic, "transaction.timeout.ms": timeout_ms}
    )
    retried(lambda: producer.init_transactions(TIMEOUT_S))
    producer.begin_transaction()
    yield "begun"
    producer.produce(topic, VALUE, partition=0)
    yield "sent"
    producer.flush(TIMEOUT_S)
    yield "flushed"
    join_offset(producer, bootstrap, topic, OFFSET)
    yield "offsets joined"
    end = producer.abort_transaction if aborts else producer.commit_transaction
    threading.Thread(target=end, args=(TIMEOUT_S,), daemon=True).start()
    yield "committing"
    for thread in threading.enumerate():
        if thread.daemon:
            thread.join(TIMEOUT_S)
    yield "committed"


def join_offset(producer: Producer, bootstrap: str, topic: str, offset: int) -> None:
    """Adds an offset of partition 0 to the transaction, for the group with the topic's name."""
    consumer = Consumer({**CLIENT, "bootstrap.servers": bootstrap, "group.id": topic})
    metadata = consumer.consumer_group_metadata()
    retried(lambda: producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, TIMEOUT_S))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "step"):
        parser.add_argument(name)
    parser.add_argument("--transaction-timeout-ms", type=int, default=2_000)
    parser.add_argument("--aborts", action="store_true")
    options = parser.parse_args()
    timeout_ms = options.transaction_timeout_ms
    for step in steps(options.bootstrap, options.topic, timeout_ms, aborts=options.aborts):
        if step == options.step:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
