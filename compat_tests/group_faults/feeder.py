"""Fills a topic with numbers, each once."""

from __future__ import annotations

import threading

from confluent_kafka import Producer

PARTITIONS = 6


class Feeder:
    def __init__(self, bootstrap: str, topic: str, rate: int, partitions: int = PARTITIONS) -> None:
        self.count = 0
        self._partitions = partitions
        endless = {"message.timeout.ms": 0, "linger.ms": 5, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 300, **endless})
        self._topic, self._pause_s = topic, 1 / rate
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(10)
        assert self._producer.flush(60) == 0, "the broker did not come back"

    def _feed(self) -> None:
        while not self._ended.wait(self._pause_s):
            self._producer.produce(self._topic, str(self.count).encode(), partition=self.count % self._partitions)
            self._producer.poll(0)
            self.count += 1
