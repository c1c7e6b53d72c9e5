"""A remote store in a folder, in the layout of Apache's `LocalTieredStorage`: each reads what the other has written.

```
<dir>/kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset, 20 digits>-<segment id>.log
                                                                                       ... .index .timeindex .txnindex
                                                                                           .leader_epoch_checkpoint .snapshot
<dir>/odradek-uploads/<segment id>.log                                                a part that is being written
```

A part is written beside, synced and renamed, so that no reader finds half of one. Apache's class writes in place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..protocol.checksum import crc32c
from ..protocol.uuids import uuid_to_text
from ..storage.files.descriptors import open_fd
from ..storage.files.writes import sync_directory, write_fully
from .checksums import Checksums, checksum_of, chunks_of, part_size
from .object_names import object_name, parse_object_name
from .segment_metadata import RemoteLogSegmentMetadata
from .store import (
    DamagedRemoteObject,
    InvalidStore,
    PartType,
    RemoteResourceNotFound,
    RemoteStorageError,
    SegmentParts,
    StoredObject,
)

_ROOT = "kafka-tiered-storage"
_UPLOADS = "odradek-uploads"


class FolderStore:
    """A `RemoteStore`. Its only key is `dir`, as of Apache's class."""

    def __init__(self, config: Mapping[str, str]) -> None:
        directory = config.get("dir")
        if not directory:
            raise InvalidStore("a store in a folder needs the key dir")
        self._root = Path(directory).absolute() / _ROOT
        self._uploads = self._root.with_name(_UPLOADS)

    def create(self) -> None:
        with _failures(f"making {self._root}"):
            self._root.mkdir(parents=True, exist_ok=True)
            self._uploads.mkdir(exist_ok=True)
            sync_directory(str(self._root.parent))

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        written: dict[PartType, tuple[int, int]] = {}
        folder = self._path(segment, PartType.LOG).parent
        with _failures(f"copying {segment} to {self._root}"):
            if not folder.exists():
                folder.mkdir(exist_ok=True)  # without its parents: they may be a disk that is not mounted any more
                sync_directory(str(self._root))
            for part, source in parts.sources():
                written[part] = self._write(segment, part, source)
            sync_directory(str(folder))
        return Checksums(written).encode()

    def _write(self, segment: RemoteLogSegmentMetadata, part: PartType, source: Path | bytes) -> tuple[int, int]:
        """Returns size and CRC-32C."""
        size, path = part_size(segment, part, source), self._path(segment, part)
        if path.exists() and path.stat().st_size == size:  # an earlier attempt ended behind it
            return size, checksum_of(source, size)
        temporary, position, crc = self._temporary(segment, part), 0, 0
        fd = open_fd(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            for piece in chunks_of(source, size):
                write_fully(fd, piece, position)
                position, crc = position + len(piece), crc32c(piece, crc)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)  # noqa: PTH105  (tests crash at the functions of os)
        return size, crc

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        path = self._path(segment, PartType.LOG)
        with _failures(f"reading {path}", path):
            fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                found = b""
                while len(found) < size:
                    more = os.pread(fd, size - len(found), position + len(found))
                    if not more:
                        break
                    found = found + more if found else more
                return found
            finally:
                os.close(fd)

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        path = self._path(segment, part)
        with _failures(f"reading {path}", path), path.open("rb") as file:
            found = file.read(most_bytes + 1)
        if len(found) > most_bytes:
            raise DamagedRemoteObject(object_name(segment, part), most_bytes, f"more than {most_bytes} bytes")
        return found

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        self.delete_log_segments([segment])

    def delete_log_segments(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        """Deletes all parts of several segments, with one sync of each folder."""
        folders: dict[str, None] = {}
        for segment in segments:
            with _failures(f"deleting {segment} from {self._root}"):
                self._check_root()
                log, upload = str(self._path(segment, PartType.LOG)), str(self._temporary(segment, PartType.LOG))
                for stem in (log.removesuffix(PartType.LOG.value), upload.removesuffix(PartType.LOG.value)):
                    for part in PartType:
                        with suppress(FileNotFoundError):
                            os.unlink(stem + part.value)  # noqa: PTH108
                folders[os.path.dirname(log)] = None  # noqa: PTH120
        for folder in folders:
            with _failures(f"deleting from {folder}"), suppress(FileNotFoundError):
                sync_directory(folder)

    def objects(self) -> Iterator[StoredObject]:
        with _failures(f"listing {self._root}"):
            self._check_root()
            for path in self._root.glob("*/*"):
                found = parse_object_name(path.relative_to(self._root).as_posix(), path.stat().st_size)
                if found is not None:
                    yield found

    def close(self) -> None:
        pass

    def _check_root(self) -> None:
        if not self._root.is_dir():
            raise RemoteStorageError(f"the folder {self._root} is not there")

    def _path(self, segment: RemoteLogSegmentMetadata, part: PartType) -> Path:
        return self._root / object_name(segment, part)

    def _temporary(self, segment: RemoteLogSegmentMetadata, part: PartType) -> Path:
        return self._uploads / f"{uuid_to_text(segment.segment_id)}{part.value}"


@contextmanager
def _failures(doing: str, path: Path | None = None) -> Iterator[None]:
    """Raises RemoteResourceNotFound where `path` is missing from the store's folder, RemoteStorageError for another OSError.

    Where the folder itself is missing, the objects are not: its disk may not be mounted.
    """
    try:
        yield
    except FileNotFoundError as error:
        if path is None:
            raise RemoteStorageError(f"{doing}: {error}") from error
        if not (root := path.parents[1]).is_dir():
            raise RemoteStorageError(f"{doing}: the folder {root} is not there") from None
        raise RemoteResourceNotFound(str(path)) from None
    except OSError as error:
        raise RemoteStorageError(f"{doing}: {error}") from error
