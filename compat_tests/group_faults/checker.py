"""Members of both protocols come and go in one group while brokers are killed: who owned what, and is all handled?

    python -m compat_tests.group_faults.checker --seconds 120 --seed 7
    python -m compat_tests.group_faults.checker --target cluster

What must hold, whatever was killed when:

- at no time do two members own a partition (KIP-848: the coordinator gives out only what was given back);
- every record is handled by some member;
- rebalances end: afterwards everybody alive has its share.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from compat_tests.asking import coordinator_of
from compat_tests.broker_process import BrokerProcess
from compat_tests.exactly_once.cluster import ThreeBrokers
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.recipes import make_replicated_topic
from compat_tests.rehearsal import Rehearsal

from .members import Ledger, Member

PARTITIONS = 6
MOST_MEMBERS = 4
PROPERTIES = {
    **SINGLE_NODE,
    "node.id": "1",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
GROUP = "group"
BROKERS: dict[str, type[BrokerProcess] | type[ThreeBrokers]] = {
    "odradek": OdradekProcess,
    "apache": ApacheKafka,
    "cluster": ThreeBrokers,
}
#: What a member of the new protocol is told of a group that is not upgraded, in its client's words.
_IS_CLASSIC = "group id does not exist"
#: Sessions of the dead run out, and the rest is handled.
SETTLE_S = 120.0
#: A broker that is killed over and over shares its machine with all the others of a test run.
START_DEADLINE_S = 120.0


@dataclass
class Finding:
    records: int = 0
    moves: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{self.records} records, {self.moves} times a partition was given to a member, {dict(self.faults)}"
        return "\n".join([head, *self.problems])


class Feeder:
    """Fills the topic with numbers, each once."""

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


class Faults(Rehearsal):
    """The group, and what befalls it."""

    def __init__(self, broker: BrokerProcess | ThreeBrokers, topic: str, seed: int) -> None:
        super().__init__(seed, ())
        self._broker = broker
        self._topic = topic
        self._numbers = itertools.count(1)
        self.ledger = Ledger()
        self.members: list[Member] = []

    def join(self, protocol: str) -> None:
        name = f"{protocol}-{next(self._numbers)}"
        self.members.append(Member(self._broker.bootstrap, self._topic, GROUP, name, protocol, self.ledger))
        self.done[f"{protocol} joins"] += 1

    def one(self) -> None:
        kind = self.chance.random()
        if kind < 0.3:
            self._kill()
        elif kind < 0.65 and len(self.members) < MOST_MEMBERS:
            self.join(self.chance.choice(("consumer", "classic")))
        elif len(self.members) > 1:
            self.members.pop(self.chance.randrange(len(self.members))).end()
            self.done["one leaves"] += 1

    def _kill(self) -> None:
        """Of three brokers, the group's coordinator, or any."""
        if isinstance(self._broker, ThreeBrokers):
            found = coordinator_of(self._broker.bootstrap, GROUP) if self.chance.random() < 0.6 else None
            self._broker.kill(None if found is None else found.node_id)
            self.done["broker killed" if found is None else "coordinator killed"] += 1
        else:
            self._broker.kill()
            self.done["broker killed"] += 1
        self._broker.start()

    def drop_refused(self) -> None:
        """librdkafka's cooperative-sticky leader puts its user data into assignments, and a group that has such is not
        upgraded by a member of the new protocol that joins, here or by Apache Kafka: the client gives up.
        """
        for member in [one for one in self.members if one.refused is not None]:
            assert member.protocol == "consumer" and _IS_CLASSIC in member.refused.str(), member.refused
            self.members.remove(member)
            member.end()
            self.done["one is refused"] += 1
        if not self.members:
            self.join("classic")

    def is_settled(self) -> bool:
        self.drop_refused()
        owners = self.ledger.owners()
        shares = Counter(names[0] for names in owners.values())
        even = len(shares) == len(self.members) and max(shares.values()) - min(shares.values()) <= 1
        return len(owners) == PARTITIONS and all(len(names) == 1 for names in owners.values()) and even


def run(broker: BrokerProcess | ThreeBrokers, *, topic: str, seed: int, seconds: float, rate: int = 100) -> Finding:
    make_replicated_topic(broker.bootstrap, topic, PARTITIONS)
    faults = Faults(broker, topic, seed)
    feeder = Feeder(broker.bootstrap, topic, rate)
    for protocol in ("consumer", "classic"):
        faults.join(protocol)
    faults.go_on_for(seconds)
    feeder.end()
    finding = Finding(records=feeder.count, faults=faults.done)
    ledger = faults.ledger
    deadline = time.monotonic() + SETTLE_S
    while not (faults.is_settled() and len(ledger.handled) == feeder.count) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not faults.is_settled():
        members = ", ".join(f"{one.name} ({one.protocol})" for one in faults.members)
        finding.problems.append(f"rebalances did not end: {ledger.owners()} of {members}")
    if missing := set(range(feeder.count)) - ledger.handled:
        finding.problems.append(f"{len(missing)} records were not handled, such as {sorted(missing)[:5]}")
    for member in faults.members:
        member.end()
    finding.moves = len(ledger.tenures)
    finding.problems += ledger.conflicts()
    return finding


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", choices=BROKERS, default="odradek")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs of a bad round there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with BROKERS[options.target](place, PROPERTIES, start_deadline_s=START_DEADLINE_S) as broker:
            finding = run(broker, topic="faults", seed=options.seed, seconds=options.seconds)
        if finding.problems and options.keep:
            shutil.copytree(place, options.keep / f"seed-{options.seed}", dirs_exist_ok=True)
    print(f"seed {options.seed}: {finding}")
    raise SystemExit(bool(finding.problems))


if __name__ == "__main__":
    main()
