"""Segments of a long log: copies of one segment with other base offsets.

The CRC of a batch does not cover its base offset, so the first eight bytes of each batch make a later segment.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from odradek.columns import kernel, layout
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.files.segment_files import LOG_SUFFIX
from odradek.storage.segments.batches import rebuild_indexes

#: Bytes of the smallest batch with a record.
_LEAST_BATCH = 61


class Template:
    """Whole batches that begin at offset 0. `records` is the number of offsets that they take."""

    def __init__(self, batches: bytes) -> None:
        self._data = np.frombuffer(bytearray(batches), np.uint8)
        rows = np.empty((len(batches) // _LEAST_BATCH + 1, layout.HEADER_COLUMNS), np.int64)
        found, _, _ = kernel.walk_headers(self._data, 0, len(batches), 0, 0, True, rows)
        self._at = rows[:found, layout.POSITION, None] + np.arange(8)
        self._bases = rows[:found, layout.BASE_OFFSET].copy()
        self.records = int(rows[:found, layout.COUNT].sum())

    def write(self, directory: Path, base: int) -> int:
        """Writes the segment that begins at `base`, with its indexes. Returns the offset after it."""
        self._data[self._at] = (self._bases + base).astype(">i8").view(np.uint8).reshape(-1, 8)
        file = directory / f"{base:020d}{LOG_SUFFIX}"
        file.write_bytes(self._data)
        rebuild_indexes(str(file), PartitionDirectory(str(directory)), base, len(self._data))
        return base + self.records
