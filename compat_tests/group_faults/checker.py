"""Checks a group with members of both protocols while brokers and members are killed: partition owners, handled records.

    python -m compat_tests.group_faults.checker --seconds 120 --seed 7
    python -m compat_tests.group_faults.checker --target cluster --rounds 10 --assignor range

The following must hold, whatever was killed or frozen:

- no two members own a partition at the same time (as the protocols promise it: ledger.py), and no member commits offsets of
  a partition that another member owns;
- some member handles every record;
- rebalances end: afterwards every live member has its share.

The classic members have an eager assignor (range: the coordinator upgrades and downgrades such a group between the
protocols) or a cooperative one. The seed chooses it unless --assignor does.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.broker_process import BrokerProcess
from compat_tests.exactly_once.cluster import ThreeBrokers
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.recipes import make_replicated_topic

from .faults import Brokers, Faults
from .feeder import PARTITIONS, Feeder
from .ledger import SESSION_S

ASSIGNORS = ("range", "cooperative-sticky")
PROPERTIES = {
    **SINGLE_NODE,
    "node.id": "1",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
    "group.consumer.assignment.interval.ms": "0",
}
GROUP = "group"
BROKERS: dict[str, type[BrokerProcess] | type[ThreeBrokers]] = {
    "odradek": OdradekProcess,
    "apache": ApacheKafka,
    "cluster": ThreeBrokers,
}
MOST_SHOWN = 20
#: Time for the sessions of killed members to expire, and for the rest of the records to be handled.
SETTLE_S = 120.0
#: A broker that is killed repeatedly shares its machine with all others of a test run.
START_DEADLINE_S = 120.0


@dataclass
class Finding:
    assignor: str
    records: int = 0
    moves: int = 0
    rejected_commits: int = 0
    crossed: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = (
            f"{self.assignor}: {self.records} records, {self.moves} times a partition was given to a member, "
            f"{self.rejected_commits} commits refused, {self.crossed} heartbeats crossed, {dict(self.faults)}"
        )
        return "\n".join([head, *self.problems[:MOST_SHOWN], f"{len(self.problems)} problems"])


def run(
    brokers: Brokers, folder: Path, *, topic: str, seed: int, seconds: float, assignor: str = "", rate: int = 100
) -> Finding:
    """Runs one round. Members leave their notes and logs in `folder`."""
    make_replicated_topic(brokers.bootstrap, topic, PARTITIONS)
    assignor = assignor or ASSIGNORS[seed % 2]
    faults = Faults(brokers, topic, GROUP, assignor, seed, folder)
    feeder = Feeder(brokers.bootstrap, topic, rate)
    try:
        for kind in ("consumer", "classic"):
            faults.join(kind)
        assert _comes_true(faults, lambda: _is_stable(faults)), f"the group does not begin: {faults.ledger.owners()}"
        faults.go_on_for(seconds)
        feeder.end()
        finding = Finding(assignor, records=feeder.count, faults=faults.done)
        _settle(faults, finding)
    finally:
        faults.end()
    ledger = faults.ledger
    ledger.read()
    finding.problems += [*faults.problems, *ledger.problems()]
    finding.moves, finding.rejected_commits, finding.crossed = ledger.moves, ledger.rejected_commits, ledger.crossed
    return finding


def _settle(faults: Faults, finding: Finding) -> None:
    ledger = faults.ledger
    _comes_true(faults, lambda: _is_stable(faults) and len(ledger.handled) == finding.records)
    if not _is_stable(faults):
        names = ", ".join(one.name for one in faults.members)
        finding.problems.append(f"rebalances did not end: {ledger.owners()} of {names}")
    if missing := set(range(finding.records)) - ledger.handled:
        finding.problems.append(f"{len(missing)} records were not handled, such as {sorted(missing)[:5]}")


def _comes_true(faults: Faults, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SETTLE_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        faults.peace(0.1)
    return True


def _is_stable(faults: Faults) -> bool:
    owners = faults.ledger.owners()
    shares = Counter(names[0] for names in owners.values())
    even = len(shares) == len(faults.members) and max(shares.values()) - min(shares.values()) <= 1
    is_whole = len(owners) == PARTITIONS and all(len(names) == 1 for names in owners.values())
    return faults.is_quiet() and is_whole and even


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--target", choices=BROKERS, default="odradek")
    parser.add_argument("--assignor", choices=ASSIGNORS, default="", help="of classic members")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs of bad rounds there")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory(prefix="group-faults-") as directory:
            place = Path(directory)
            with BROKERS[options.target](place, PROPERTIES, start_deadline_s=START_DEADLINE_S) as brokers:
                finding = run(
                    brokers, place, topic="faults", seed=seed, seconds=options.seconds, assignor=options.assignor
                )
            if finding.problems and options.keep:
                shutil.copytree(place, options.keep / f"seed-{seed}", dirs_exist_ok=True)
        print(f"seed {seed}: {finding}", flush=True)
        bad += bool(finding.problems)
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
