"""The broker dies between any two steps of a transaction, which is carried out as a whole or not at all.

    python -m compat_tests.exactly_once.commit_steps

Each round is one transaction of librdkafka's, records in two partitions and a group's offset, committed or aborted, against
a broker that dies at its first, second, ... append (dying.py) and is started again at once. When a round ends without a
death, every step has been died at.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually, make_topic

from .copier import CLIENT, retried
from .dying import KINDS
from .truth import last_stable_offset, truth_of

_DYING = str(Path(__file__).with_name("dying.py"))
_TIMEOUT_S = 30.0
TOPIC, GROUP, PARTITIONS = "kept", "group", 2
#: Of a group that has committed nothing.
NO_OFFSET = -1001


@dataclass(frozen=True)
class Round:
    kind: str
    number: int
    commits: bool

    @property
    def name(self) -> str:
        return f"{'commit' if self.commits else 'abort'}, dead {self.kind} append {self.number}"


class Stand:
    """One data directory for all rounds; each starts a broker of its own."""

    def __init__(self, folder: Path) -> None:
        self.armed = folder / "armed"
        self.broker = OdradekProcess(folder / "broker", SINGLE_NODE)
        #: The offset that was committed last.
        self.offset = 0
        with self.broker:
            make_topic(self.broker.bootstrap, TOPIC, PARTITIONS)
            warm = _producer(self.broker, "warm")
            _transact(warm, "warm", self.broker, 1)
            retried(lambda: warm.commit_transaction(_TIMEOUT_S))
            self.offset = 1

    def play(self, one: Round) -> bool:
        """Whether the broker died. Raises AssertionError for what must not be."""
        self.armed.unlink(missing_ok=True)
        self.broker.python = (sys.executable, _DYING, one.kind, str(one.number), str(self.armed))
        self.broker.start()
        died = threading.Event()
        over = threading.Event()
        watch = threading.Thread(target=self._start_again, args=(died, over))
        watch.start()
        try:
            self._transact(one)
        finally:
            over.set()
            watch.join()
            if self.broker.is_running:
                self.broker.kill()
        return died.is_set()

    def _start_again(self, died: threading.Event, over: threading.Event) -> None:
        while not over.wait(0.01):
            if not self.broker.is_running and not died.is_set():
                died.set()
                self.broker.kill()
                self.broker.python = (sys.executable,)
                self.broker.start()

    def _transact(self, one: Round) -> None:
        producer = _producer(self.broker, one.name)
        self.armed.touch()
        told: bool | None = None
        try:
            _transact(producer, one.name, self.broker, self.offset + 1)
            if one.commits:
                retried(lambda: producer.commit_transaction(_TIMEOUT_S))
            else:
                retried(lambda: producer.abort_transaction(_TIMEOUT_S))
            told = one.commits
        except KafkaException as failure:
            if failure.args[0].txn_requires_abort():
                retried(lambda: producer.abort_transaction(_TIMEOUT_S))
                told = False
        if told is None:
            # It does not know: whoever comes next has it decided.
            _producer(self.broker, one.name)
        self._check(one, told)

    def _check(self, one: Round, told: bool | None) -> None:
        bootstrap = self.broker.bootstrap
        eventually(lambda: _is_stable(bootstrap), what=f"{one.name}: its transaction is ended", deadline_s=120)
        value = one.name.encode()
        shown = [list(truth_of(bootstrap, TOPIC, index).committed.values()).count(value) for index in range(PARTITIONS)]
        offset = committed(bootstrap, GROUP, TOPIC)
        is_whole = shown == [1, 1] and offset == self.offset + 1
        is_nothing = shown == [0, 0] and offset == self.offset
        assert is_whole or is_nothing, f"{one.name}: told {told}, shown {shown}, offset {offset} after {self.offset}"
        assert told is None or told == is_whole, f"{one.name}: told {told}, but it is {is_whole}"
        self.offset = offset


def _is_stable(bootstrap: str) -> bool:
    # The broker may die as late as now: the client is told of its decision before the markers are written.
    with contextlib.suppress(OSError):
        return all(
            last_stable_offset(bootstrap, TOPIC, index) == truth_of(bootstrap, TOPIC, index).end_offset
            for index in range(PARTITIONS)
        )
    return False


def _producer(broker: OdradekProcess, name: str) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0}
    producer = Producer({**CLIENT, **settings})
    retried(lambda: producer.init_transactions(_TIMEOUT_S))
    return producer


def _transact(producer: Producer, value: str, broker: OdradekProcess, offset: int) -> None:
    """A transaction up to its end."""
    consumer = Consumer({**CLIENT, "bootstrap.servers": broker.bootstrap, "group.id": GROUP})
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce(TOPIC, value, partition=index)
    producer.flush(_TIMEOUT_S)
    moved = [TopicPartition(TOPIC, 0, offset)]
    metadata = consumer.consumer_group_metadata()
    retried(lambda: producer.send_offsets_to_transaction(moved, metadata, _TIMEOUT_S))


def committed(bootstrap: str, group: str, topic: str) -> int:
    """The group's offset of partition 0, once no transaction is open on it."""
    admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    answer = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result(_TIMEOUT_S)
    found: int = answer.topic_partitions[0].offset
    return found


def rounds(kinds: tuple[str, ...], *, commits: bool) -> Iterator[Round]:
    for number in itertools.count(1):
        for kind in kinds:
            yield Round(kind, number, commits)


def play_all(folder: Path, kinds: tuple[str, ...], *, commits: bool) -> int:
    """Until the last step has been died at; how many rounds that took."""
    stand = Stand(folder)
    for count, one in enumerate(rounds(kinds, commits=commits)):
        if not stand.play(one):
            return count
    raise AssertionError("unreachable")


def main() -> None:
    for commits in (True, False):
        with TemporaryDirectory(prefix="commit-steps-") as name:
            print(f"commits {commits}: {play_all(Path(name), KINDS, commits=commits)} deaths", flush=True)


if __name__ == "__main__":
    main()
