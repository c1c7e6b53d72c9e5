"""A paced producer and a consumer: `python -m benchmarks.tails.paced BOOTSTRAP RATE SECONDS WARM_UP [PID]`.

Both are librdkafka's; acks=all, no lingering. A record has the time at which it was due, so that a stall counts for each
record that was due meanwhile. Prints a JSON object: `produced` and `consumed` are latencies in microseconds, sorted, of
the records that were due after the warm-up. With the PID of a broker that serves on its main thread, `waits` has the means
of the slowest thousandth of the produced records in microseconds: latency, the broker's wait for a core meanwhile, and the
client's, which is that of the thread that waited longest. The system's scheduler counts these (/proc/*/schedstat).
"""

from __future__ import annotations

import bisect
import json
import os
import struct
import sys
import threading
import time
from operator import itemgetter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

TOPIC = "paced"
_PADDING = bytes(92)
_TIME = struct.Struct("<q")
_MOST_WAIT_S = 60


class CoreWaits:
    """The times that the broker's main thread and this process's threads have waited for a core, sampled as they go on."""

    #: Samples take some 10 us; more of them would load the machine.
    INTERVAL_NS: int = 1_000_000

    def __init__(self, broker_pid: int) -> None:
        paths = [Path(f"/proc/{broker_pid}/schedstat"), *sorted(Path("/proc/self/task").glob("*/schedstat"))]
        self._files = [os.open(path, os.O_RDONLY) for path in paths]
        #: Times in nanoseconds: now, and those of the broker's thread and of each thread here.
        self.samples: list[tuple[int, ...]] = []
        self.sample()

    def sample(self) -> None:
        now_ns = time.monotonic_ns()
        if not self.samples or now_ns - self.samples[-1][0] >= self.INTERVAL_NS:
            waited = [int(os.pread(file, 100, 0).split()[1]) for file in self._files]
            self.samples.append((now_ns, *waited))

    def during(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """Returns the wait of the broker and the longest one here, from the sample before to the sample after."""
        before = bisect.bisect_right(self.samples, begin_ns, key=itemgetter(0)) - 1
        after = bisect.bisect_left(self.samples, end_ns, key=itemgetter(0))
        first, last = self.samples[max(0, before)], self.samples[min(after, len(self.samples) - 1)]
        _, broker, *here = (late - early for early, late in zip(first, last, strict=True))
        return broker, max(here)


class Pace:
    """Sends records at a rate for so many seconds, and receives them."""

    def __init__(self, bootstrap: str, rate: int, seconds: float, warm_up_s: float) -> None:
        self._rate = rate
        self._count = int(rate * (seconds + warm_up_s))
        self._began_ns = 0
        self._warm_ns = int(warm_up_s * 1e9)
        self.produced: list[int] = []
        self.consumed: list[int] = []
        #: When the same records were due and acknowledged.
        self.spans: list[tuple[int, int]] = []
        self.waits: CoreWaits | None = None
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
            if self.waits is not None:
                self.waits.sample()
        assert self._producer.flush(_MOST_WAIT_S) == 0, "records were not acknowledged"
        reader.join(_MOST_WAIT_S)
        assert not reader.is_alive(), "records were not received"
        assert self._acknowledged == self._count

    def _delivered(self, error: Any, message: Message) -> None:
        assert error is None, error
        self._acknowledged += 1
        due_ns = self._note(self.produced, message.value())
        if self.waits is not None:
            self.waits.sample()
            if due_ns is not None:
                self.spans.append((due_ns, time.monotonic_ns()))

    def _consume(self) -> None:
        received, deadline = 0, time.monotonic() + self._count / self._rate + _MOST_WAIT_S
        while received < self._count and time.monotonic() < deadline:
            for message in self._consumer.consume(500, 0.001):
                assert message.error() is None, message.error()
                received += 1
                self._note(self.consumed, message.value())

    def _note(self, latencies: list[int], value: bytes | None) -> int | None:
        """Returns the time at which the record was due, None in the warm-up."""
        assert value is not None
        due_ns: int = _TIME.unpack_from(value)[0]
        if due_ns - self._began_ns < self._warm_ns:
            return None
        latencies.append((time.monotonic_ns() - due_ns) // 1000)
        return due_ns


def slowest(spans: list[tuple[int, int]], waits: CoreWaits) -> tuple[int, int, int]:
    """Returns the means of the slowest thousandth: latency, the broker's wait and the client's, in microseconds."""
    found = sorted(spans, key=lambda span: span[0] - span[1])[: max(1, len(spans) // 1000)]
    parts = [(end_ns - begin_ns, *waits.during(begin_ns, end_ns)) for begin_ns, end_ns in found]
    latency, broker, client = (sum(values) // len(found) // 1000 for values in zip(*parts, strict=True))
    return latency, broker, client


def main() -> None:
    bootstrap, rate, seconds, warm_up_s, *broker_pid = sys.argv[1:]
    pace = Pace(bootstrap, int(rate), float(seconds), float(warm_up_s))
    if broker_pid:
        pace.waits = CoreWaits(int(broker_pid[0]))
    pace.run()
    found: dict[str, object] = {"produced": sorted(pace.produced), "consumed": sorted(pace.consumed)}
    if pace.waits is not None:
        found["waits"] = slowest(pace.spans, pace.waits)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
