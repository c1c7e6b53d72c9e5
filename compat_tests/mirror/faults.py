"""Rounds of faults on a source and its mirror: `python -m compat_tests.mirror.faults --rounds 30 --seed 1`.

Two brokers in processes of their own, and a producer that notes what is acknowledged. In each round, while it writes, one
side is killed or stands still, or the direction changes by a switch or a fail-over whose command is killed, too. Then both
sides have the same batches, each partition's state has a name, and every acknowledged record is in the log, or among the
records that a cut kept, once.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import odradek
from confluent_kafka import Message, Producer
from odradek.admin import mirrors, topic_changes
from odradek.replication.mirror.link import LinkState
from odradek.replication.mirror.partition import MirrorState

from compat_tests.mirror.mirrored_logs import admin_of, batches, values
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

TOPIC = "orders"
_RECORDS = 300
_DEADLINE_S = 120
#: A process that stands still for so long.
_STILL_S = 1.5
_NAMED = {*(state.value for state in MirrorState), *(state.value for state in LinkState)}


class Rounds:
    """`primary` takes records, `mirror` follows it by the link `dr` and a number."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.primary = OdradekProcess(folder / "a")
        self.mirror = OdradekProcess(folder / "b")
        self.link = 0
        self.acknowledged: set[bytes] = set()
        self.faults: Counter[str] = Counter()

    def __enter__(self) -> Rounds:
        self.primary.start()
        self.mirror.start()
        with closing(admin_of(self.primary.bootstrap)) as there, closing(admin_of(self.mirror.bootstrap)) as admin:
            topic_changes.create_topics(there, {TOPIC: topic_changes.NewTopic(1, 1)})
            link = {"bootstrap.servers": self.primary.bootstrap, "topics": TOPIC, "groups": ".*"}
            mirrors.create_link(admin, self._name, link, dry_run=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.primary.kill()
        self.mirror.kill()

    @property
    def _name(self) -> str:
        return f"dr{self.link}"

    # ---- a round

    def run(self, number: int) -> None:
        faults: dict[str, Callable[[], None]] = {
            "the source is killed": lambda: self._kill(self.primary),
            "the mirror is killed": lambda: self._kill(self.mirror),
            "the source stands still": lambda: self._stand_still(self.primary),
            "the mirror stands still": lambda: self._stand_still(self.mirror),
            "switch and reversal": self._switch,
            "fail-over and reversal": self._fail_over,
        }
        name = self.rng.choice(list(faults))
        self.faults[name] += 1
        writer = threading.Thread(target=self._write, args=(self.primary.bootstrap, number, "before"))
        writer.start()
        faults[name]()
        writer.join()
        self._write(self.primary.bootstrap, number, "after")
        self._check(name)

    def _write(self, bootstrap: str, number: int, when: str) -> None:
        """Writes records, and notes those that are acknowledged."""
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
        producer = Producer(settings | {"message.timeout.ms": 20_000})

        def delivered(error: object, message: Message) -> None:
            if error is None:
                self.acknowledged.add(message.value())

        for index in range(_RECORDS):
            producer.produce(TOPIC, b"%d-%s-%d" % (number, when.encode(), index), on_delivery=delivered)
            producer.poll(0)
            if index % 50 == 0:
                producer.flush(0.2)
        producer.flush(30)

    def _check(self, fault: str) -> None:
        self._await_equal(fault)
        with closing(admin_of(self.mirror.bootstrap)) as admin:
            states = {one.state for one in mirrors.read_progress(admin, self._name).values()}
        assert states <= _NAMED, f"after {fault!r}: {states}"
        held = Counter(value or b"" for _, _, value in values(self.primary.bootstrap, TOPIC))
        kept = set(self._kept())
        lost = self.acknowledged - held.keys() - kept
        assert not lost, f"after {fault!r}: {len(lost)} acknowledged records are lost, such as {sorted(lost)[:3]}"
        twice = [value for value, count in held.items() if count > 1]
        assert not twice, f"after {fault!r}: {twice[:3]} are there more than once"

    def _await_equal(self, what: str) -> None:
        eventually(
            lambda: batches(self.mirror.bootstrap, TOPIC) == batches(self.primary.bootstrap, TOPIC),
            what=f"both sides are equal after {what!r}",
            deadline_s=_DEADLINE_S,
        )

    def _kept(self) -> list[bytes]:
        """The values of records that were cut off, on either side."""
        found: list[bytes] = []
        for broker in (self.primary, self.mirror):
            cuts = broker.data_dir / "odradek-mirror-cuts.jsonl"
            for line in cuts.read_text().splitlines() if cuts.exists() else ():
                found += odradek.scan(json.loads(line)["directory"]).to_table()["value"].to_pylist()
        return found

    # ---- faults

    def _kill(self, broker: OdradekProcess) -> None:
        broker.kill()
        broker.start()

    def _stand_still(self, broker: OdradekProcess) -> None:
        assert broker.process is not None
        broker.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(_STILL_S)
        finally:
            broker.process.send_signal(signal.SIGCONT)

    def _switch(self) -> None:
        self._command("switch", self._name, "--yes", "-b", self.mirror.bootstrap)
        self._reverse()

    def _fail_over(self) -> None:
        self.primary.kill()
        self._command("fail-over", self._name, "--yes", "-b", self.mirror.bootstrap)
        self._write(self.mirror.bootstrap, -self.link, "alone")
        self.primary.start()
        self._reverse()

    def _reverse(self) -> None:
        back = f"dr{self.link + 1}"
        self._command("reverse", self._name, "--as", back, "--yes", "-b", self.mirror.bootstrap)
        self.link += 1
        self.primary, self.mirror = self.mirror, self.primary

    def _command(self, *words: str) -> None:
        """Runs a command, kills it at some moment, and runs it again to its end. One that had ended finds nothing to do."""
        command = [sys.executable, "-m", "odradek.cli.main", "mirror", *words]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as interrupted:
            try:
                interrupted.wait(self.rng.uniform(0.5, 4))
            except subprocess.TimeoutExpired:
                interrupted.kill()
        if interrupted.returncode == 0:
            return
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
        has_ended = words[0] == "reverse" and "does not exist" in done.stderr
        assert done.returncode == 0 or has_ended, f"{words}: {done.stderr}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, Rounds(Path(folder), arguments.seed) as rounds:
        for number in range(arguments.rounds):
            rounds.run(number)
            print(f"round {number + 1}: {dict(rounds.faults)}", flush=True)
    print(f"{len(rounds.acknowledged)} records were acknowledged, and none is lost")


if __name__ == "__main__":
    main()
