"""The owners of the directories on the disk, and the findings when their logs were opened.

A directory is another topic's only when its `partition.metadata` can be read and has another topic id. A file that
cannot be read is written again: the cluster's metadata has the id of the topic with a replica of this name here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...protocol.uuids import uuid_to_text
from ...storage.directory import STRAY_SUFFIX, replica_directory_name
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.partition_metadata import (
    PARTITION_METADATA,
    CorruptPartitionMetadata,
    encode_partition_metadata,
    is_damaged_copy,
    read_topic_id,
    write_topic_id,
)
from ...storage.files.writes import read_if_exists, set_aside

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage, TopicPartition
    from ...storage.directory import LogDirectory, ReplicaDirectory
    from ...storage.files.clean_replicas import CleanReplica
    from ...storage.log.log import Log
    from ...storage.log.unopened import UnopenedLog

log = logging.getLogger("odradek.partitions")

#: Damaged ranges of one log that a start names; the metrics count the others.
MOST_NAMED_RANGES = 10


def is_ours(
    directory: LogDirectory,
    replica: ReplicaDirectory,
    image: MetadataImage,
    node_id: int,
    noted: CleanReplica | None = None,
) -> bool:
    """Returns whether a directory holds a replica that this broker has. Raises LogDirectoryFailure.

    `noted`: what the last shutdown has noted of it.
    """
    topic = image.topic(replica.topic)
    registration = topic.partitions.get(replica.partition) if topic is not None else None
    if topic is None or registration is None or node_id not in registration.replicas:
        return False
    if noted is not None and noted.topic_id == topic.id:
        return True
    try:
        return _has_topic_id(replica.path, topic.id)
    except OSError as error:
        raise LogDirectoryFailure(directory.path, f"reading {replica.path}/{PARTITION_METADATA}", error) from error


def _has_topic_id(path: str, topic_id: bytes) -> bool:
    name = f"{path}/{PARTITION_METADATA}"
    try:
        if read_if_exists(name) == encode_partition_metadata(topic_id):
            return True
        found = read_topic_id(path)
        if found is not None and not is_damaged_copy(found, topic_id):
            return found == topic_id
        reason = "missing or empty" if found is None else f"has the topic id {uuid_to_text(found)}"
    except CorruptPartitionMetadata as error:
        reason = str(error)
    except IsADirectoryError:
        reason = f"a directory, renamed to {set_aside(name)}"
    log.warning("%s: %s; rewritten with the topic id %s", name, reason, uuid_to_text(topic_id))
    write_topic_id(path, topic_id)
    return True


def gone_replicas(
    directory: LogDirectory, replicas: Iterable[ReplicaDirectory], image: MetadataImage, node_id: int
) -> list[TopicPartition]:
    """Returns the replicas that have records by the checkpoints, belong here by the metadata, and are not on the disk."""
    there = {(replica.topic, replica.partition) for replica in replicas}
    gone = []
    for key, offset in directory.checkpoints.high_watermarks.items():
        if key in there:
            continue
        topic = image.topic(key[0])
        registration = topic.partitions.get(key[1]) if topic is not None else None
        if (
            offset
            and registration is not None
            and node_id in registration.replicas
            and registration.directory(node_id) == directory.directory_id
        ):
            log.error("%s/%s-%d is missing: its records up to offset %d are lost", directory.path, *key, offset)
            gone.append(key)
    return gone


def rename_stray(directory: LogDirectory, replica: ReplicaDirectory) -> None:
    """Renames a directory that is not this broker's, so that nothing reads it. Raises LogDirectoryFailure."""
    stray = f"{directory.path}/{replica_directory_name(replica.topic, replica.partition, STRAY_SUFFIX)}"
    log.warning("%s is no longer assigned to this broker: renamed to %s", replica.path, stray)
    try:
        os.rename(replica.path, stray)  # noqa: PTH104
    except OSError as error:
        raise LogDirectoryFailure(directory.path, f"renaming {replica.path}", error) from error


def report_opening(opened: Log | UnopenedLog) -> None:
    """Logs what was rebuilt, cut and found damaged, and saves the damaged ranges in the partition's directory."""
    for note in opened.opening_notes:
        log.warning(note)
    if opened.recovered_bytes:
        log.warning("%s: %d bytes after the last complete batch were cut off", opened.path, opened.recovered_bytes)
    name = f"{opened.topic}-{opened.partition}"
    for number, one in enumerate(opened.damage):
        if number == MOST_NAMED_RANGES:
            log.error("%s: %d more damaged ranges", name, len(opened.damage) - MOST_NAMED_RANGES)
            break
        log.error(
            "%s is damaged: offsets %d to %d cannot be read: %s/%s, %d bytes at position %d: %s",
            name, one.first_offset, one.next_offset - 1, opened.path, one.file, one.size, one.position, one.reason,
        )  # fmt: skip
    try:
        opened.damage.save()
    except OSError as error:
        # They are found again at the next start, or by a reader.
        log.warning("%s: the list of damaged ranges could not be saved: %s", name, error)
