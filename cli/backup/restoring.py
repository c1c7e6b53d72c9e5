"""Restores a backup to another cluster, by the Kafka protocol.

- `Fillers`: fills offsets that have no record in the backup, so that the records after them keep their offsets.
- `Sending`: writes records to one partition in their order, each once.
- `check_creation`, `create`, `delete_fillers`: the topics in the target cluster, created with configs under which old
  records can be written.
- `Restoring`: one restore.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ...protocol.messages.producers import InitProducerIdRequest
from ...protocol.messages.transactions import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ...protocol.records.compression_type import Compression
from ...protocol.records.record import Record, encode_batch
from ...tiers.segment_metadata import METADATA_TOPIC
from ..client.admin import (
    LATEST,
    alter_configs,
    api_error,
    ask,
    check,
    described_topics,
    own_configs,
    partition_offsets,
)
from ..client.connection import Connection, request_producer_id
from ..client.errors import CommandError
from ..groups.offsets import commit
from .manifests import GroupOffsets, Manifest, Part, Topic, records
from .settings import SettingsWriter
from .stores import Store

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from ..client.admin import AdminClient, TopicOptions
    from ..client.admin import Topic as TopicDescription


#: Offsets of one request. The batch has 2 KB; a marker has 78 bytes, and a broker writes 100 of them in 20 ms.
_BATCH_RECORDS = 100_000
_MARKERS = 100
_ALL_REPLICAS = -1
_TIMEOUT_MS = 30_000
#: A filler has a key: a compacted topic would take it, too.
_KEY = b"f"
_NO_TIMESTAMP = 0
#: A broker that has just begun asks the controller for producer ids first.
_COORDINATOR_LOAD_IN_PROGRESS = 14
_CLUSTER_AUTHORIZATION_FAILED = 31
_PATIENCE_S, _PAUSE_S = 30.0, 0.1


# ---- fillers


class Fillers:
    """Offsets of one partition, which nothing else writes to. Raises CommandError.

    Fillers are of two kinds:
    - Below the log start: batches of empty records, large and well compressed. DeleteRecords deletes them at the end.
    - After the log start: abort markers of a transaction that holds no record (WriteTxnMarkers). A marker takes one
      offset, and brokers and clients give it to no consumer, whatever its isolation level. Compaction deletes it like
      any marker.

    No request is repeated: the end of the partition tells the next try of a restore how far this one came.
    """

    def __init__(self, admin: AdminClient, topic: str, partition: int) -> None:
        (described,) = described_topics(admin, [topic])
        self._admin = admin
        self._topic = topic
        self._topic_id = UUID(str(described["topic_id"])).bytes
        self._partition = partition
        self._leader = int(described["partitions"][partition]["leader_id"])
        self._producer: tuple[int, int] | None = None

    def fill_below_start(self, count: int) -> None:
        """Writes records that only take offsets."""
        while count > 0:
            size = min(count, _BATCH_RECORDS)
            part = PartitionProduceData(self._partition, _filler_batch(size))
            topic = TopicProduceData(name=self._topic, topic_id=self._topic_id, partition_data=[part])
            request = ProduceRequest(acks=_ALL_REPLICAS, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
            (response,) = ask(self._admin, request, self._leader).responses[0].partition_responses
            check(self._subject, response.error_code, response.error_message)
            count -= size

    def fill_gap(self, count: int) -> None:
        """Writes markers that no consumer gets."""
        while count > 0:
            producer_id, epoch = self._producer_id()
            topic = WritableTxnMarkerTopic(self._topic, [self._partition])
            marker = WritableTxnMarker(producer_id, epoch, False, [topic], 0)
            request = WriteTxnMarkersRequest([marker] * min(count, _MARKERS))
            for response in ask(self._admin, request, self._leader).markers:
                self._check_marker(response.topics[0].partitions[0].error_code)
            count -= min(count, _MARKERS)

    def _check_marker(self, code: int) -> None:
        if code == _CLUSTER_AUTHORIZATION_FAILED:
            hint = "filling gaps needs the operation Alter on the cluster: grant it, or give --renumber"
            raise CommandError(f"{api_error(self._subject, code)}: {hint}")
        check(self._subject, code)

    def _producer_id(self) -> tuple[int, int]:
        """An id that no producer has."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._producer is None:
            response = ask(
                self._admin, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS)
            )
            if response.error_code == _COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
                continue
            check("producer id", response.error_code)
            self._producer = response.producer_id, response.producer_epoch
        return self._producer

    @property
    def _subject(self) -> str:
        return f"{self._topic}-{self._partition}"


@cache
def _filler_batch(count: int) -> bytes:
    records = [Record(offset, _NO_TIMESTAMP, _KEY, None) for offset in range(count)]
    return encode_batch(records, compression=Compression.ZSTD)


_SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 1 << 20,
    "message.max.bytes": 100 << 20,
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": 100_000,
}
_POLL_EVERY = 1000


# ---- records


class Sending:
    """A producer for one partition. Raises CommandError with the first error of a delivery."""

    def __init__(self, connection: Connection, topic: str, partition: int) -> None:
        from confluent_kafka import Producer

        settings = _SETTINGS | connection.librdkafka()
        self._producer = Producer({**settings, "on_delivery": self._delivered})
        request_producer_id(self._producer, settings, topic)
        self._topic = topic
        self._partition = partition
        self._sent = 0
        self._failed: KafkaError | None = None

    def send(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, self._partition,
                    timestamp=max(0, record.timestamp), headers=[*record.headers] or None,
                )  # fmt: skip
                break
            except BufferError:  # the queue is full: the brokers are slower
                self._producer.poll(0.1)
                self._raise_failed()
        self._sent += 1
        if self._sent % _POLL_EVERY == 0:
            self._producer.poll(0)
            self._raise_failed()

    def flush(self) -> None:
        """Waits until everything is written."""
        while self._producer.flush(1.0):
            self._raise_failed()
        self._raise_failed()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _raise_failed(self) -> None:
        if self._failed is not None:
            raise CommandError(f"{self._topic}-{self._partition}: {self._failed.str()}")


# ---- the restore
#
# Offsets are kept: the restore fills those that have no record. Where that is too much, or where the user wants no
# fillers between records, the records of a partition get the offsets 0, 1, 2 and so on. In both cases the offset of a
# group is that of the first record that it has not read.
#
# A restore that was killed is completed by the same command. A journal in the store, written before the first topic
# is created, lists the topics of the target that are the restore's own. How far a partition is follows from its end.

#: Offsets that are filled below the log start: 5,000,000 a second, with 20 bytes for 1000.
MOST_BELOW_START = 1_000_000_000
#: Offsets of gaps, each filled by a marker: 6000 a second, with 78 bytes for each.
MOST_IN_GAPS = 1_000_000
#: Topics that an error names; it counts the others.
MOST_NAMED = 5
_WITHOUT_MEMBERS = ("Empty", "Dead")
_WITHOUT_GROUPS = "restore no offsets with --no-groups"


@dataclass(slots=True)
class Restored:
    """A partition as it was restored."""

    topic: str
    partition: int
    records: int
    kept: bool


class Restoring:
    """One restore. `topics`: regular expressions that match whole names."""

    def __init__(
        self,
        connection: Connection,
        store: Store,
        manifest: Manifest,
        topics: Iterable[str],
        *,
        replication_factor: int | None,
        with_groups: bool,
        with_settings: bool,
        renumber: bool,
    ) -> None:
        self._connection = connection
        self._store = store
        self._manifest = manifest
        patterns = [re.compile(one) for one in topics]
        # Backups of older versions have it. Its events are of the store of the cluster that wrote them: another cluster with
        # the same store would take that cluster's segments for those of deleted topics.
        matching = [one for one in manifest.topics if not patterns or any(it.fullmatch(one.name) for it in patterns)]
        self.topics = [one for one in matching if one.name != METADATA_TOPIC]
        self._replication_factor = replication_factor
        self._with_groups = with_groups
        self._with_settings = with_settings
        self._renumber = renumber
        self.warnings: list[str] = []
        if len(self.topics) != len(matching):
            self.warnings.append(
                f"{METADATA_TOPIC} is not restored: its records are of the other cluster's remote store"
            )
        #: (topic, partition) -> offset of a group in the backup -> its offset in the target.
        self._mapped: dict[tuple[str, int], dict[int, int]] = {}

    def restore(self, progress: Callable[[int], None] = lambda _: None) -> list[Restored]:
        """Restores the topics. Raises CommandError; the next try continues where this one stopped."""
        with self._connection.admin() as admin:
            cluster = admin.describe_cluster()
            brokers = len(cluster["brokers"])
            journal = f"restores/{cluster['cluster_id']}-{self._manifest.number:010}.json"
            writer = SettingsWriter(admin, self._manifest.settings)
            self._check(admin, writer, self._own_topics(journal), brokers)
            self._begin_journal(journal)
            for topic in self.topics:
                create(admin, topic, self._replicas(topic, brokers))
            done = [self._partition(admin, topic, part, progress) for topic in self.topics for part in topic.parts]
            for topic in self.topics:
                delete_fillers(self._connection, topic, [part for part in topic.parts if self.keeps_offsets(part)])
                self._configure(admin, topic)
            if self._with_settings:
                writer.write()
                self.warnings += writer.warnings
            if self._with_groups:
                self._commit(admin)
        return done

    def check(self) -> None:
        """Raises CommandError for what would end the restore, before anything is written."""
        with self._connection.admin() as admin:
            cluster = admin.describe_cluster()
            journal = f"restores/{cluster['cluster_id']}-{self._manifest.number:010}.json"
            writer = SettingsWriter(admin, self._manifest.settings)
            self._check(admin, writer, self._own_topics(journal), len(cluster["brokers"]))

    def _check(self, admin: AdminClient, writer: SettingsWriter, own: set[str], brokers: int) -> None:
        there = {str(topic["name"]) for topic in described_topics(admin, None)}
        foreign = sorted(there & {topic.name for topic in self.topics} - own)
        if foreign:
            named = ", ".join(foreign[:MOST_NAMED])
            more = f" and {len(foreign) - MOST_NAMED} more" if len(foreign) > MOST_NAMED else ""
            raise CommandError(
                f"the target has {len(foreign)} of the topics already: {named}{more}; delete them, or choose others with "
                "--topic"
            )
        for topic in self.topics:
            if topic.name not in there:
                check_creation(admin, topic, self._replicas(topic, brokers))
        if self._with_groups:
            self._check_groups(admin)
        if self._with_settings:
            writer.check()

    def _check_groups(self, admin: AdminClient) -> None:
        """Raises CommandError for a group that has members, or is of another kind in the target."""
        restored = {topic.name for topic in self.topics}
        wanted = {
            group.group: is_share
            for groups, is_share in ((self._manifest.groups, False), (self._manifest.share_groups, True))
            for group in groups
            if any(topic in restored for topic, *_ in group.offsets)
        }
        for one in admin.list_groups():
            is_share = wanted.get(one["group_id"])
            if is_share is None:
                continue
            if (str(one.get("group_type") or "").lower() == "share") != is_share:
                raise CommandError(f"group {one['group_id']} is of another kind in the target: {_WITHOUT_GROUPS}")
            if (one.get("group_state") or "Empty") not in _WITHOUT_MEMBERS:
                raise CommandError(f"group {one['group_id']} has members: stop them first, or {_WITHOUT_GROUPS}")

    def _replicas(self, topic: Topic, brokers: int) -> int:
        return min(self._replication_factor or topic.replication_factor, brokers)

    def _own_topics(self, journal: str) -> set[str]:
        """The topics of the target that an earlier try has created."""
        if journal not in self._store.names("restores"):
            return set()
        return set(json.loads(self._store.read(journal))["topics"])

    def _begin_journal(self, name: str) -> None:
        names = self._own_topics(name) | {topic.name for topic in self.topics}
        self._store.write(name, json.dumps({"topics": sorted(names)}).encode())

    # ---- records

    def _partition(self, admin: AdminClient, topic: Topic, part: Part, progress: Callable[[int], None]) -> Restored:
        where = (topic.name, part.partition)
        described = description(admin, topic)
        end = partition_offsets(admin, described, LATEST).get(where)
        if end is None:
            raise CommandError(f"{topic.name}-{part.partition} has no leader: try again when it has one")
        kept = self.keeps_offsets(part)
        sending = Sending(self._connection, topic.name, part.partition)
        if kept:
            total = part.end
            self._map_kept(where, part)
            self._write_kept(sending, Fillers(admin, topic.name, part.partition), part, end, progress)
        else:
            total = part.records
            for position, record in self._numbered(where, part):
                if position >= end:
                    sending.send(record)
                    progress(1)
            sending.flush()
        now = partition_offsets(admin, described, LATEST)[where]
        if now != total:
            raise CommandError(
                f"{topic.name}-{part.partition} ends at {now}, but the restore wrote up to {total}: another client writes "
                "to it; delete the topic and restore it again"
            )
        return Restored(topic.name, part.partition, part.records, kept)

    def keeps_offsets(self, part: Part) -> bool:
        if part.gaps and (self._renumber or part.gaps > MOST_IN_GAPS):
            return False
        return part.base <= MOST_BELOW_START

    def _write_kept(
        self, sending: Sending, fillers: Fillers, part: Part, position: int, progress: Callable[[int], None]
    ) -> None:
        """Writes the records at their own offsets; `position` is the end of the partition in the target."""
        fillers.fill_below_start(part.base - position)
        position = max(position, part.base)
        for record in records(self._store, part):
            if record.offset < position:
                continue
            if record.offset > position:
                sending.flush()
                fillers.fill_gap(record.offset - position)
            sending.send(record)
            progress(1)
            position = record.offset + 1
        sending.flush()
        fillers.fill_gap(part.end - position)

    def _wanted_offsets(self, where: tuple[str, int]) -> list[int]:
        """Offsets of groups in the backup, in order."""
        return sorted(
            {
                offset
                for group in (*self._manifest.groups, *self._manifest.share_groups)
                for topic, index, offset, _ in group.offsets
                if (topic, index) == where
            }
        )

    def _map_kept(self, where: tuple[str, int], part: Part) -> None:
        self._mapped[where] = {offset: min(offset, part.end) for offset in self._wanted_offsets(where)}

    def _numbered(self, where: tuple[str, int], part: Part) -> Iterator[tuple[int, Record]]:
        """Records with their offsets in the target. Notes where the offsets of groups are."""
        wanted = self._wanted_offsets(where)
        mapped = self._mapped[where] = {}
        position = 0
        for record in records(self._store, part):
            while wanted and wanted[0] <= record.offset:
                mapped[wanted.pop(0)] = position
            yield position, record
            position += 1
        mapped.update(dict.fromkeys(wanted, position))

    # ---- configs and groups

    def _configure(self, admin: AdminClient, topic: Topic) -> None:
        """The configs of the backup, in place of those that let old records be written."""
        there = own_configs(admin, topic.name)
        changes: dict[str, tuple[str, str | None]] = {key: ("SET", value) for key, value in topic.configs.items()}
        changes |= {
            key: ("DELETE", None) for key in there if key in restore_configs(topic) and key not in topic.configs
        }
        if changes:
            alter_configs(admin, "topic", topic.name, changes, dry_run=False)

    def _commit(self, admin: AdminClient) -> None:
        for group in self._manifest.groups:
            metadata = {(topic, index): text for topic, index, _, text in group.offsets}
            offsets = self._mapped_offsets(group)
            if offsets:
                commit(admin, group.group, offsets, metadata=metadata)
        for group in self._manifest.share_groups:
            offsets = self._mapped_offsets(group)
            if offsets:
                commit(admin, group.group, offsets, shares=True)

    def _mapped_offsets(self, group: GroupOffsets) -> dict[tuple[str, int], int]:
        """Offsets in the topics that are restored."""
        return {
            (topic, index): self._mapped[topic, index][offset]
            for topic, index, offset, _ in group.offsets
            if (topic, index) in self._mapped
        }


_LAST = str((1 << 63) - 1)


# ---- topics of the target

#: Nothing is deleted, compacted or refused for its age while records are written; the backup's configs come at the end.
_RESTORE_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LAST,
    "message.timestamp.after.max.ms": _LAST,
    "max.message.bytes": str(100 << 20),
    "compression.type": "producer",
}
_TIERED = ("remote.storage.enable", "local.retention.ms", "local.retention.bytes", "segment.bytes", "segment.ms")
_FROM_RETENTION = "-2"
_TOPIC_PATIENCE_S = 60.0
_POLL_S = 0.1


def restore_configs(topic: Topic) -> dict[str, str]:
    """The configs of a topic while its records are written. A tiered one is tiered from its creation on: the disks may not
    have room for all of it.
    """
    own = topic.configs
    if own.get("remote.storage.enable") != "true":
        return {**_RESTORE_CONFIGS}
    tiered = {key: own[key] for key in _TIERED if key in own}
    for unit in ("ms", "bytes"):
        total = own.get(f"retention.{unit}")
        if total is not None and own.get(f"local.retention.{unit}", _FROM_RETENTION) == _FROM_RETENTION:
            tiered[f"local.retention.{unit}"] = total
    return _RESTORE_CONFIGS | tiered


def check_creation(admin: AdminClient, topic: Topic, replication_factor: int) -> None:
    """Raises CommandError for a topic that the controller would not create, with its configs during a restore and after."""
    for configs in (restore_configs(topic), topic.configs):
        options: TopicOptions = {
            "num_partitions": len(topic.parts),
            "replication_factor": replication_factor,
            "configs": {**configs},
        }
        response = admin.create_topics({topic.name: options}, validate_only=True, raise_errors=False)
        for one in response["topics"]:
            check(f"topic {topic.name}", one["error_code"], one["error_message"])


def create(admin: AdminClient, topic: Topic, replication_factor: int) -> None:
    """Creates the topic where it is not there, and waits until its partitions have leaders. Raises CommandError.

    The controller decides whether the topic exists: a broker may still show one that was deleted a moment ago.
    """
    from kafka.admin import NewTopic
    from kafka.errors import TopicAlreadyExistsError

    new = NewTopic(topic.name, len(topic.parts), replication_factor, topic_configs=restore_configs(topic))
    with contextlib.suppress(TopicAlreadyExistsError):
        admin.create_topics([new])
    deadline = time.monotonic() + _TOPIC_PATIENCE_S
    while not _is_led(admin, topic):
        _wait(deadline, f"topic {topic.name} has partitions without a leader after {_TOPIC_PATIENCE_S:g} s")


def description(admin: AdminClient, topic: Topic) -> list[TopicDescription]:
    """Describes a topic that was created: a broker may learn of it after others. Raises CommandError."""
    deadline = time.monotonic() + _TOPIC_PATIENCE_S
    while not (found := [one for one in admin.describe_topics([topic.name]) if not one["error_code"]]):
        _wait(deadline, f"a broker does not show the topic {topic.name} after {_TOPIC_PATIENCE_S:g} s")
    return found


def _wait(deadline: float, failure: str) -> None:
    """Waits for the next look. Raises CommandError after the deadline."""
    if time.monotonic() > deadline:
        raise CommandError(failure)
    time.sleep(_POLL_S)


def _is_led(admin: AdminClient, topic: Topic) -> bool:
    """Whether the leaders of all partitions respond: a leader may learn of a new partition after other brokers."""
    from kafka.errors import KafkaError

    found = [one for one in admin.describe_topics([topic.name]) if not one["error_code"]]
    partitions = found[0]["partitions"] if found else []
    if len(partitions) != len(topic.parts) or any(one["leader_id"] < 0 for one in partitions):
        return False
    try:
        return len(partition_offsets(admin, found, LATEST)) == len(partitions)
    except KafkaError as error:
        if error.retriable:
            return False
        raise


def delete_fillers(connection: Connection, topic: Topic, parts: Iterable[Part]) -> None:
    """Moves the start of the logs to where it was."""
    wanted = {part.partition: part.start if part.chunks else part.end for part in parts}
    starts = {index: start for index, start in wanted.items() if start > 0}
    if not starts:
        return
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(connection.librdkafka())
    asked = [TopicPartition(topic.name, index, start) for index, start in starts.items()]
    for where, future in admin.delete_records(asked, request_timeout=connection.timeout_s).items():
        try:
            future.result()
        except Exception as error:
            raise CommandError(f"{where.topic}-{where.partition}: {error}") from None
