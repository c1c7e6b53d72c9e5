"""Checks that each record arrives exactly once while copiers move records, and brokers and copiers are killed.

    python -m compat_tests.exactly_once.checker --seconds 300 --seed 7
    python -m compat_tests.exactly_once.checker --target cluster

The conditions, after any kills:

- every record of the first topic is in the last topic exactly once, in its partition and in order;
- a read_committed reader that ran all the time has seen exactly the committed records, in order, and no aborted ones;
- the broker's committed, stable and aborted records are those of its logs, read batch by batch (reference_log.py);
- a read_uncommitted reader gets every record, aborted ones too;
- no transaction is left open.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.broker_process import BrokerProcess
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.recipes import eventually

from .cluster import ThreeBrokers
from .copier import CLIENT, PROTOCOLS
from .faults import CopierProcess, Faults, Route
from .readers import READ_COMMITTED, READ_UNCOMMITTED, Follower, Seen, read_all
from .reference_log import ReferenceLog, last_stable_offset, reference_log_of

TOPICS = ("first", "middle", "last")
PARTITIONS = 3
PROPERTIES = {
    **SINGLE_NODE,
    "node.id": "1",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # Small segments exercise recovery, rolling and the indexes of aborted transactions.
    "log.segment.bytes": str(1 << 20),
}
#: The time after the last fault for dead sessions and transactions to expire and the rest to be copied; a busy machine is
#: slow.
DRAIN_S = 300.0


@dataclass
class Finding:
    """The result of a run. `faults` and `restarts` show that faults took place, `problems` lists violations."""

    records: int = 0
    aborted: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = (
            f"{self.records} records, {self.aborted} aborted ones beside them, {self.faults}, {self.restarts} restarts"
        )
        return "\n".join([head, *self.problems])


class Feeder:
    """Fills the first topic with numbers during the run; it is idempotent, so each number is there once."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        self.count = 0
        self._rate = rate
        # A record waits for its broker without a limit.
        endless = {"message.timeout.ms": 0, "linger.ms": 5, "enable.idempotence": True}
        self._producer = Producer({**CLIENT, "bootstrap.servers": bootstrap, **endless})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(0.02):
            for number in range(self.count, int((time.monotonic() - started) * self._rate)):
                self._producer.produce(TOPICS[0], b"%d" % number, partition=number % PARTITIONS)
                self.count = number + 1
            self._producer.poll(0)

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(DRAIN_S) == 0
        return self.count


def run(
    broker: BrokerProcess | ThreeBrokers,
    folder: Path,
    *,
    seed: int,
    seconds: float,
    copiers: int,
    rate: int,
    protocol: str = "classic",
) -> Finding:
    """Runs the check against a running broker, with `copiers` for each of the two steps of the chain."""
    make_topics(broker.bootstrap)
    made = [
        CopierProcess(
            broker.bootstrap,
            Route(source, target, f"group-{target}", protocol),
            f"{target}-{n}",
            seed * 1000,
            folder / f"{target}-{n}.log",
        )
        for source, target in itertools.pairwise(TOPICS)
        for n in range(copiers)
    ]
    follower = Follower(broker.bootstrap, TOPICS[-1], PARTITIONS)
    faults = Faults(seed, broker, made)
    try:
        feeder = Feeder(broker.bootstrap, rate)
        faults.go_on_for(seconds)
        count = feeder.end()
        _drain(faults, follower, count)
    finally:
        for copier in made:
            copier.kill()
        follower.close()
    finding = Finding(count, faults=dict(faults.done), restarts=sum(copier.starts - 1 for copier in made))
    _check(broker.bootstrap, follower, finding)
    return finding


def make_topics(bootstrap: str) -> None:
    """Creates the topics with as many replicas as there are brokers."""
    servers = bootstrap.count(",") + 1
    admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, PARTITIONS, servers) for topic in TOPICS])
    for future in made.values():
        future.result(DRAIN_S)


def _drain(faults: Faults, follower: Follower, count: int) -> None:
    faults.thaw()
    end = time.monotonic() + DRAIN_S
    while follower.count() < count and time.monotonic() < end:
        faults.peace(0.2)
    # Duplicates have time to arrive.
    faults.peace(1.0)


def _check(bootstrap: str, follower: Follower, finding: Finding) -> None:
    finding.problems += follower.complaints
    # The transactions of killed copiers end at their timeouts.
    eventually(lambda: _are_stable(bootstrap), what="all transactions have ended", deadline_s=DRAIN_S)
    for topic in TOPICS:
        references = {index: reference_log_of(bootstrap, topic, index) for index in range(PARTITIONS)}
        finding.aborted += sum(len(reference.aborted) for reference in references.values())
        problems = _problems_of(topic, references, read_all(bootstrap, topic, PARTITIONS, READ_COMMITTED), "committed")
        problems += _problems_of(
            topic, references, read_all(bootstrap, topic, PARTITIONS, READ_UNCOMMITTED), "everything"
        )
        if topic == TOPICS[-1]:
            problems += _problems_of(topic, references, follower.seen, "committed")
        problems += [
            p for index, reference in references.items() for p in _miscounted(finding.records, topic, index, reference)
        ]
        finding.problems += problems


def _are_stable(bootstrap: str) -> bool:
    # A leader election may still be under way.
    with contextlib.suppress(AssertionError, OSError):
        return _all_ended(bootstrap)
    return False


def _all_ended(bootstrap: str) -> bool:
    return all(
        last_stable_offset(bootstrap, topic, index)
        == (reference := reference_log_of(bootstrap, topic, index)).end_offset
        and not reference.open
        for topic in TOPICS
        for index in range(PARTITIONS)
    )


def _problems_of(topic: str, references: dict[int, ReferenceLog], seen: Seen, what: str) -> list[str]:
    """Returns the differences between a reader's records and the log."""
    found = []
    for index, reference in references.items():
        expected = getattr(reference, what)
        for kind, offsets in (
            ("not shown", expected.keys() - seen[index].keys()),
            ("shown", seen[index].keys() - expected.keys()),
        ):
            if offsets:
                found.append(f"{topic}-{index}: not {what}, but {kind}: {sorted(offsets)[:10]} ({len(offsets)})")
        if not found and expected != seen[index]:
            found.append(f"{topic}-{index}: other values than in the log")
    return found


def _miscounted(count: int, topic: str, index: int, reference: ReferenceLog) -> list[str]:
    numbers = [int(value) for _, value in sorted(reference.committed.items())]
    expected = list(range(index, count, PARTITIONS))
    if numbers == expected:
        return []
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    missing = sorted(set(expected) - set(numbers))
    return [
        f"{topic}-{index}: twice {twice[:10]} ({len(twice)}), missing {missing[:10]} ({len(missing)}), or out of order"
    ]


BROKERS: dict[str, Callable[[Path, dict[str, str]], BrokerProcess]] = {"odradek": OdradekProcess, "apache": ApacheKafka}
EVERY = {**BROKERS, "cluster": ThreeBrokers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for how long things go wrong (default: 60)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="says what goes wrong when")
    parser.add_argument("--copiers", type=int, default=3, help="for each of the two steps (default: 3)")
    parser.add_argument("--rate", type=int, default=300, help="records a second (default: 300)")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="classic", help="of the copiers' groups")
    parser.add_argument("--target", choices=EVERY, default="odradek", help="cluster: three of ours")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as name:
        folder = Path(name)
        with EVERY[options.target](folder / "broker", PROPERTIES) as broker:
            how = {key: value for key, value in vars(options).items() if key != "target"}
            finding = run(broker, folder, **how)
    print(finding)
    raise SystemExit(bool(finding.problems))


if __name__ == "__main__":
    main()
