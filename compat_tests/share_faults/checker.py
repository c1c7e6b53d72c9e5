"""Checks that a share group finishes each record exactly once while brokers and members are killed.

    python -m compat_tests.share_faults.checker --rounds 20 --seconds 30 --seed 7
    python -m compat_tests.share_faults.checker --target cluster

`history.py` lists the violations of deliveries, `dead_letter_records.py` those of the dead-letter queue. In the end the
group's lag must be 0, so every record is finished, and every committed record must be in the members' histories. The group
reads with isolation level read_committed; with --uncommitted there are no transactions.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat_tests.broker_process import BrokerProcess
from compat_tests.exactly_once.cluster import ThreeBrokers
from compat_tests.java.fetch import ORACLE, SPECIFICATION
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.recipes import eventually, make_replicated_topic

from . import dead_letter_records
from .faults import Brokers, Faults, MemberProcess, java_member, python_member
from .feeder import AnyFeeder, PlainFeeder, TransactionalFeeder
from .group import SharedTopic
from .history import Circumstances, History, Quiet, anomalies, read
from .leaders import LeaderWatch
from .member import RENEW

PARTITIONS = 6
MEMBERS = 3
LIMIT = 5
PROPERTIES = {
    **SINGLE_NODE,
    "node.id": "1",
    # Leadership of a partition moves only when its leader dies.
    "auto.leader.rebalance.enable": "false",
    "group.share.delivery.count.limit": str(LIMIT),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "4000",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "15000",
    "group.share.assignment.interval.ms": "0",
    # So low that shards are loaded from snapshots and updates.
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}
LOCK_S = int(PROPERTIES["group.share.record.lock.duration.ms"]) / 1000


class NewestKafka(ApacheKafka):
    """The first release with dead-letter queues."""

    def __init__(self, *words: Any, **settings: Any) -> None:
        super().__init__(*words, version=SPECIFICATION, **settings)


BROKERS: dict[str, type[BrokerProcess] | type[ThreeBrokers]] = {
    "odradek": OdradekProcess,
    "apache": ApacheKafka,
    "apache-4.4": NewestKafka,
    "cluster": ThreeBrokers,
}
#: Time without faults. Shorter than a lock, else a member on a busy machine would lose records.
QUIET_S = 2.0
#: Time for the locks and sessions of killed members to expire, and for the rest to be finished. A busy machine takes long.
SETTLE_S = 180.0


@dataclass
class Finding:
    records: int = 0
    deliveries: int = 0
    confirmed: int = 0
    unknown: int = 0
    renewed: int = 0
    aborted: int = 0
    dead_letter_records: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = (
            f"{self.records} records, {self.aborted} aborted ones beside them, {self.deliveries} deliveries, "
            f"{self.confirmed} acknowledgements confirmed, {self.unknown} not, {self.renewed} of them renewals, "
            f"{self.dead_letter_records} dead letters, {dict(self.faults)}"
        )
        return "\n".join([head, *self.problems])


def run(
    brokers: Brokers,
    folder: Path,
    *,
    topic: str,
    seed: int,
    seconds: float,
    rate: int = 200,
    java_members: int = 1,
    is_committed: bool = True,
) -> Finding:
    make_replicated_topic(brokers.bootstrap, topic, PARTITIONS)
    shared = SharedTopic(brokers.bootstrap, topic, f"share-{topic}")
    queue = None if isinstance(brokers, ApacheKafka) and brokers.version == ORACLE else _make_queue(shared)
    _configure(shared, queue, is_committed)
    programs = [java_member() if n < java_members else python_member() for n in range(MEMBERS)]
    members = [
        MemberProcess(program, brokers.bootstrap, shared, f"m{n}", seed * 100 + n, folder)
        for n, program in enumerate(programs)
    ]
    faults = Faults(seed, brokers, members, shared)
    watch = LeaderWatch(shared.leader_changes)
    try:
        faults.peace(0)
        begin = TransactionalFeeder if is_committed else PlainFeeder
        feeder: AnyFeeder = begin(brokers.bootstrap, topic, rate, PARTITIONS, seed)
        quiet = _quietly(faults, feeder)
        faults.go_on_for(seconds)
        feeder.end()
        finding = Finding(feeder.count, aborted=feeder.aborted, faults=faults.done)
        _settle(faults, shared, finding)
    finally:
        for member in members:
            member.end()
    changes = eventually(shared.leader_changes, what="all partitions are led")
    circumstances = Circumstances(LIMIT, changes, quiet, LOCK_S, watch.end())
    history = read([file for member in members for file in member.files])
    _count(finding, history)
    finding.problems += anomalies(history, set(range(finding.records)) - feeder.unknown, circumstances)
    if queue is not None:
        found = dead_letter_records.read(brokers.bootstrap, queue)
        finding.dead_letter_records = len(found)
        markers = dead_letter_records.markers(brokers.bootstrap, topic)
        finding.problems += dead_letter_records.anomalies(history, found, circumstances, markers)
    return finding


def _make_queue(shared: SharedTopic) -> str:
    eventually(shared.allow_queues, what="there may be dead letter queues")
    queue = f"dlq.{shared.topic}"
    make_replicated_topic(shared.bootstrap, queue, PARTITIONS, {"errors.deadletterqueue.group.enable": "true"})
    return queue


def _configure(shared: SharedTopic, queue: str | None, is_committed: bool) -> None:
    settings = {"share.auto.offset.reset": "earliest"}
    if is_committed:
        settings["share.isolation.level"] = "read_committed"
    if queue is not None:
        settings["errors.deadletterqueue.topic.name"] = queue
        settings["errors.deadletterqueue.copy.record.enable"] = "true"
    eventually(lambda: shared.configure(settings), what="the group is configured")


def _quietly(faults: Faults, feeder: AnyFeeder) -> Quiet:
    """Waits until every member was given records, then runs QUIET_S without faults."""
    end = time.monotonic() + SETTLE_S
    while not all(member.has_been_given for member in faults.members):
        assert time.monotonic() < end, "not every member is given records"
        faults.peace(0.1)
    began, first_value = time.monotonic(), feeder.count
    faults.peace(QUIET_S)
    return Quiet(first_value, began + QUIET_S)


def _settle(faults: Faults, shared: SharedTopic, finding: Finding) -> None:
    faults.thaw()
    end = time.monotonic() + SETTLE_S
    lag = shared.lag()
    while lag != 0:
        if time.monotonic() > end:
            finding.problems.append(f"in {SETTLE_S} s the group did not come to an end: it is {lag} behind")
            return
        faults.peace(0.2)
        lag = shared.lag()


def _count(finding: Finding, history: History) -> None:
    for record in history.values():
        finding.deliveries += len(record.given)
        finding.confirmed += len(record.confirmed)
        finding.unknown += len(record.words) - len(record.confirmed)
        finding.renewed += sum(word.what == RENEW for word in record.confirmed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="of the first round; each further has the next"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--java", type=int, default=1, metavar="N", help=f"members of {MEMBERS} that are Apache's client"
    )
    parser.add_argument("--uncommitted", action="store_true", help="without transactions")
    parser.add_argument("--target", choices=BROKERS, default="cluster")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and histories of bad rounds there")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory(prefix="share-faults-") as directory:
            place = Path(directory)
            with BROKERS[options.target](place, PROPERTIES, start_deadline_s=120) as brokers:
                finding = run(
                    brokers,
                    place,
                    topic="shared",
                    seed=seed,
                    seconds=options.seconds,
                    java_members=options.java,
                    is_committed=not options.uncommitted,
                )
            if finding.problems and options.keep:
                shutil.copytree(place, options.keep / f"seed-{seed}", dirs_exist_ok=True)
        print(f"seed {seed}: {finding}", flush=True)
        bad += bool(finding.problems)
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
