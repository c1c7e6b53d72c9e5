"""The subscribed topics of a group: their ids, numbers of partitions, and a metadata hash.

`ConsumerGroupMetadataValue` keeps the hash (KIP-1101), so that a coordinator that loads the group detects changed
topics. It is the same as Kafka's: XXH3 over the bytes that `_topic_hash` assembles.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ....metadata.image import MetadataImage, TopicImage
from ...patterns import compiled

#: The number of cached topic hashes. Every joining member needs those of its group's topics.
REMEMBERED_TOPICS = 4_096
#: Topic id -> topic, brokers and hash. An entry is valid while both are the same objects as in the image.
_remembered: dict[bytes, tuple[TopicImage, object, int]] = {}
Racks = tuple[tuple[str, ...], ...]


def metadata_hash(image: MetadataImage, names: Iterable[str]) -> int:
    """Returns the hash of the existing topics among `names`; 0 if there are none."""
    from xxhash import xxh3_64_intdigest  # only groups of the new protocol need it

    found = [topic for name in sorted(set(names)) if (topic := image.topic(name)) is not None]
    if not found:
        return 0
    pieces = [_remembered_hash(image, topic).to_bytes(8, "little") for topic in found]
    return _signed(xxh3_64_intdigest(b"".join(pieces)))


def _remembered_hash(image: MetadataImage, topic: TopicImage) -> int:
    known = _remembered.get(topic.id)
    if known is not None and known[0] is topic and known[1] is image.cluster.brokers:
        return known[2]
    if len(_remembered) >= REMEMBERED_TOPICS:
        _remembered.clear()
    found = _topic_hash(topic, _racks(image, topic))
    _remembered[topic.id] = (topic, image.cluster.brokers, found)
    return found


def _racks(image: MetadataImage, topic: TopicImage) -> Racks:
    brokers = image.cluster.brokers
    return tuple(
        tuple(sorted({b.rack for r in topic.partitions[i].replicas if (b := brokers.get(r)) and b.rack is not None}))
        for i in range(len(topic.partitions))
    )


def _topic_hash(topic: TopicImage, racks: Racks) -> int:
    from xxhash import xxh3_64_intdigest

    pieces = [b"\0", topic.id[7::-1], topic.id[:7:-1], _string(topic.name), struct.pack("<i", len(racks))]
    for index, names in enumerate(racks):
        pieces.append(struct.pack("<i", index))
        pieces += [_length(name) + _string(name) for name in names]
    return xxh3_64_intdigest(b"".join(pieces))


def _string(text: str) -> bytes:
    """Encodes a string like hash4j: UTF-16 code units, then their number."""
    return text.encode("utf-16-le") + _length(text)


def _length(text: str) -> bytes:
    return struct.pack("<i", len(text.encode("utf-16-le")) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def matching_topics(image: MetadataImage, regex: str) -> list[str]:
    """Returns the sorted names of all topics that `regex` (RE2) fully matches. Raises InvalidRegularExpression."""
    pattern = compiled(regex)
    return sorted(name for name in image.topics.by_name if pattern(name) is not None)
