"""The check of a remote store against the metadata: objects that no segment has, missing parts, and wrong sizes."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..admin.connection import Connection
from ..admin.topics import described_topics
from ..client.properties import STORE_CLASS, read_client_properties, store_settings
from ..client.user_errors import Misused, UserError
from ..protocol.uuids import uuid_to_text
from ..tiers.named_store import make_store
from ..tiers.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from ..tiers.store import InvalidStore, RemoteStorageError, RemoteStore, StoredObject
from ..tiers.store_check import StoreReport, check_store, copied_segments
from .messages import warn
from .tier_metadata import RemoteMetadata


class TierFinding(NamedTuple):
    """`kind` is orphan, missing, size or deleted topic; sizes in bytes."""

    kind: str
    partition: str
    offset: int
    segment: str
    part: str
    size: int | None
    expected: int | None


@contextmanager
def open_store(config: Path) -> Iterator[RemoteStore]:
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


def checked(connection: Connection, metadata: RemoteMetadata, store: RemoteStore) -> Checked:
    """The metadata is read before and after the store is listed, so that copies and deletions in between are no errors."""
    metadata.read()
    copied_before = {one.segment_id for one in copied_segments(metadata.caches().values())}
    try:
        objects = list(store.objects())
    except RemoteStorageError as error:
        raise UserError(f"the store cannot be listed: {error}") from None
    metadata.read()
    with connection.admin() as admin:
        existing = {one.id_in_requests for one in described_topics(admin, None)}
    caches = metadata.caches()
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


def segments_of(orphans: Iterable[StoredObject]) -> dict[bytes, RemoteLogSegmentMetadata]:
    """Returns by id what a store needs to delete the objects of segments that have no metadata."""
    sizes: dict[tuple[TopicIdPartition, int, bytes], int] = defaultdict(int)
    for one in orphans:
        sizes[one.partition, one.start_offset, one.segment_id] += one.size
    return {
        segment_id: RemoteLogSegmentMetadata(partition, segment_id, offset, offset, -1, -1, -1, size, ((0, offset),))
        for (partition, offset, segment_id), size in sizes.items()
    }


def findings_of(checked: Checked) -> Iterator[TierFinding]:
    for one in checked.report.orphans:
        yield TierFinding(
            "orphan", str(one.partition), one.start_offset, uuid_to_text(one.segment_id), one.part.name, one.size, None
        )
    for wrong in checked.report.wrong_parts:
        segment = wrong.segment
        yield TierFinding(
            "missing" if wrong.found is None else "size", str(segment.partition), segment.start_offset,
            uuid_to_text(segment.segment_id), wrong.part.name, wrong.found, wrong.expected,
        )  # fmt: skip
    for gone in checked.abandoned:
        yield TierFinding(
            "deleted topic",
            str(gone.partition),
            gone.start_offset,
            uuid_to_text(gone.segment_id),
            "",
            gone.size_bytes,
            None,
        )


def summarize(checked: Checked) -> None:
    report = checked.report
    words = f"{report.checked} objects checked"
    if report.unchecked:
        words += f"; {report.unchecked} are of partitions that this cluster has no metadata of"
    sys.stderr.write(words + "\n")


def warn_of_damage(metadata: RemoteMetadata) -> None:
    for line in metadata.damaged():
        warn(line)
