"""The two ways to mirror a source: MirrorMaker 2 into Apache Kafka, and a link of Odradek.

Each is a target broker and what mirrors into it. Its cost is that of both: CPU and memory of the broker's process and, for
MirrorMaker 2, of its own. It runs with the flags of its start script, and its default settings but for replication factors
of one node, names of topics as at the source, a task for each core, offsets of groups, and a short interval for new topics.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Protocol

from odradek.admin import mirrors

from compat_tests.broker_process import BrokerProcess
from compat_tests.ecosystem.running import Running, java
from compat_tests.java.fetch import ORACLE
from compat_tests.mirror.mirrored_logs import admin_of

from ..brokers import ODRADEK_NAME, MeasuredKafka, MeasuredOdradek, peak_memory_mb

MIRROR_MAKER_NAME = f"MirrorMaker {ORACLE}"
#: Flags of connect-mirror-maker.sh, beside those of all of Kafka's scripts.
_HEAP = ("-Xms256M", "-Xmx2G")
SCRIPT_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
_CONFIG = """
clusters=source,target
source.bootstrap.servers={source}
target.bootstrap.servers={target}
source->target.enabled=true
target->source.enabled=false
topics={topics}
groups=.*
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
tasks.max={tasks}
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
refresh.topics.interval.seconds=5
sync.group.offsets.enabled=true
"""


class Target(Protocol):
    """A target broker, running, with what mirrors into it."""

    name: str
    broker: BrokerProcess

    def mirror(self, source: str, topics: str) -> None:
        """Begins to mirror the topics that match a pattern. An earlier mirror ends."""

    def pids(self) -> list[int]:
        """The processes whose cost counts."""


class MirrorMakerTarget:
    """An Apache Kafka and a process of MirrorMaker 2."""

    name = MIRROR_MAKER_NAME

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.broker = stack.enter_context(MeasuredKafka(folder / "broker"))
        self._folder = folder
        self._stack = stack
        self._running: Running | None = None

    def mirror(self, source: str, topics: str) -> None:
        if self._running is not None:
            self._running.stop()
        config = self._folder / "mirror.properties"
        config.write_text(
            _CONFIG.format(source=source, target=self.broker.bootstrap, topics=topics, tasks=os.cpu_count())
        )
        command = java("mirror_maker", "org.apache.kafka.connect.mirror.MirrorMaker", str(config))
        flags = command.index("-cp")
        command[1:flags] = [*_HEAP, *SCRIPT_JVM]
        self._running = self._stack.enter_context(Running(command, self._folder / "mirror.log"))

    def pids(self) -> list[int]:
        own = [self._running.process.pid] if self._running is not None else []
        return [self.broker.pid, *own]


class OdradekTarget:
    """An Odradek with a link. `link`: further properties of it."""

    name = ODRADEK_NAME

    def __init__(self, folder: Path, stack: ExitStack, link: Mapping[str, str]) -> None:
        self.broker = stack.enter_context(MeasuredOdradek(folder / "broker"))
        self._link = link
        self._links: list[str] = []

    def mirror(self, source: str, topics: str) -> None:
        with closing(admin_of(self.broker.bootstrap)) as admin:
            for link in self._links:
                mirrors.set_state(admin, link, mirrors.LinkState.PAUSED, dry_run=False)
            self._links.append(f"link-{len(self._links)}")
            properties = {"bootstrap.servers": source, "topics": topics, "groups": ".*", **self._link}
            mirrors.create_link(admin, self._links[-1], properties, dry_run=False)

    def pids(self) -> list[int]:
        return [self.broker.pid]


@contextmanager
def running(name: str, folder: Path, link: Mapping[str, str]) -> Iterator[Target]:
    """A target of its kind, from its start to its end, when its files are deleted. `link`: properties of Odradek's."""
    folder.mkdir()
    try:
        with ExitStack() as stack:
            is_odradek = name == ODRADEK_NAME
            yield OdradekTarget(folder, stack, link) if is_odradek else MirrorMakerTarget(folder, stack)
    finally:
        shutil.rmtree(folder)


def peak_mb(target: Target) -> float:
    """The sum of the peaks of the processes."""
    return sum(peak_memory_mb(pid) for pid in target.pids())
