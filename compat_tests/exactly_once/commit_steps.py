"""A broker dies between any two steps of a transaction, and the transaction completes as a whole or not at all.

    python -m compat_tests.exactly_once.commit_steps [--kind torn] [--end commit] [--client java]

Each round is one transaction of a client, with records in two partitions and a group's offset, committed or aborted. The
broker dies at its first, second, ... append (dying.py). When a round ends without a death, the rounds cover every step.
Here a single node starts again at once; with three nodes the others complete the transaction (cluster_steps.py).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually, make_topic
from compat_tests.wire import WireClient

from .copier import CLIENT
from .dying import KINDS, Plan
from .readers import READ_COMMITTED, Seen, read_all
from .reference_log import ReferenceLog, last_stable_offset, reference_log_of
from .transactors import TRANSACTORS, Transaction, Transactor

DYING = str(Path(__file__).with_name("dying.py"))
_TIMEOUT_S = 60.0
_DEADLINE_S = 120.0
TOPIC, GROUP, PARTITIONS = "kept", "group", 2
#: The offset of a group that has committed nothing.
NO_OFFSET = -1001
COMMIT, ABORT = ENDS = ("commit", "abort")
_ENDED = {"CompleteCommit", "CompleteAbort", "Empty"}


@dataclass(frozen=True)
class Round:
    plan: Plan
    end: str = COMMIT
    #: The role of the broker that dies.
    role: str = "broker"

    @property
    def name(self) -> str:
        where = f" to {' or '.join(self.plan.topics)}" if self.plan.topics else ""
        return f"{self.end}, {self.role} dead {self.plan.kind} append {self.plan.number}{where}"


class Standing(NamedTuple):
    """The committed records of each partition, and the group's offset."""

    committed: Seen
    offset: int


class Harness:
    """The setting of all rounds; a subclass runs a round in `execute`."""

    def __init__(self, bootstrap: str, transactor: Transactor) -> None:
        self.bootstrap = bootstrap
        self._transactor = transactor
        #: The last committed offset.
        self.offset = 0

    def execute(self, one: Round) -> bool:
        """Returns whether a broker died. Raises AssertionError for a violation."""
        raise NotImplementedError

    def warm(self) -> None:
        """Runs the first transaction, which creates everything that is created only once."""
        assert self._transact("warm", COMMIT)
        eventually(
            lambda: _reported_of(self.bootstrap, "warm").transaction_state in _ENDED, what="the first one has ended"
        )
        bumped = _reported_of(self.bootstrap, "warm").producer_epoch > 0
        assert bumped == self._transactor.bumps_epochs, "it is of the transaction version that it should be"
        self.offset = 1

    def transact(self, one: Round) -> bool | None:
        """Returns whether the response to the client was a commit; None without a response."""
        return self._transact(one.name, one.end)

    def _transact(self, name: str, end: str) -> bool | None:
        one = Transaction(name, TOPIC, PARTITIONS, GROUP, self.offset + 1, end == COMMIT)
        return self._transactor.transact(self.bootstrap, one)

    def check(self, one: Round, reported: bool | None) -> Standing:
        found = self.standing(one)
        seen = read_all(self.bootstrap, TOPIC, PARTITIONS, READ_COMMITTED)
        assert seen == found.committed, f"{one.name}: read_committed was shown {seen}, committed is {found.committed}"
        value, offset = one.name.encode(), found.offset
        shown = [list(records.values()).count(value) for records in found.committed.values()]
        is_whole = shown == [1] * PARTITIONS and offset == self.offset + 1
        is_nothing = shown == [0] * PARTITIONS and offset == self.offset
        assert is_whole or is_nothing, (
            f"{one.name}: told {reported}, shown {shown}, offset {offset} after {self.offset}"
        )
        assert reported is None or reported == is_whole, f"{one.name}: told {reported}, but it is {is_whole}"
        assert one.end == COMMIT or is_nothing, f"{one.name}: nobody committed it"
        self.offset = offset
        return found

    def standing(self, one: Round) -> Standing:
        """Returns the result once the transaction has ended."""
        references = eventually(
            lambda: self._once_ended(one.name), what=f"{one.name}: it has ended", deadline_s=_DEADLINE_S
        )
        return Standing({index: reference.committed for index, reference in enumerate(references)}, self._committed())

    def _once_ended(self, name: str) -> list[ReferenceLog] | None:
        """Returns the records of the partitions, once they and the coordinator agree that the transaction is over."""
        # A broker may die as late as now, since the client gets its response before the markers are written. A leader
        # election may also be under way.
        with contextlib.suppress(OSError, AssertionError):
            references = [reference_log_of(self.bootstrap, TOPIC, index) for index in range(PARTITIONS)]
            ends = [last_stable_offset(self.bootstrap, TOPIC, index) for index in range(PARTITIONS)]
            if (
                ends == [reference.end_offset for reference in references]
                and _reported_of(self.bootstrap, name).transaction_state in _ENDED
            ):
                return references
        return None

    def _committed(self) -> int:
        def reported() -> tuple[int] | None:
            with contextlib.suppress(KafkaException):
                return (committed(self.bootstrap, GROUP, TOPIC),)
            return None

        return eventually(reported, what="the group's offset is told", deadline_s=_DEADLINE_S)[0]


class LoneHarness(Harness):
    """A data directory for all rounds; each round starts a broker of its own."""

    def __init__(self, folder: Path, transactor: Transactor) -> None:
        self._plan_file = folder / "plan"
        self.broker = OdradekProcess(folder / "broker", SINGLE_NODE)
        with self.broker:
            super().__init__(self.broker.bootstrap, transactor)
            make_topic(self.bootstrap, TOPIC, PARTITIONS)
            self.warm()

    def execute(self, one: Round) -> bool:
        self._plan_file.unlink(missing_ok=True)
        self.broker.python = (sys.executable, DYING, str(self._plan_file))
        self.broker.start()
        died = threading.Event()
        over = threading.Event()
        watch = threading.Thread(target=self._start_again, args=(died, over))
        watch.start()
        try:
            one.plan.write(self._plan_file)
            self.check(one, self.transact(one))
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


def _reported_of(bootstrap: str, name: str) -> TransactionState:
    """Returns the transaction's state from its coordinator."""
    for server in bootstrap.split(","):
        with contextlib.suppress(OSError), WireClient(server) as client:
            reported: TransactionState
            (reported,) = client.call(DescribeTransactionsRequest([name]), 0).transaction_states
            if not reported.error_code:
                return reported
    raise AssertionError(f"nobody coordinates {name}")


def committed(bootstrap: str, group: str, topic: str) -> int:
    """Returns the group's offset of partition 0, once no transaction is open on it."""
    admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    response = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result(_TIMEOUT_S)
    found: int = response.topic_partitions[0].offset
    return found


def execute_all(
    harness: Harness, kinds: Sequence[str], end: str, *, role: str = "broker", topics: tuple[str, ...] = ()
) -> int:
    """Runs rounds until a death at every step is covered. Returns the number of deaths."""
    deaths = 0
    for number in itertools.count(1):
        died = sum(harness.execute(Round(Plan(kind, number, topics), end, role)) for kind in kinds)
        if not died:
            break
        deaths += died
    return deaths


def arguments(text: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", dest="kinds", action="append", choices=KINDS, help="of death (default: all)")
    parser.add_argument("--end", dest="ends", action="append", choices=ENDS, help="of transactions (default: both)")
    parser.add_argument("--client", choices=TRANSACTORS, default="librdkafka", help="whose transactions (librdkafka)")
    return parser


def main() -> None:
    options = arguments(__doc__).parse_args()
    with TemporaryDirectory(prefix="commit-steps-") as name, TRANSACTORS[options.client]() as transactor:
        harness = LoneHarness(Path(name), transactor)
        for end in options.ends or ENDS:
            print(f"{end}: {execute_all(harness, options.kinds or KINDS, end)} deaths", flush=True)


if __name__ == "__main__":
    main()
