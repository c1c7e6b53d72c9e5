"""The lag of a mirror: `python -m benchmarks.mirror_maker.lag SOURCE TARGET TOPIC PARTITIONS SIZE RATE SECONDS WARM_UP`.

A producer writes paced records at the source, and a process of its own reads them at the target, both with librdkafka's
default settings. The lag of a record is the time from its acknowledgement at the source until the reader at the target has
it; 0 where the reader had it earlier. Prints a JSON object: `lags`, in microseconds and sorted, of the records after the
warm-up, and `produced`, the latencies of the producer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

_MOST_WAIT_S = 300
_MOST_AT_ONCE = 500
#: Begins the value of a record: its number.
_DIGITS = 12


class PacedProducer:
    """Writes `count` records at a rate, each to the next partition, and notes when each was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, size: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._padding = b"x" * (size - _DIGITS)
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        self.sent_ns: list[int] = []
        self.acknowledged_ns: dict[int, int] = {}

    def run(self, count: int, rate: int) -> None:
        began_ns = time.monotonic_ns()
        for number in range(count):
            due_ns = began_ns + number * 1_000_000_000 // rate
            while (left_ns := due_ns - time.monotonic_ns()) > 0:
                self._producer.poll(left_ns / 1e9)
            self.sent_ns.append(time.monotonic_ns())
            self._send(number)
            self._producer.poll(0)
        assert self._producer.flush(_MOST_WAIT_S) == 0, "records were not acknowledged"

    def _send(self, number: int) -> None:
        value = b"%0*d" % (_DIGITS, number) + self._padding
        while True:
            try:
                partition = number % self._partitions
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                return
            except BufferError:  # the source is late
                self._producer.poll(0.01)

    def _delivered(self, error: Any, message: Message) -> None:
        assert error is None, error
        self.acknowledged_ns[_number(message)] = time.monotonic_ns()


def _number(message: Message) -> int:
    return int((message.value() or b"")[:_DIGITS])


def read(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """Reads the records from the ends on. Prints a line when it is ready, and when each was received, as JSON."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "lag", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign(
        [
            TopicPartition(topic, index, consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1])
            for index in range(partitions)
        ]
    )
    consumer.poll(1)  # its first Fetch
    print("ready", flush=True)
    received: dict[int, int] = {}
    progress = time.monotonic()
    while len(received) < count:
        messages = consumer.consume(_MOST_AT_ONCE, 0.001)
        now_ns = time.monotonic_ns()
        for message in messages:
            assert message.error() is None, message.error()
            received[_number(message)] = now_ns
        progress = now_ns / 1e9 if messages else progress
        assert time.monotonic() - progress < _MOST_WAIT_S, f"{count - len(received)} records were not received"
    print(json.dumps(received), flush=True)


def main() -> None:
    if sys.argv[1] == "read":
        _, _, bootstrap, topic, partitions, count = sys.argv
        read(bootstrap, topic, int(partitions), int(count))
        return
    source, target, topic, *numbers = sys.argv[1:]
    partitions, size, rate, seconds, warm_up_s = map(int, numbers)
    count, first = rate * (seconds + warm_up_s), rate * warm_up_s
    command = [sys.executable, "-m", "benchmarks.mirror_maker.lag", "read", target, topic, str(partitions), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
        producer = PacedProducer(source, topic, partitions, size)
        producer.run(count, rate)
        received = {int(number): at_ns for number, at_ns in json.loads(reader.stdout.readline()).items()}
    acknowledged = producer.acknowledged_ns
    lags = sorted(max(0, received[number] - acknowledged[number]) // 1000 for number in range(first, count))
    produced = sorted((acknowledged[number] - producer.sent_ns[number]) // 1000 for number in range(first, count))
    print(json.dumps({"lags": lags, "produced": produced}))


if __name__ == "__main__":
    main()
