"""Images of the metadata, made of the records that a controller writes."""

from __future__ import annotations

from typing import Any

from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.protocol.internal.cluster_metadata import PartitionRecord, RegisterBrokerRecord, TopicRecord
from odradek.protocol.schema import Message
from odradek.server.runtime.metadata_cache import MetadataCache

UNNAMED_DIRECTORY = bytes(16)


def image_with(*records: Message, before: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    """Returns the image after the records."""
    delta = MetadataDelta(before)
    for record in records:
        delta.replay(record)
    return delta.apply(before.offset + 1, 1, 0)


def cache_of(image: MetadataImage) -> MetadataCache:
    """Returns a cache in which the image is the published one."""
    cache = MetadataCache()
    cache.image = image
    return cache


def broker_record(broker_id: int, *, epoch: int = 0, fenced: bool = False, **fields: Any) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, fenced=fenced, **fields)


def topic_id_of(name: str) -> bytes:
    """Returns an id that is made of the topic's name."""
    return name.encode()[-16:].rjust(16, b".")


def topic_records(
    name: str,
    *replicas: tuple[int, ...],
    topic_id: bytes | None = None,
    directory: bytes = UNNAMED_DIRECTORY,
    **fields: Any,
) -> list[Message]:
    """Returns the records of a topic. Its first replica leads each partition, unless `fields` name the leader."""
    topic_id = topic_id_of(name) if topic_id is None else topic_id
    return [
        TopicRecord(name, topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(ids),
                isr=list(ids),
                **({"leader": ids[0], "leader_epoch": 0, "partition_epoch": 0} | fields),
                directories=[directory] * len(ids),
            )
            for index, ids in enumerate(replicas)
        ),
    ]
