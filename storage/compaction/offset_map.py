"""The newest offset of each key in the part of a log that has not been compacted."""

from __future__ import annotations

from hashlib import blake2b

#: Roughly what a key costs here, hash table and numbers included; Kafka's map takes 24 bytes for one.
BYTES_PER_KEY = 160
#: Longer keys are kept as digests of one byte more than this, so that none can be taken for another's digest.
_LONGEST_KEY = 24
_DIGEST_BYTES = 25


class OffsetMap:
    """Bounded: `put` refuses a new key when the memory that `log.cleaner.dedupe.buffer.size` allows is used up."""

    __slots__ = ("_offsets", "capacity", "latest_offset")

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, 1)
        self._offsets: dict[bytes, int] = {}
        #: All records up to here are in the map.
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """False when the key does not fit any more."""
        short = _short(key)
        if len(self._offsets) >= self.capacity and short not in self._offsets:
            return False
        self._offsets[short] = offset
        return True

    def newest(self, key: bytes) -> int:
        """The last offset put for the key, or -1."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) <= _LONGEST_KEY else blake2b(key, digest_size=_DIGEST_BYTES).digest()
