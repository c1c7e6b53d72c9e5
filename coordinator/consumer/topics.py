"""What a group knows of the topics that it subscribes to: their ids, how many partitions, and a hash of it all.

The hash (KIP-1101) is what `ConsumerGroupMetadataValue` keeps, so that a coordinator that loads the group sees whether
the topics are still the same. It is Kafka's: XXH3 over what `_topic_hash` puts together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ...metadata.image import MetadataImage, TopicImage
from ..patterns import compiled


def metadata_hash(image: MetadataImage, names: Iterable[str]) -> int:
    """Of the topics that exist; 0 when none does."""
    from xxhash import xxh3_64_intdigest  # only groups of the new protocol need it

    found = [topic for name in sorted(set(names)) if (topic := image.topic(name)) is not None]
    if not found:
        return 0
    pieces = [_remembered_hash(image, topic).to_bytes(8, "little") for topic in found]
    return _signed(xxh3_64_intdigest(b"".join(pieces)))


#: Topics whose hashes are remembered; every member that joins asks for those of its group's topics.
REMEMBERED_TOPICS = 4_096

#: Topic id -> the topic and the brokers that it is the hash of: the same objects for as long as nothing changed.
_remembered: dict[bytes, tuple[TopicImage, object, int]] = {}


def _remembered_hash(image: MetadataImage, topic: TopicImage) -> int:
    known = _remembered.get(topic.id)
    if known is not None and known[0] is topic and known[1] is image.cluster.brokers:
        return known[2]
    if len(_remembered) >= REMEMBERED_TOPICS:
        _remembered.clear()
    found = _topic_hash(topic, _racks(image, topic))
    _remembered[topic.id] = (topic, image.cluster.brokers, found)
    return found


Racks = tuple[tuple[str, ...], ...]


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
    """As hash4j puts a string: UTF-16 units, then how many."""
    return text.encode("utf-16-le") + _length(text)


def _length(text: str) -> bytes:
    return struct.pack("<i", len(text.encode("utf-16-le")) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def matching_topics(image: MetadataImage, regex: str) -> list[str]:
    """Names of all topics that the whole of `regex` (RE2) matches, sorted. Raises InvalidRegularExpression."""
    pattern = compiled(regex)
    return sorted(name for name in image.topics.by_name if pattern(name) is not None)
