"""`odradek tier`: the segments of topics in the remote store, by the metadata of a running cluster.

- `RemoteMetadata`: that metadata, read from `__remote_log_metadata`.
- The commands list what topics have in the store, check the store and repair it.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from uuid import UUID

import typer

from ..protocol.uuids import uuid_to_text
from ..tiers.cache import RemoteLogMetadataCache
from ..tiers.events import DamagedMetadata, decode_event
from ..tiers.metadata_topic import MetadataPartition
from ..tiers.segment_metadata import COPY_SEGMENT_FINISHED, METADATA_TOPIC, RemoteLogSegmentMetadata, TopicIdPartition
from ..tiers.store import (
    InvalidStore,
    RemoteStorageError,
    RemoteStore,
    StoredObject,
    StoreReport,
    check_store,
    copied_segments,
    make_store,
)
from .client.admin import EARLIEST, EARLIEST_LOCAL, LATEST, described_topics, offsets_at
from .client.connection import Connection
from .client.errors import UNREACHABLE, CommandError, Misused, from_library
from .client.options import DryRun, Output, Yes, client_command, complete_topic, new_app
from .client.properties import STORE_CLASS, read_client_properties, store_settings
from .options import FAILED, warn
from .output import Table

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from .client.admin import AdminClient, Topic

# ---- metadata

#: Records of one call of the consumer.
_AT_ONCE = 500
_POLL_S = 0.5


class RemoteMetadata:
    """All events so far, as caches by partition. `read` continues where the last one ended."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._partitions: dict[int, MetadataPartition] = {}
        self._next_offsets: dict[int, int] = {}

    def read(self) -> None:
        """Reads the topic up to its present end; a cluster without the topic has no events. Raises CommandError."""
        from confluent_kafka import Consumer, KafkaException

        settings = {"group.id": "odradek-tier", "enable.auto.commit": False, "enable.partition.eof": False}
        consumer = Consumer({**self._connection.librdkafka(), **settings})
        try:
            self._read(consumer)
        except KafkaException as error:
            raise from_library(error) or error from None
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> None:
        from confluent_kafka import TopicPartition

        timeout_s = self._connection.timeout_s
        topic = consumer.list_topics(METADATA_TOPIC, timeout=timeout_s).topics[METADATA_TOPIC]
        ends: dict[int, int] = {}
        for number in topic.partitions:
            start, end = consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, number), timeout=timeout_s)
            ends[number] = end
            self._next_offsets[number] = max(start, self._next_offsets.get(number, 0))
        unread = {number for number, end in ends.items() if self._next_offsets[number] < end}
        consumer.assign([TopicPartition(METADATA_TOPIC, number, self._next_offsets[number]) for number in unread])
        deadline = time.monotonic() + timeout_s
        while unread:
            for message in consumer.consume(_AT_ONCE, _POLL_S):
                error, number, offset = message.error(), message.partition(), message.offset()
                if error is not None or number is None or offset is None:
                    raise CommandError(f"{METADATA_TOPIC}: {error}", UNREACHABLE)
                self._consume(number, offset, message.value(), ends[number])
                self._next_offsets[number] = offset + 1
                deadline = time.monotonic() + timeout_s
            # The last offsets of a partition may be control records, which no consumer gets.
            for one in consumer.position([TopicPartition(METADATA_TOPIC, number) for number in unread]):
                if one.offset >= ends[one.partition]:
                    unread.discard(one.partition)
            if unread and time.monotonic() > deadline:
                raise CommandError(f"{METADATA_TOPIC}: no record came for {timeout_s:g} s", UNREACHABLE)

    def _consume(self, number: int, offset: int, value: bytes | None, end: int) -> None:
        state = self._partitions.setdefault(number, MetadataPartition(number))
        try:
            partition = decode_event(value or b"").partition
        except DamagedMetadata:
            pass  # counted by `consume`
        else:
            state.follow(partition, end)
        state.consume(offset, value)

    def caches(self, *, with_doubtful: bool = True) -> dict[TopicIdPartition, RemoteLogMetadataCache]:
        return {
            partition: followed.cache
            for state in self._partitions.values()
            if with_doubtful or not state.is_doubtful
            for partition, followed in state.followed.items()
        }

    def damaged(self) -> list[str]:
        """Returns a line for each record that cannot be read."""
        return [
            f"{METADATA_TOPIC}-{state.number}: the record at offset {one.offset} cannot be read: {one.reason}"
            for state in self._partitions.values()
            for one in state.damaged
        ]


# ---- commands

app = new_app("Show what topics have in the remote store, and check and repair the store.")

Config = Annotated[
    Path,
    typer.Option(
        "--config", metavar="FILE", help="a broker's server.properties, which names the store and has its settings"
    ),
]


class Row(NamedTuple):
    """A partition. `stored_to` is the offset after the last one in the store; None where nothing is there."""

    topic: str
    partition: int
    start: int | None
    local_start: int | None
    stored_to: int | None
    end: int | None
    not_stored: int | None
    segments: int
    bytes: int
    unfinished: int


@app.command("list")
@client_command
def list_partitions(
    connection: Connection,
    output: Output,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", autocompletion=complete_topic)] = None,
) -> None:
    """List tiered partitions: where each begins and ends, on the disk and in the store, and how much is not stored yet."""
    metadata = RemoteMetadata(connection)
    metadata.read()
    with connection.admin() as admin:
        found = list(_rows(admin, metadata, topics or None))
    output.show(
        [one._asdict() for one in found],
        Table("", [name.upper().replace("_", " ") for name in Row._fields], found),
    )
    _warn_of_damage(metadata)


def _rows(admin: AdminClient, metadata: RemoteMetadata, names: list[str] | None) -> Iterator[Row]:
    caches = metadata.caches()
    topics = {one["name"]: one for one in described_topics(admin, names)}
    tiered = [one for one in caches if one.topic in topics and _id_of(topics[one.topic]) == one.topic_id]
    places = [
        (name, partition["partition_index"])
        for name in sorted(set(names or ()) | {one.topic for one in tiered})
        for partition in topics[name]["partitions"]
        if partition["leader_id"] >= 0
    ]
    starts, local_starts, ends = (dict(offsets_at(admin, places, at)) for at in (EARLIEST, EARLIEST_LOCAL, LATEST))
    of_place = {(one.topic, one.partition): caches[one] for one in tiered}
    for place in sorted({*places, *of_place}):
        segments = of_place[place].segments() if place in of_place else []
        copied = [one for one in segments if one.state is COPY_SEGMENT_FINISHED]
        stored_to = max((one.end_offset + 1 for one in copied), default=None)
        end = ends.get(place)
        yield Row(
            *place,
            start=starts.get(place),
            local_start=local_starts.get(place),
            stored_to=stored_to,
            end=end,
            not_stored=None if end is None else max(0, end - (stored_to or starts.get(place) or 0)),
            segments=len(copied),
            bytes=sum(one.size_bytes for one in copied),
            unfinished=len(segments) - len(copied),
        )


def _id_of(topic: Topic) -> bytes:
    return UUID(str(topic["topic_id"])).bytes


class Finding(NamedTuple):
    """`kind` is orphan, missing, size or deleted topic; sizes in bytes."""

    kind: str
    partition: str
    offset: int
    segment: str
    part: str
    size: int | None
    expected: int | None


@app.command()
@client_command
def check(connection: Connection, output: Output, config: Config) -> None:
    """Check the store against the metadata: objects that no segment has, missing parts, and wrong sizes. Exit status 1 if
    something is found.
    """
    with _store(config) as store:
        metadata = RemoteMetadata(connection)
        found = _checked(connection, metadata, store)
    findings = list(_findings(found))
    output.show(
        [one._asdict() for one in findings],
        Table("", [name.upper() for name in Finding._fields], findings),
    )
    _summarize(found)
    _warn_of_damage(metadata)
    if findings or metadata.damaged():
        raise typer.Exit(FAILED)


@app.command()
@client_command
def repair(connection: Connection, output: Output, config: Config, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete objects of the store that no segment has, and those of deleted topics. Missing parts cannot be repaired."""
    with _store(config) as store:
        found = _checked(connection, RemoteMetadata(connection), store)
        doomed = _segments_of(found.report.orphans) | {one.segment_id: one for one in found.abandoned}
        if doomed and not dry_run and not yes and sys.stdin.isatty():
            typer.confirm(f"Delete the objects of {len(doomed)} segments from the store?", abort=True, err=True)
        for one in doomed.values() if not dry_run else ():
            try:
                store.delete_log_segment_data(one)
            except RemoteStorageError as error:
                raise CommandError(f"{one.partition}: {error}") from None
    names = [f"{one.partition} {one.start_offset} {uuid_to_text(one.segment_id)}" for one in doomed.values()]
    output.changed("deleted", names, dry_run=dry_run)
    if found.report.wrong_parts:
        warn(f"{len(found.report.wrong_parts)} parts are missing or have wrong sizes: `odradek tier check` lists them")


# ---- the store and its check


@contextmanager
def _store(config: Path) -> Iterator[RemoteStore]:
    """The store of a broker's configuration. Raises Misused."""
    settings = store_settings(read_client_properties(config))
    if settings is None:
        raise Misused(f"{config} has no {STORE_CLASS}")
    try:
        store = make_store(*settings)
    except InvalidStore as error:
        raise Misused(f"{config}: {error}") from None
    try:
        yield store
    finally:
        store.close()


class Checked(NamedTuple):
    """`abandoned` are segments of topics that do not exist any more."""

    report: StoreReport
    abandoned: list[RemoteLogSegmentMetadata]


def _checked(connection: Connection, metadata: RemoteMetadata, store: RemoteStore) -> Checked:
    """The metadata is read before and after the store is listed, so that copies and deletions in between are no errors."""
    metadata.read()
    copied_before = {one.segment_id for one in copied_segments(metadata.caches().values())}
    try:
        objects = list(store.objects())
    except RemoteStorageError as error:
        raise CommandError(f"the store cannot be listed: {error}") from None
    metadata.read()
    with connection.admin() as admin:
        existing = {_id_of(one) for one in described_topics(admin, None)}
    caches = metadata.caches(with_doubtful=False)
    report = check_store(objects, caches, copied_before)
    stored = {one.segment_id for one in objects}
    abandoned = [
        one
        for partition, cache in caches.items()
        if partition.topic_id not in existing
        for one in cache.segments()
        if one.segment_id in stored
    ]
    wrong = [one for one in report.wrong_parts if one.segment.partition.topic_id in existing]
    return Checked(report._replace(wrong_parts=wrong), abandoned)


def _segments_of(orphans: Iterable[StoredObject]) -> dict[bytes, RemoteLogSegmentMetadata]:
    """Returns by id what a store needs to delete the objects of segments that have no metadata."""
    sizes: dict[tuple[TopicIdPartition, int, bytes], int] = defaultdict(int)
    for one in orphans:
        sizes[one.partition, one.start_offset, one.segment_id] += one.size
    return {
        segment_id: RemoteLogSegmentMetadata(partition, segment_id, offset, offset, -1, -1, -1, size, ((0, offset),))
        for (partition, offset, segment_id), size in sizes.items()
    }


def _findings(found: Checked) -> Iterator[Finding]:
    for one in found.report.orphans:
        yield Finding(
            "orphan", str(one.partition), one.start_offset, uuid_to_text(one.segment_id), one.part.name, one.size, None
        )
    for wrong in found.report.wrong_parts:
        segment = wrong.segment
        yield Finding(
            "missing" if wrong.found is None else "size", str(segment.partition), segment.start_offset,
            uuid_to_text(segment.segment_id), wrong.part.name, wrong.found, wrong.expected,
        )  # fmt: skip
    for gone in found.abandoned:
        yield Finding(
            "deleted topic",
            str(gone.partition),
            gone.start_offset,
            uuid_to_text(gone.segment_id),
            "",
            gone.size_bytes,
            None,
        )


def _summarize(found: Checked) -> None:
    report = found.report
    words = f"{report.checked} objects checked"
    if report.unchecked:
        words += f"; {report.unchecked} are of partitions that this cluster has no metadata of"
    sys.stderr.write(words + "\n")


def _warn_of_damage(metadata: RemoteMetadata) -> None:
    for line in metadata.damaged():
        warn(line)
