"""Fetch requests of very many partitions, whose partitions stay encoded.

The partitions of a consumer's request have no tagged fields, so each takes the same number of bytes: a topic's
partitions are one range of bytes, which is copied whole. Everything else is decoded as usual, from a request without the
partitions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import cast, overload

from .buffer import Buffer
from .codec import DECODE_FAULTS, lowered_decoder
from .messages.fetch import FetchPartition, FetchRequest, FetchTopic
from .tree import remembered
from .varint import varint

#: The most partitions that stay encoded: each is compared and found in one go with the others of its topic, in 0.1 us.
MOST_ENCODED = 20_000
#: Topics are taken apart one by one, in some 3 us each.
MOST_TOPICS = 1000
#: A topic takes as long as so many partitions: with fewer in each, all are decoded as usual.
LEAST_OF_TOPIC = 8
#: The most bytes behind the topics: forgotten topics, the rack and tagged fields.
MOST_BYTES_BEHIND = 1024

#: Partitions that are taken apart in one call.
_UNPACKED_ONCE = 512

_WITH_LOG_START = FetchPartition.versions_with("log_start_offset")
_WITH_SESSIONS = FetchRequest.versions_with("session_id")
_WITH_LEADER_EPOCHS = FetchPartition.versions_with("current_leader_epoch")
_FLEXIBLE = FetchRequest.flexible_versions()
WITH_TOPIC_IDS = FetchTopic.versions_with("topic_id")
_WITH_REPLICA_ID = FetchRequest.versions_with("replica_id")
_INDEX_BYTES = 4
_UUID_BYTES = 16
_NO_TAGS = 0


class PartitionLayout:
    """The bytes of a partition without tagged fields, in one version."""

    __slots__ = (
        "_index",
        "_indexes",
        "_partition",
        "_piece",
        "_pieces",
        "has_epochs",
        "has_log_start",
        "has_tags",
        "size",
    )

    def __init__(self, version: int) -> None:
        self.has_log_start = version in _WITH_LOG_START
        self.has_epochs = version in _WITH_LEADER_EPOCHS
        self.has_tags = version in _FLEXIBLE
        leader_epoch = "i" if self.has_epochs else ""
        last_epoch = "i" if self.has_tags else ""
        log_start = "q" if self.has_log_start else ""
        tags = "x" if self.has_tags else ""
        self._partition = struct.Struct(f">i{leader_epoch}q{last_epoch}{log_start}i{tags}")
        self.size = self._partition.size
        index, piece = f"i{self.size - _INDEX_BYTES}x", f"{self.size}s"
        self._index, self._piece = struct.Struct(f">{index}"), struct.Struct(piece)
        self._indexes = struct.Struct(f">{index * _UNPACKED_ONCE}")
        self._pieces = struct.Struct(piece * _UNPACKED_ONCE)

    def decoded(self, piece: bytes) -> FetchPartition:
        fields = self._partition.unpack(piece)
        if self.has_tags:
            return FetchPartition(*fields)
        made = FetchPartition(fields[0], partition_max_bytes=fields[-1])
        made.fetch_offset = fields[1 + self.has_epochs]
        if self.has_epochs:
            made.current_leader_epoch = fields[1]
        if self.has_log_start:
            made.log_start_offset = fields[-2]
        return made

    def pieces(self, data: bytes) -> list[bytes]:
        return cast("list[bytes]", _unpacked(data, self._pieces, self._piece))

    def indexes(self, data: bytes) -> list[int]:
        return cast("list[int]", _unpacked(data, self._indexes, self._index))

    def is_regular(self, data: bytes) -> bool:
        """Returns whether all partitions in a range have the same size, since none has tagged fields."""
        size = self.size
        return not self.has_tags or data[size - 1 :: size].count(_NO_TAGS) == len(data) // size


def _unpacked(data: bytes, several: struct.Struct, single: struct.Struct) -> list[object]:
    """Returns the value in each partition of a range. `several`, `single`: the layout of _UNPACKED_ONCE, and of one."""
    if len(data) < several.size:
        return [value for (value,) in single.iter_unpack(data)]
    found: list[object] = []
    end = len(data) - len(data) % several.size
    for start in range(0, end, several.size):
        found += several.unpack_from(data, start)
    found += [value for (value,) in single.iter_unpack(memoryview(data)[end:])]
    return found


partition_layout = remembered(PartitionLayout)


class EncodedPartitions(Sequence[FetchPartition]):
    """The partitions of one topic in a request. Each is decoded where it is taken."""

    __slots__ = ("_data", "layout")

    def __init__(self, layout: PartitionLayout, data: bytes) -> None:
        self.layout = layout
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // self.layout.size

    @overload
    def __getitem__(self, place: int) -> FetchPartition: ...

    @overload
    def __getitem__(self, place: slice) -> list[FetchPartition]: ...

    def __getitem__(self, place: int | slice) -> FetchPartition | list[FetchPartition]:
        if isinstance(place, slice):
            return list(map(self.layout.decoded, self.pieces()[place]))
        return self.layout.decoded(self.pieces()[place])

    def __iter__(self) -> Iterator[FetchPartition]:
        return map(self.layout.decoded, self.pieces())

    def pieces(self) -> list[bytes]:
        """Returns each partition's bytes, in order."""
        return self.layout.pieces(self._data)

    def has_repeated(self) -> bool:
        """Returns whether a partition is named twice."""
        return len(set(self.layout.indexes(self._data))) < len(self)


def decode_large(version: int, buf: Buffer, pos: int) -> FetchRequest | None:
    """Decodes a request at `pos`, which ends with `buf`. The partitions of each topic are `EncodedPartitions`.

    Returns None for a request of another kind, which the usual decoder takes or rejects.
    """
    try:
        return _decoded(version, buf, pos)
    except DECODE_FAULTS:
        return None


def _decoded(version: int, buf: Buffer, pos: int) -> FetchRequest | None:
    layout, is_flexible = partition_layout(version), version in _FLEXIBLE
    began = pos
    pos += (4 if version in _WITH_REPLICA_ID else 0) + 13 + (8 if version in _WITH_SESSIONS else 0)
    topics, pos = _count(buf, pos, is_flexible)
    if not 0 < topics <= MOST_TOPICS or topics * LEAST_OF_TOPIC * layout.size > len(buf):
        return None
    rest, found, named = [bytes(buf[began:pos])], [], 0
    for _ in range(topics):
        topic_began, pos = pos, _after_name(version, buf, pos)
        rest.append(bytes(buf[topic_began:pos]))
        count, pos = _count(buf, pos, is_flexible)
        named += count
        if count < 0 or named > MOST_ENCODED:
            return None
        end = pos + count * layout.size
        data = bytes(buf[pos:end])
        if end > len(buf) or not layout.is_regular(data) or (is_flexible and buf[end] != _NO_TAGS):
            return None
        found.append(EncodedPartitions(layout, data))
        rest.append(b"\x01\x00" if is_flexible else b"\x00\x00\x00\x00")
        pos = end + is_flexible
    if len(buf) - pos > MOST_BYTES_BEHIND:
        return None
    rest.append(bytes(buf[pos:]))
    whole = b"".join(rest)
    made, end = lowered_decoder(FetchRequest, version)(whole, 0)
    if end > len(whole):
        return None
    for topic, partitions in zip(made.topics, found, strict=True):
        topic.partitions = partitions  # type: ignore[assignment]
    return made


def _count(buf: Buffer, pos: int, is_flexible: bool) -> tuple[int, int]:
    """Returns the count of an array, and the position after it."""
    if is_flexible:
        count, pos = varint(buf, pos)
        return count - 1, pos
    return struct.unpack_from(">i", buf, pos)[0], pos + 4


def _after_name(version: int, buf: Buffer, pos: int) -> int:
    """Returns the position after the name or id of a topic."""
    if version in WITH_TOPIC_IDS:
        return pos + _UUID_BYTES
    if version in _FLEXIBLE:
        size, pos = varint(buf, pos)
        return pos + max(0, size - 1)
    (length,) = struct.unpack_from(">h", buf, pos)
    return pos + 2 + max(0, int(length))
