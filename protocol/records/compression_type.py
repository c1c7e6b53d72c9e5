"""The codecs of record batches, and their limits."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmap import mmap

    #: Takes decompressed bytes.
    Writable = memoryview | bytearray | mmap

#: The maximum decompressed size of one batch's records, for producers, the cleaner and coordinators alike. Producers
#: send batches of about a megabyte. Text that compresses a hundredfold fits; a decompression bomb costs at most this
#: memory.
MAX_DECOMPRESSED_BYTES = 128 << 20


class Compression(IntEnum):
    """The low three bits of a batch's attributes; the lower-case names are those of `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


#: The levels of `compression.<codec>.level`: (lowest, highest, default), as in Kafka (KIP-390).
LEVELS = {Compression.GZIP: (1, 9, -1), Compression.LZ4: (1, 17, 9), Compression.ZSTD: (-131072, 22, 3)}
