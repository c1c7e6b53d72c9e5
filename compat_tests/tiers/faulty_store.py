"""A store in a folder that fails, is slow, uploads half of a segment, and lies about sizes, at random.

A file in the folder selects the faults.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from odradek.tiers.folder_store import FolderStore
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata
from odradek.tiers.store import PartType, RemoteStorageError, SegmentParts, StoredObject

#: Calls fail, wait, upload only some parts and fail, or return fewer or more bytes than there are.
FAIL, SLOW, PARTIAL, LIE = KINDS = "fail", "slow", "partial", "lie"
_CONTROL = "faults"
#: The share of calls that a fault hits, and the longest wait of a slow one.
_SHARE = 0.4
_SLOW_S = 1.5


def set_faults(folder: Path, *kinds: str) -> None:
    """Has the stores of all brokers in this folder show these faults, and no others."""
    file = folder / _CONTROL
    folder.mkdir(exist_ok=True)
    beside = file.with_suffix(".new")
    beside.write_text(" ".join(kinds))
    beside.replace(file)


class FaultyStore(FolderStore):
    """Never loses what it has confirmed: no broker can survive that."""

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._control = Path(config["dir"]) / _CONTROL

    def _hits(self, kind: str) -> bool:
        try:
            kinds = self._control.read_text().split()
        except OSError:
            return False
        return kind in kinds and random.random() < _SHARE

    def _call(self, what: str) -> None:
        if self._hits(SLOW):
            time.sleep(random.random() * _SLOW_S)
        if self._hits(FAIL):
            raise RemoteStorageError(f"{what} fails", retriable=random.random() < 0.5)

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        self._call("a copy")
        if self._hits(PARTIAL):
            for part, source in random.sample(parts.sources(), 3):
                content = source if isinstance(source, bytes) else source.read_bytes()
                path = self._path(segment, part)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content[: random.randint(0, len(content))])
            raise RemoteStorageError("a copy ends in the middle", retriable=random.random() < 0.5)
        return super().copy_log_segment_data(segment, parts)

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        self._call("a read")
        found = super().fetch_log_segment(segment, position, size)
        return _lie(found) if self._hits(LIE) else found

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        self._call("a read of an index")
        found = super().fetch_index(segment, part, most_bytes)
        return _lie(found) if self._hits(LIE) else found

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        self._call("a deletion")
        super().delete_log_segment_data(segment)

    def objects(self) -> Iterator[StoredObject]:
        for found in super().objects():
            yield found._replace(size=found.size // 2) if self._hits(LIE) else found


def _lie(found: bytes) -> bytes:
    """Returns fewer bytes, none, or more."""
    return random.choice((found[: len(found) // 2], b"", found + b"\0" * 100, found[:-1]))
