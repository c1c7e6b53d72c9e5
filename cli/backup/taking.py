"""Takes a backup by the Kafka protocol, from any cluster.

The order makes it consistent per partition: offsets of groups are read first, the ends of partitions then, and records up
to these ends last. No group is ahead of its records. Only committed records are read; a partition ends at its last stable
offset.

A backup adds to the one before: records from its end on. A topic that was deleted and created again, and a log that has
become shorter, are read from their start.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from ...admin.configs import own_configs
from ...admin.connection import Connection
from ...admin.group_offsets import committed
from ...admin.groups import list_groups
from ...admin.log_offsets import partition_offsets
from ...admin.nodes import describe_cluster
from ...admin.share_offsets import share_offsets
from ...admin.topics import described_topics
from ...client.error_kinds import ErrorKind
from ...client.groupless import GROUPLESS, of_partitions
from ...client.user_errors import UserError
from ...protocol.log_places import EARLIEST, LATEST
from ...protocol.records.record import Record
from ...tiers.segment_metadata import METADATA_TOPIC
from .chunks import ChunkWriter
from .manifests import Chunk, GroupOffsets, Manifest, Part, Topic, numbers, read_manifest, write_manifest
from .settings import SettingsReader
from .stores import Store

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ...admin.session import Admin
    from ...admin.topics import Topic as TopicDescription
    from ...records.consumed import ConsumedRecord, PolledMessage


#: A partition of which nothing comes for so long has no leader.
_PATIENCE_S = 60.0
_BATCH = 2000


class Taking:
    """One backup. `topics` and `groups`: regular expressions that match whole names. `full`: adds to none before."""

    def __init__(
        self, connection: Connection, store: Store, topics: Iterable[str], groups: Iterable[str], *, full: bool
    ) -> None:
        self._connection = connection
        self._store = store
        self._topics = [re.compile(one) for one in topics]
        self._groups = [re.compile(one) for one in groups]
        self._full = full
        self.warnings: list[str] = []
        self.new_records = 0
        self.new_bytes = 0

    def take(self, progress: Callable[[int], None] = lambda _: None) -> Manifest:
        """Writes the chunks and then the manifest. `progress` gets numbers of records."""
        known = numbers(self._store)
        before = read_manifest(self._store) if known and not self._full else None
        number = known[-1] + 1 if known else 1
        with self._connection.admin() as admin:
            cluster = describe_cluster(admin)
            made = Manifest(number, int(time.time() * 1000), str(cluster.cluster_id))
            if before is not None and before.cluster_id != made.cluster_id:
                raise UserError(
                    f"the backup is of cluster {before.cluster_id}, and this is {made.cluster_id}: "
                    "use a separate place for each cluster"
                )
            self._store.delete(made.data_folder)  # what a backup that was killed has left
            topics = [one for one in described_topics(admin, None) if self._is_wanted(one)]
            names = {one.name for one in topics}
            for pattern in self._topics:
                if not any(pattern.fullmatch(name) for name in names):
                    raise UserError(f"no topic matches {pattern.pattern}", ErrorKind.NOT_FOUND)
            made.groups = list(self._group_offsets(admin, names))
            made.share_groups = list(self._share_group_offsets(admin, names))
            reader = SettingsReader(admin, self._groups)
            made.settings = reader.read(cluster.brokers)
            self.warnings += reader.warnings
            starts = partition_offsets(admin, topics, EARLIEST)
            ends = partition_offsets(admin, topics, LATEST, committed=True)
            made.topics = [self._topic(admin, one, starts, ends) for one in topics]
        self._read(made, before, progress)
        write_manifest(self._store, made)
        return made

    def _is_wanted(self, topic: TopicDescription) -> bool:
        is_internal = topic.is_internal or topic.name == METADATA_TOPIC
        return not is_internal and _matches(self._topics, topic.name)

    def _group_names(self, admin: Admin, *, shares: bool) -> list[str]:
        return sorted(
            str(one.group_id)
            for one in list_groups(admin)
            if (one.kind == "share") == shares and _matches(self._groups, one.group_id)
        )

    def _group_offsets(self, admin: Admin, topics: set[str]) -> Iterator[GroupOffsets]:
        for name in self._group_names(admin, shares=False):
            found = committed(admin, name)
            offsets = [(topic, index, *one) for (topic, index), one in found.items() if topic in topics]
            if offsets:
                yield GroupOffsets(name, offsets)

    def _share_group_offsets(self, admin: Admin, topics: set[str]) -> Iterator[GroupOffsets]:
        for name, found in share_offsets(admin, self._group_names(admin, shares=True)).items():
            offsets = [
                (topic, index, start, "")
                for (topic, index), (start, _) in found.items()
                if topic in topics and start is not None
            ]
            if offsets:
                yield GroupOffsets(name, offsets)

    def _topic(
        self,
        admin: Admin,
        topic: TopicDescription,
        starts: dict[tuple[str, int], int],
        ends: dict[tuple[str, int], int],
    ) -> Topic:
        name = str(topic.name)
        replicas = len(topic.partitions[0].replica_nodes)
        made = Topic(name, str(topic.topic_id or ""), replicas, own_configs(admin, name))
        for partition in topic.partitions:
            index = partition.partition_index
            if (name, index) not in ends:
                raise UserError(f"{name}-{index} has no leader: try again when it has one")
            made.parts.append(Part(index, starts[name, index], ends[name, index]))
        return made

    # ---- records

    def _read(self, manifest: Manifest, before: Manifest | None, progress: Callable[[int], None]) -> None:
        from confluent_kafka import Consumer

        settings = self._connection.librdkafka(
            enable_partition_eof=True,
            isolation_level="read_committed",
            auto_offset_reset="error",
            check_crcs=True,
        )
        consumer = Consumer(settings | GROUPLESS)
        try:
            for topic in manifest.topics:
                old = before.topic(topic.name) if before is not None else None
                for part in topic.parts:
                    kept = self._kept(topic, part, old)
                    begin = max(part.start, _end_of(old, part) if kept is not None else part.start)
                    folder = f"{manifest.data_folder}/{topic.name}/{part.partition}"
                    writer = ChunkWriter(self._store, folder)
                    for record in _records(consumer, topic.name, part.partition, begin, part.end):
                        writer.add(record)
                        progress(1)
                    writer.end()
                    part.chunks = [*(kept or ()), *writer.written]
                    self.new_records += sum(chunk.records for chunk in writer.written)
                    self.new_bytes += sum(chunk.bytes for chunk in writer.written)
        finally:
            consumer.close()

    def _kept(self, topic: Topic, part: Part, old: Topic | None) -> list[Chunk] | None:
        """Chunks of the backup before that hold for this one; None where the partition is read from its start."""
        if old is None:
            return None
        if old.id != topic.id:
            self._warn_once(f"topic {topic.name} was created again: it is read from its start")
            return None
        end = _end_of(old, part)
        if end > part.end:
            self.warnings.append(
                f"{topic.name}-{part.partition} ends at {part.end}, before the end of the last backup, {end}: records were "
                "lost; it is read from its start"
            )
            return None
        found = next((one for one in old.parts if one.partition == part.partition), None)
        return [] if found is None else [chunk for chunk in found.chunks if chunk.last >= part.start]

    def _warn_once(self, words: str) -> None:
        if words not in self.warnings:
            self.warnings.append(words)


def _end_of(old: Topic | None, part: Part) -> int:
    return next((one.end for one in old.parts if one.partition == part.partition), part.start) if old else part.start


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return not patterns or any(pattern.fullmatch(name) for pattern in patterns)


def _records(consumer: Consumer, topic: str, partition: int, begin: int, end: int) -> Iterator[Record]:
    """The committed records from `begin` up to `end`. Raises UserError."""
    if begin >= end:
        return
    from confluent_kafka import KafkaError, TopicPartition

    consumer.assign([TopicPartition(topic, partition, begin)])
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while True:
            messages = cast("list[PolledMessage]", of_partitions(consumer.consume(_BATCH, 0.5)))
            if messages:
                deadline = time.monotonic() + _PATIENCE_S
            elif time.monotonic() > deadline:
                raise UserError(
                    f"{topic}-{partition}: no records came for {_PATIENCE_S:g} s: is its leader up, and its remote store if "
                    "it is tiered?"
                )
            for message in messages:
                error = message.error()
                if error is None:
                    if message.offset() >= end:
                        return
                    yield _record(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    if message.offset() >= end:
                        return
                else:
                    raise UserError(f"{topic}-{partition}: {error.str()}")
            if messages and messages[-1].error() is None and messages[-1].offset() >= end - 1:
                return
    finally:
        consumer.unassign()


def _record(message: ConsumedRecord) -> Record:
    return Record(
        message.offset(), max(message.timestamp()[1], -1), message.key(), message.value(), list(message.headers() or ())
    )
