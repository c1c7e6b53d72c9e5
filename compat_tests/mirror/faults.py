"""Rounds of faults on a source and its mirror: `python -m compat_tests.mirror.faults --rounds 30 --seed 1`.

Two clusters, each node in a network namespace with a small disk of its own, and a producer that notes what is acknowledged.
In each round, while it writes, nodes of one side are killed or stand still, the disk here is full, the network between the
sides is cut, leaders move at the source, or the direction changes by a switch or a fail-over, whose command is killed or cut
off, too. An unclean election at the source loses records that are here already. Then both sides have the same batches, each
partition's state has a name, and every acknowledged record is in the log, or among the records that a cut kept, once.

`--source apache --nodes 3` has three nodes of Apache Kafka as the source. It cannot become a mirror, so the direction stays.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import odradek
from confluent_kafka import KafkaError, Message, Producer
from odradek.admin import mirrors, topic_changes
from odradek.admin.config_changes import alter_configs
from odradek.admin.reassignments import alter_reassignments, elect_leaders, list_reassignments
from odradek.client.errors import RequestFailed
from odradek.metadata.mirror_keys import CUTS_DIVERGED
from odradek.replication.mirror.link import LinkState
from odradek.replication.mirror.partition import MirrorState
from odradek.replication.mirror.progress import MirrorProgress

from compat_tests.faults.network import Network, why_not
from compat_tests.mirror.mirrored_logs import admin_of, batches, values
from compat_tests.mirror.sides import Side
from compat_tests.recipes import eventually

TOPIC = "orders"
PARTITIONS = 2
_RECORDS = 300
#: Large enough that the pages of a full disk have no room for them.
_PADDING = b"." * 400
_DEADLINE_S = 180
#: Limits of a record that the cluster may not take, and of the report about it.
_TIMEOUT_S, _FLUSH_S = 20, 10
#: Durations of a stop of a process, and of a cut of the network.
_STILL_S, _CUT_S = 1.5, (0.5, 5.0)
_NAMED = {*(state.value for state in MirrorState), *(state.value for state in LinkState)}
_UNCLEAN = "unclean.leader.election.enable"


class Rounds:
    """`primary` takes records, `mirror` follows it by the link `dr` and a number. `nodes`: of the first primary."""

    def __init__(self, folder: Path, seed: int, kind: str = "odradek", nodes: int = 1) -> None:
        self.rng = random.Random(seed)
        self.link = 0
        self.acknowledged: set[bytes] = set()
        self.faults: Counter[str] = Counter()
        self._folder, self._kind, self._nodes = folder, kind, nodes
        self._stack = ExitStack()
        self._writer = threading.Thread()
        self._cuts = False

    def __enter__(self) -> Rounds:
        with ExitStack() as stack:
            self.network = stack.enter_context(Network(self._nodes + 1))
            there, here = range(1, self._nodes + 1), [self._nodes + 1]
            self.primary = stack.enter_context(Side(self._kind, self.network, there, self._folder, self.rng))
            self.mirror = stack.enter_context(Side("odradek", self.network, here, self._folder, self.rng))
            with closing(admin_of(self.primary.bootstrap)) as source, closing(admin_of(self.mirror.bootstrap)) as admin:
                new = topic_changes.NewTopic(PARTITIONS, min(2, self._nodes))
                topic_changes.create_topics(source, {TOPIC: new})
                link = {"bootstrap.servers": self.primary.bootstrap, "topics": TOPIC, "groups": ".*"}
                mirrors.create_link(admin, self._name, link, dry_run=False)
            self._await_equal("the begin")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _name(self) -> str:
        return f"dr{self.link}"

    # ---- a round

    def choices(self) -> dict[str, Callable[[], None]]:
        """The faults that the clusters can have now, by their names."""
        primary, mirror = self.primary, self.mirror
        faults: dict[str, Callable[[], None]] = {
            "the source is killed": lambda: self._kill(primary),
            "the mirror is killed": lambda: self._kill(mirror),
            "the source stands still": lambda: self._stand_still(primary),
            "the mirror stands still": lambda: self._stand_still(mirror),
            "the mirror's disk is full": lambda: self._fill(mirror),
            "the network is cut": self._cut,
        }
        if self._kind == "odradek":
            faults |= {
                "switch and reversal": self._switch,
                "the network is cut in a switch": self._cut_in_switch,
                "fail-over and reversal": self._fail_over,
            }
        if primary.is_replicated:
            faults |= {
                "leaders move at the source": self._move_leaders,
                "unclean election at the source": self._elect_uncleanly,
            }
        return faults

    def run(self, number: int, name: str = "") -> None:
        """A round with a fault that is named, or drawn."""
        faults = self.choices()
        name = name or self.rng.choice(list(faults))
        self.faults[name] += 1
        self._writer = threading.Thread(target=self._write, args=(self.primary, b"%d-before" % number))
        self._writer.start()
        faults[name]()
        self._writer.join()
        self.write_all(self.primary, b"%d-after" % number)
        self._check(name)

    def write_all(self, side: Side, what: bytes) -> None:
        """Writes records to a side that must take them: an acknowledged record can be lost only where there is one."""
        acknowledged = self._write(side, what, _DEADLINE_S)
        assert len(acknowledged) == _RECORDS, (
            f"{len(acknowledged)} of {_RECORDS} records {what.decode()!r} are acknowledged after {dict(self.faults)}"
        )

    def _write(self, side: Side, what: bytes, timeout_s: float = _TIMEOUT_S) -> set[bytes]:
        """Writes records, and notes those that are acknowledged. Returns them."""
        settings = {"bootstrap.servers": side.bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
        producer = Producer(settings | {"message.timeout.ms": int(timeout_s * 1000)})
        acknowledged: set[bytes] = set()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acknowledged.add(message.value() or b"")

        for index in range(_RECORDS):
            value = b"%s-%d%s" % (what, index, _PADDING)
            producer.produce(TOPIC, value, partition=index % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
            if index % 50 == 0:
                producer.flush(0.2)
        producer.flush(timeout_s + _FLUSH_S)
        self.acknowledged |= acknowledged
        return acknowledged

    # ---- what holds after a round

    def _check(self, fault: str) -> None:
        self.network.mend()
        for side in (self.primary, self.mirror):
            side.heal()
            self._await_replicas(side)
        self._await_equal(fault)
        states = {one.state for one in self._progress().values()}
        assert states <= _NAMED, f"after {fault!r}: {states}"
        held = Counter(
            value or b"" for index in range(PARTITIONS) for _, _, value in values(self.primary.bootstrap, TOPIC, index)
        )
        lost = self.acknowledged - held.keys() - set(self.kept())
        shown = [value.rstrip(b".") for value in sorted(lost)[:3]]
        assert not lost, f"after {fault!r}: {len(lost)} acknowledged records are lost, such as {shown}"
        twice = [value.rstrip(b".") for value, count in held.items() if count > 1]
        assert not twice, f"after {fault!r}: {twice[:3]} are there more than once"

    def _progress(self) -> dict[tuple[str, int], MirrorProgress]:
        with closing(admin_of(self.mirror.bootstrap)) as admin:
            return mirrors.read_progress(admin, self._name)

    def _await_replicas(self, side: Side) -> None:
        """Waits until each partition has all its replicas in the ISR: the next fault may take any of them."""
        what = f"the replicas of {side.bootstrap} are in sync"
        eventually(lambda: self._is_whole(side), what=what, deadline_s=_DEADLINE_S)

    def _is_whole(self, side: Side) -> bool:
        try:
            found = side.partitions(TOPIC)
        except RequestFailed:
            return False
        return len(found) == PARTITIONS and all(set(one.isr_nodes) == set(one.replica_nodes) for one in found)

    def _await_equal(self, what: str) -> None:
        for index in range(PARTITIONS):
            eventually(
                lambda index=index: self._is_equal(index),
                what=f"both sides of {TOPIC}-{index} are equal after {what!r}",
                deadline_s=_DEADLINE_S,
            )

    def _is_equal(self, index: int) -> bool:
        try:
            return batches(self.mirror.bootstrap, TOPIC, index) == batches(self.primary.bootstrap, TOPIC, index)
        except (AssertionError, OSError):
            return False  # a leader moves

    def kept(self) -> list[bytes]:
        """The values of records that were cut off, on either side."""
        found: list[bytes] = []
        for node in (*self.primary.nodes.values(), *self.mirror.nodes.values()):
            cuts = node.log_dir / "odradek-mirror-cuts.jsonl"
            for line in cuts.read_text().splitlines() if cuts.exists() else ():
                found += odradek.scan(json.loads(line)["directory"]).to_table()["value"].to_pylist()
        return found

    # ---- faults

    def _kill(self, side: Side) -> None:
        for node in side.some():
            node.kill()
        side.heal()

    def _stand_still(self, side: Side) -> None:
        for node in side.some():
            node.pause()
        time.sleep(_STILL_S)
        side.heal()

    def _fill(self, side: Side) -> None:
        """Fills a disk until its broker ends: it has no other."""
        node = self.rng.choice(list(side.nodes.values()))
        node.fill_disk()
        self.write_all(self.primary, b"full-%d" % len(self.acknowledged))
        eventually(lambda: not node.is_running, what="the broker with the full disk ends", deadline_s=_DEADLINE_S)
        side.heal()

    def _cut(self) -> None:
        self.primary.cut(self.mirror)
        time.sleep(self.rng.uniform(*_CUT_S))
        self.network.mend()

    def _move_leaders(self) -> None:
        """Has the next replica of each partition lead."""
        with closing(admin_of(self.primary.bootstrap)) as admin:
            found = self.primary.partitions(TOPIC)
            places = {(TOPIC, one.partition_index): [*one.replica_nodes[1:], one.replica_nodes[0]] for one in found}
            alter_reassignments(admin, dict(places))
            eventually(lambda: not list_reassignments(admin), what="the reassignments end", deadline_s=_DEADLINE_S)

            def moved() -> bool:
                with suppress(RequestFailed):
                    elect_leaders(admin, places, unclean=False)
                found = {(TOPIC, one.partition_index): one.leader_id for one in self.primary.partitions(TOPIC)}
                return all(found[place] == replicas[0] for place, replicas in places.items())

            eventually(moved, what="the leaders move", deadline_s=_DEADLINE_S)

    def _elect_uncleanly(self) -> None:
        """Has a replica lead that lacks records of the leader before it, which are at the mirror already."""
        self._writer.join()
        self._await_equal("the load")
        primary = self.primary
        first = primary.partitions(TOPIC)[0]
        leader, follower = first.leader_id, next(node for node in first.replica_nodes if node != first.leader_id)
        self._set_config(primary, _UNCLEAN, "true")
        primary.nodes[follower].kill()
        eventually(lambda: self._leads(leader, alone=True), what="the ISR shrinks", deadline_s=_DEADLINE_S)
        lost = self._write(primary, b"unclean-%d" % len(self.acknowledged))
        assert lost, "nothing is acknowledged by the last replica"
        self._await_equal("writes to the last replica")
        primary.nodes[leader].kill()
        primary.nodes[follower].start()
        eventually(lambda: self._leads(follower), what="the unclean election", deadline_s=_DEADLINE_S)
        self.write_all(primary, b"instead-%d" % len(self.acknowledged))
        if not self._cuts:
            eventually(self._is_stopped_or_equal, what="partitions stop", deadline_s=_DEADLINE_S)
            stopped = {place: one for place, one in self._progress().items() if mirrors.is_stopped(one)}
            assert (TOPIC, 0) in stopped and all(one.reason for one in stopped.values()), stopped
            self._set_config(self.mirror, CUTS_DIVERGED, "true")
        self._await_equal("the unclean election")
        primary.heal()
        self._set_config(primary, _UNCLEAN, None)
        if not self._cuts:
            self._set_config(self.mirror, CUTS_DIVERGED, None)

    def _leads(self, node: int, *, alone: bool = False) -> bool:
        try:
            first = self.primary.partitions(TOPIC)[0]
        except RequestFailed:
            return False
        return first.leader_id == node and (not alone or first.isr_nodes == [node])

    def _is_stopped_or_equal(self) -> bool:
        progress = self._progress()
        states = {index: progress[TOPIC, index].state for index in range(PARTITIONS) if (TOPIC, index) in progress}
        return states.get(0) == MirrorState.DIVERGED.value and all(
            state == MirrorState.DIVERGED.value or self._is_equal(index) for index, state in states.items()
        )

    def _set_config(self, side: Side, key: str, value: str | None) -> None:
        change = ("DELETE" if value is None else "SET", value)
        with closing(admin_of(side.bootstrap)) as admin:
            alter_configs(admin, "topic", TOPIC, {key: change}, dry_run=False)

    # ---- changes of the direction

    def _switch(self) -> None:
        self._planned(lambda: self._command("switch", self._name, "--yes", "-b", self.mirror.bootstrap))

    def _cut_in_switch(self) -> None:
        """Cuts the network between the sides, and at times the source's responses to the command, while it runs."""

        def change() -> None:
            command = _mirror_command("switch", self._name, "--yes", "-b", self.mirror.bootstrap)
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                with suppress(subprocess.TimeoutExpired):
                    running.wait(self.rng.uniform(0.3, 3))
                self.primary.cut(self.mirror)
                if self.rng.random() < 0.5:
                    self.primary.cut_clients()
                with suppress(subprocess.TimeoutExpired):
                    running.wait(self.rng.uniform(*_CUT_S))
                if self.rng.random() < 0.5:
                    running.kill()
                self.network.mend()
            if running.returncode:
                _completed(command, ())

        self._planned(change)

    def _planned(self, change: Callable[[], None]) -> None:
        """A change by which no record is cut off, and after which only one side takes records."""
        kept = len(self.kept())
        change()
        refused = self._write(self.primary, b"refused-%d" % self.link)
        assert not refused, f"both sides are writable: {sorted(refused)[:3]}"
        former = self.primary
        self._reverse()
        self.write_all(self.primary, b"switched-%d" % self.link)
        self._await_equal("the switch")
        assert len(self.kept()) == kept, "a switch and its reversal cut records off"
        assert former is self.mirror

    def _fail_over(self) -> None:
        self.primary.kill()
        self._command("fail-over", self._name, "--yes", "-b", self.mirror.bootstrap)
        self.write_all(self.mirror, b"alone-%d" % self.link)
        self.primary.heal()
        self._reverse()

    def _reverse(self) -> None:
        back = f"dr{self.link + 1}"
        self._command("reverse", self._name, "--as", back, "--yes", "-b", self.mirror.bootstrap)
        self.link += 1
        self.primary, self.mirror = self.mirror, self.primary
        self._cuts = True  # a reversed link allows them

    def _command(self, *words: str) -> None:
        """Runs a command, kills it at some moment, and runs it again to its end. One that had ended finds nothing to do."""
        command = _mirror_command(*words)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as interrupted:
            try:
                interrupted.wait(self.rng.uniform(0.5, 4))
            except subprocess.TimeoutExpired:
                interrupted.kill()
        if interrupted.returncode:
            _completed(command, ("does not exist",) if words[0] == "reverse" else ())


def _mirror_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "odradek.cli.main", "mirror", *words]


def _completed(command: list[str], endings: tuple[str, ...]) -> None:
    """Runs a command to its end. `endings`: parts of errors that mean that an earlier run had ended."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
    has_ended = any(ending in done.stderr for ending in endings)
    assert done.returncode == 0 or has_ended, f"{command[3:]}: {done.stderr}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--source", choices=("odradek", "apache"), default="odradek")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="of the source")
    arguments = parser.parse_args()
    if rejected := why_not():
        sys.exit(rejected)
    folder = Path(tempfile.mkdtemp(prefix="mirror-faults-"))
    print(f"seed {arguments.seed}; the logs of a failure are in {folder}", flush=True)
    with Rounds(folder, arguments.seed, arguments.source, arguments.nodes) as rounds:
        for number in range(arguments.rounds):
            began = time.monotonic()
            rounds.run(number)
            print(f"round {number + 1}, {time.monotonic() - began:.0f} s: {dict(rounds.faults)}", flush=True)
    shutil.rmtree(folder)
    print(f"{len(rounds.acknowledged)} records were acknowledged, and none is lost")


if __name__ == "__main__":
    main()
