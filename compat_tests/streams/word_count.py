"""WordCount.java as a process, which tests start, kill or close; and its expected output."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests import access
from compat_tests.java.fetch import STREAMS, home
from compat_tests.java.program import java_command
from compat_tests.recipes import eventually

_SOURCE = Path(__file__).resolve().parent / "WordCount.java"
DEADLINE_S = 90.0


class WordCount:
    """An instance of the application. Its own directory makes it the same instance after a restart."""

    def __init__(self, bootstrap: str, application: str, topics: tuple[str, str], directory: Path) -> None:
        self.settings = {
            "bootstrap.servers": bootstrap,
            "application.id": application,
            "state.dir": str(directory / "state"),
            "replication.factor": "1",
            "num.stream.threads": "1",
        }
        self._topics = topics
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def start(self) -> WordCount:
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        command = java_command(_SOURCE, *self._topics, *settings, more_jars=(f"{home(STREAMS)}/*",))
        with self._output.open("w") as output, self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=log)
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        """Closes the program's standard input, which ends it."""
        assert self._process is not None
        try:
            self._process.communicate(timeout=DEADLINE_S)
        finally:
            self.kill()
        assert "closed" in self.printed

    def wait_until(self, state: str) -> None:
        eventually(lambda: f"state {state}" in self.printed, what=f"it is {state}", deadline_s=DEADLINE_S)

    @property
    def printed(self) -> list[str]:
        return self._output.read_text().splitlines()

    @property
    def _output(self) -> Path:
        return self._directory / "states.txt"

    @property
    def _log(self) -> Path:
        return self._directory / "streams.log"


class Words:
    """Input lines, and output counts."""

    def __init__(self, bootstrap: str, topics: tuple[str, str], partitions: int) -> None:
        self._input, output = topics
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, **access.librdkafka()}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "log_level": 0,
                **access.librdkafka(),
            }
        )
        self._consumer.assign([TopicPartition(output, index, 0) for index in range(partitions)])
        self.written: Counter[str] = Counter()
        #: Word -> its counts in the output, in order.
        self.counts: defaultdict[str, list[int]] = defaultdict(list)

    def write(self, lines: Iterable[str]) -> None:
        for number, line in enumerate(lines):
            self._producer.produce(self._input, line.encode(), partition=number % 2)
            self.written.update(line.split())
        assert self._producer.flush(DEADLINE_S) == 0

    def read(self, total: int) -> None:
        """Reads until the output has `total` counts since the beginning."""
        eventually(lambda: self._read_some() >= total, what=f"{total} counts are there", deadline_s=DEADLINE_S)

    def read_all(self) -> None:
        """Reads until each word's last count is at least the number of times that it was written."""
        eventually(lambda: self._read_some() and self._is_whole(), what="all are counted", deadline_s=DEADLINE_S)

    def _is_whole(self) -> bool:
        return all(self.counts[word] and self.counts[word][-1] >= count for word, count in self.written.items())

    def _read_some(self) -> int:
        for message in self._consumer.consume(500, 0.2):
            if not message.error():
                self.counts[message.key().decode()].append(int.from_bytes(message.value(), "big"))
        return sum(map(len, self.counts.values()))

    def close(self) -> None:
        self._consumer.close()


def lines_of(count: int) -> list[str]:
    """Returns `count` lines of five words out of seventeen."""
    return [" ".join(f"word-{(number * 5 + place) % 17}" for place in range(5)) for number in range(count)]


def exactly(written: Counter[str]) -> dict[str, list[int]]:
    """Returns the output in which each word is counted once."""
    return {word: list(range(1, count + 1)) for word, count in written.items()}
