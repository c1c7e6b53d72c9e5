"""murmur2, by which Java's clients and brokers choose partitions: Kafka's `Utils.murmur2`."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_FACTOR = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Returns the hash as a number without a sign."""
    whole = len(data) & ~3
    found = _SEED ^ len(data)
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        found = found * _FACTOR & _MASK ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15


def partition_of(data: bytes, count: int) -> int:
    """Returns the partition of some bytes among `count`, as Java's clients and brokers choose it."""
    return (murmur2(data) & 0x7FFFFFFF) % count
