"""Keys of partitions, as Kafka names them."""

from __future__ import annotations

#: A topic's name and a partition's index.
TopicPartition = tuple[str, int]
#: A topic's id and a partition's index.
TopicIdPartition = tuple[bytes, int]
