"""How long a planned switch silences a client, and how long a fail-over takes: `python -m compat_tests.mirror.measure`.

Two brokers in processes of their own. The client writes to the side that takes its records; its silence is the longest time
between two acknowledgements from the begin of the switch on. A fail-over is timed from its first effect on, without
the start of an interpreter.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Message, Producer
from odradek.admin import mirrors, topic_changes
from odradek.admin.mirror_change import MirrorChange
from odradek.admin.session import Admin
from odradek.replication.mirror.change import FAIL_OVER, SWITCH, Effect

from compat_tests.mirror.mirrored_logs import admin_of
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

_TOPICS_OF_LOAD, _PARTITIONS = 4, 4
_RECORD = b"x" * 500
_DEADLINE_S = 120


@contextmanager
def pair(folder: Path) -> Iterator[tuple[OdradekProcess, OdradekProcess]]:
    with OdradekProcess(folder / "source") as source, OdradekProcess(folder / "mirror") as here:
        assert isinstance(source, OdradekProcess) and isinstance(here, OdradekProcess)
        yield source, here


def follow(source: OdradekProcess, here: OdradekProcess, count: int, partitions: int) -> None:
    """Makes topics at the source, and waits until the mirror follows all their partitions."""
    with closing(admin_of(source.bootstrap)) as there, closing(admin_of(here.bootstrap)) as admin:
        topic_changes.create_topics(
            there, {f"load-{number}": topic_changes.NewTopic(partitions, 1) for number in range(count)}
        )
        link = {"bootstrap.servers": source.bootstrap, "topics": "load-.*", "groups": ".*"}
        mirrors.create_link(admin, "dr", link, dry_run=False)
        eventually(
            lambda: _following(admin) == count * partitions, what="all partitions follow", deadline_s=_DEADLINE_S
        )


def _following(admin: Admin) -> int:
    return sum(one.state == "following" and one.source_end >= 0 for one in mirrors.read_progress(admin, "dr").values())


def change(here: OdradekProcess, effects: Sequence[Effect], source: OdradekProcess | None) -> float:
    """Does a change. Returns the seconds that it took."""
    with ExitStack() as stack:
        admin = stack.enter_context(closing(admin_of(here.bootstrap)))
        there = stack.enter_context(closing(admin_of(source.bootstrap))) if source is not None else None
        link = mirrors.shown_link("dr", mirrors.read_links(admin)["dr"])
        names = mirrors.mirrored_topics(admin, "dr")
        began = time.monotonic()
        MirrorChange(admin, there, link, names, _DEADLINE_S, print).run(effects)
        return time.monotonic() - began


class Client:
    """Writes to both sides in turn: the one that is read-only refuses. Keeps the times of acknowledgements."""

    def __init__(self, source: str, mirror: str) -> None:
        settings = {"linger.ms": 5, "acks": "all", "message.timeout.ms": 5000}
        self._producers = {
            name: Producer(settings | {"bootstrap.servers": address})
            for name, address in (("source", source), ("mirror", mirror))
        }
        self.acknowledged: dict[str, list[float]] = {"source": [], "mirror": []}
        self._side = "source"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            for _ in range(20):
                topic, partition = f"load-{number % _TOPICS_OF_LOAD}", number % _PARTITIONS
                self._producers[self._side].produce(
                    topic, _RECORD, partition=partition, on_delivery=self._delivered(self._side)
                )
                number += 1
            for producer in self._producers.values():
                producer.poll(0)
            time.sleep(0.01)
        for producer in self._producers.values():
            producer.flush(10)

    def _delivered(self, side: str) -> Callable[[object, Message], None]:
        def delivered(error: object, message: Message) -> None:
            if error is None:
                self.acknowledged[side].append(time.monotonic())
            else:
                self._side = "mirror" if side == "source" else "source"

        return delivered

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def measure_switch(folder: Path) -> float:
    """The silence of a client in seconds."""
    with pair(folder) as (source, here):
        follow(source, here, _TOPICS_OF_LOAD, _PARTITIONS)
        client = Client(source.bootstrap, here.bootstrap)
        eventually(lambda: len(client.acknowledged["source"]) > 5000, what="the load", deadline_s=_DEADLINE_S)
        began = time.monotonic()
        change(here, SWITCH, source)
        eventually(lambda: len(client.acknowledged["mirror"]) > 500, what="the mirror's load", deadline_s=_DEADLINE_S)
        client.stop()
        acknowledged = sum(map(len, client.acknowledged.values()))
        with closing(admin_of(here.bootstrap)) as admin:
            held = _records(admin)
        assert held == acknowledged, f"{acknowledged} records were acknowledged, the mirror has {held}"
        times = sorted(one for side in client.acknowledged.values() for one in side if one > began - 0.1)
        return max(after - before for before, after in pairwise(times))


def _records(admin: Admin) -> int:
    from odradek.admin.log_offsets import list_offsets
    from odradek.protocol.log_places import LATEST

    places = [(f"load-{number}", index) for number in range(_TOPICS_OF_LOAD) for index in range(_PARTITIONS)]
    return sum(one.offset for one in list_offsets(admin, dict.fromkeys(places, LATEST)).values())


def measure_fail_over(folder: Path, partitions: int) -> float:
    """Seconds until all partitions are writable."""
    with pair(folder) as (source, here):
        follow(source, here, partitions // 50, 50)
        source.kill()
        return change(here, FAIL_OVER, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            print(f"planned switch: {measure_switch(Path(folder)):.2f} s of silence", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            took = measure_fail_over(Path(folder), arguments.partitions)
            print(f"fail-over of {arguments.partitions} partitions: {took:.2f} s", flush=True)


if __name__ == "__main__":
    main()
