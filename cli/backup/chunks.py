"""Chunks of a backup: files of record batches with their offsets, as in a Kafka segment, each with its SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ...client.user_errors import UserError
from ...protocol.records.batch import check_crc, iter_headers
from ...protocol.records.compression_type import Compression
from ...protocol.records.errors import BatchError
from ...protocol.records.record import Record, decode_batch, encode_batch
from .manifests import Chunk, Part
from .stores import Store

#: Keys and values of a chunk before compression; it is held in memory.
CHUNK_BYTES = 16 << 20
_BATCH_BYTES = 1 << 20
_BATCH_RECORDS = 5000


class ChunkWriter:
    """Writes the records of one partition, in the order of their offsets."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._records: list[Record] = []
        self._batch_bytes = 0
        self._batches: list[bytes] = []
        self._bytes = 0
        self._first = self._last = -1
        self._count = 0
        self.written: list[Chunk] = []

    def add(self, record: Record) -> None:
        size = len(record.key or b"") + len(record.value or b"")
        if not self._count:
            self._first = record.offset
        self._last = record.offset
        self._count += 1
        self._records.append(record)
        self._batch_bytes += size
        self._bytes += size
        if self._batch_bytes >= _BATCH_BYTES or len(self._records) >= _BATCH_RECORDS:
            self._end_batch()
        if self._bytes >= CHUNK_BYTES:
            self.end()

    def end(self) -> None:
        """Writes the records that are left."""
        self._end_batch()
        if not self._batches:
            return
        data = b"".join(self._batches)
        name = f"{self._folder}/{self._first:020}.log"
        self._store.write(name, data)
        digest = hashlib.sha256(data).hexdigest()
        self.written.append(Chunk(name, self._first, self._last, self._count, len(data), digest))
        self._batches, self._bytes, self._count = [], 0, 0

    def _end_batch(self) -> None:
        if self._records:
            self._batches.append(encode_batch(self._records, compression=Compression.ZSTD))
            self._records, self._batch_bytes = [], 0


def checked(store: Store, chunk: Chunk) -> bytes:
    """The bytes of a chunk. Raises UserError for one that is missing or damaged."""
    try:
        data = store.read(chunk.file)
    except FileNotFoundError:
        raise UserError(f"{chunk.file} is missing from the backup") from None
    except OSError as error:
        raise UserError(f"{chunk.file} cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != chunk.sha256:
        raise UserError(f"{chunk.file} is damaged: its checksum is wrong")
    return data


def records(store: Store, part: Part) -> Iterator[Record]:
    """The records of a partition. Raises UserError for damage."""
    for chunk in part.chunks:
        data = checked(store, chunk)
        try:
            for pos, header in iter_headers(data):
                check_crc(data, pos, header)
                yield from decode_batch(data, pos, header)
        except BatchError as error:
            raise UserError(f"{chunk.file} cannot be read: {error}") from None
