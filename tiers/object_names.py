"""Names of the objects of a remote store, as in Apache's `LocalTieredStorage`."""

from __future__ import annotations

from ..protocol.uuids import uuid_from_text, uuid_to_text
from .segment_metadata import InvalidSegmentMetadata, RemoteLogSegmentMetadata, TopicIdPartition, check_partition
from .store import PartType, StoredObject


def directory_name(partition: TopicIdPartition) -> str:
    """Returns the name of a partition's folder. Raises InvalidSegmentMetadata for a topic that is not a name."""
    check_partition(partition)
    return f"{partition.topic}-{partition.partition}-{uuid_to_text(partition.topic_id)}"


def object_name(segment: RemoteLogSegmentMetadata, part: PartType) -> str:
    """Returns folder and name of a part. Raises InvalidSegmentMetadata."""
    file = f"{segment.start_offset:020}-{uuid_to_text(segment.segment_id)}{part.value}"
    return f"{directory_name(segment.partition)}/{file}"


def parse_object_name(name: str, size: int) -> StoredObject | None:
    """Returns the object of a name, or None for a name that no store gives."""
    folder, _, file = name.rpartition("/")
    stem, _, suffix = file.partition(".")
    topic_and_number, topic_id = folder[:-23], folder[-22:]
    topic, _, number = topic_and_number.rpartition("-")
    offset, _, segment_id = stem.partition("-")
    try:
        partition = TopicIdPartition(uuid_from_text(topic_id), topic, int(number))
        found = StoredObject(partition, int(offset), uuid_from_text(segment_id), PartType("." + suffix), size)
        is_exact = f"{directory_name(partition)}/{found.start_offset:020}-{segment_id}{found.part.value}" == name
    except (ValueError, InvalidSegmentMetadata):
        return None
    return found if is_exact else None
