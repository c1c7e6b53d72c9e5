"""Segments for topics that are large on paper: copies of one segment with other base offsets, and hard links to them.

A base offset is not under a batch's CRC, so a segment becomes a later one by its first eight bytes of each batch. Partitions
have the same bytes, so the closed segments of all but the first are links. Only the newest segment is a file of its own: a
broker appends to it.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from odradek.columns import kernel, layout
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.files.segment_files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from odradek.storage.segments.batches import rebuild_indexes

#: Leader epoch 0 from offset 0 on. Without it a broker reads the whole log at its start.
_EPOCHS = "0\n1\n0 0\n"
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


def fill(directories: list[Path], segments: int, closed: Template, newest: Template) -> int:
    """Replaces the segments of partitions by closed ones and a newest one. Returns the offset after the last record."""
    for directory in directories:
        for file in directory.iterdir():
            if file.suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                file.unlink()
    first, base = directories[0], 0
    for _ in range(segments):
        base = closed.write(first, base)
    files = sorted(file for file in first.iterdir() if file.suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    for directory in directories[1:]:
        for file in files:
            os.link(file, directory / file.name)
    for directory in directories:
        end = newest.write(directory, base)
        (directory / "leader-epoch-checkpoint").write_text(_EPOCHS)
    return end
