"""A paced producer and a consumer: `python -m benchmarks.tails.paced BOOTSTRAP RATE SECONDS WARM_UP`.

Both are librdkafka's; acks=all, no lingering. A record has the time at which it was due, so that a stall counts for each
record that was due meanwhile. Prints a JSON object: `produced` and `consumed` are latencies in microseconds, sorted, of
the records that were due after the warm-up.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

TOPIC = "paced"
_PADDING = bytes(92)
_TIME = struct.Struct("<q")
_MOST_WAIT_S = 60


class Pace:
    """Sends records at a rate for so many seconds, and receives them."""

    def __init__(self, bootstrap: str, rate: int, seconds: float, warm_up_s: float) -> None:
        self._rate = rate
        self._count = int(rate * (seconds + warm_up_s))
        self._began_ns = 0
        self._warm_ns = int(warm_up_s * 1e9)
        self.produced: list[int] = []
        self.consumed: list[int] = []
        self._acknowledged = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": TOPIC, "enable.auto.commit": False})
        end = self._consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)[1]
        self._consumer.assign([TopicPartition(TOPIC, 0, end)])
        self._consumer.poll(0.5)  # its first Fetch

    def run(self) -> None:
        self._began_ns = time.monotonic_ns()
        reader = threading.Thread(target=self._consume)
        reader.start()
        for number in range(self._count):
            due_ns = self._began_ns + int(number * 1e9 / self._rate)
            while (left_ns := due_ns - time.monotonic_ns()) > 0:
                self._producer.poll(left_ns / 1e9)
            self._producer.produce(TOPIC, _TIME.pack(due_ns) + _PADDING, on_delivery=self._delivered)
            self._producer.poll(0)
        assert self._producer.flush(_MOST_WAIT_S) == 0, "records were not acknowledged"
        reader.join(_MOST_WAIT_S)
        assert not reader.is_alive(), "records were not received"
        assert self._acknowledged == self._count

    def _delivered(self, error: Any, message: Message) -> None:
        assert error is None, error
        self._acknowledged += 1
        self._note(self.produced, message.value())

    def _consume(self) -> None:
        received, deadline = 0, time.monotonic() + self._count / self._rate + _MOST_WAIT_S
        while received < self._count and time.monotonic() < deadline:
            for message in self._consumer.consume(500, 0.001):
                assert message.error() is None, message.error()
                received += 1
                self._note(self.consumed, message.value())

    def _note(self, latencies: list[int], value: bytes | None) -> None:
        assert value is not None
        (due_ns,) = _TIME.unpack_from(value)
        if due_ns - self._began_ns >= self._warm_ns:
            latencies.append((time.monotonic_ns() - due_ns) // 1000)


def main() -> None:
    pace = Pace(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
    pace.run()
    print(json.dumps({"produced": sorted(pace.produced), "consumed": sorted(pace.consumed)}))


if __name__ == "__main__":
    main()
