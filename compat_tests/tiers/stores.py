"""Stores in a folder that a test controls by files in that folder: it holds or fails reads, holds an upload, and holds
deletions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from odradek.tiers.folder_store import FolderStore
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata
from odradek.tiers.store import PartType, RemoteStorageError, SegmentParts

from . import tiered

HOLD, FAIL, HOLD_DELETIONS = "hold", "fail", "hold-deletions"
HOLD_UPLOAD, CLAIMED, HELD, UPLOAD_ENDED = "hold-upload", "claimed", "held", "upload-ended"
#: A place for `hold-upload` beside the names of parts: all parts are written.
END_OF_UPLOAD = "END"
_POLL_S = 0.05


class ControlledStore(FolderStore):
    """With a file `hold`, reads wait; with a file `fail`, they fail.

    `hold-deletions` has deletions but the first wait until the file is gone; they fail when the broker stops.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._folder = Path(config["dir"])
        self._deletions = 0
        self._is_closed = False

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        while (self._folder / HOLD).exists():
            time.sleep(_POLL_S)
        if (self._folder / FAIL).exists():
            raise RemoteStorageError("the test has the read fail")
        return super().fetch_log_segment(segment, position, size)

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        while self._deletions and (self._folder / HOLD_DELETIONS).exists() and not self._is_closed:
            time.sleep(_POLL_S)
        if self._is_closed:
            raise RemoteStorageError("the broker stops")
        self._deletions += 1
        super().delete_log_segment_data(segment)

    def close(self) -> None:
        self._is_closed = True
        super().close()


class HeldUploadStore(FolderStore):
    """Holds the first upload that reaches the part that the file `hold-upload` names, or the end of a segment.

    `held` has the id of its segment. The upload goes on when that file is gone, and writes `upload-ended` at its end.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._folder = Path(config["dir"])

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        try:
            custom_metadata = super().copy_log_segment_data(segment, parts)
            self._hold_at(END_OF_UPLOAD, segment)
            return custom_metadata
        finally:
            if self._is_of(segment, self._folder / CLAIMED):
                (self._folder / UPLOAD_ENDED).touch()

    def _write(self, segment: RemoteLogSegmentMetadata, part: PartType, source: Path | bytes) -> tuple[int, int]:
        self._hold_at(part.name, segment)
        return super()._write(segment, part, source)

    def _hold_at(self, where: str, segment: RemoteLogSegmentMetadata) -> None:
        wanted, claimed, held = (self._folder / name for name in (HOLD_UPLOAD, CLAIMED, HELD))
        if self._is_of(segment, claimed) or not wanted.exists() or wanted.read_text() != where:
            return
        with suppress(FileExistsError):
            # The first broker only.
            with claimed.open("xb") as file:
                file.write(segment.segment_id)
            beside = held.with_suffix(".new")
            beside.write_bytes(segment.segment_id)
            beside.replace(held)
            while held.exists():
                time.sleep(_POLL_S)

    @staticmethod
    def _is_of(segment: RemoteLogSegmentMetadata, file: Path) -> bool:
        return file.exists() and file.read_bytes() == segment.segment_id


class ImpatientStore(HeldUploadStore):
    """Has its broker delete the copies that another leader began after a second instead of an hour."""

    def __init__(self, config: Mapping[str, str]) -> None:
        from odradek.server.remote import remote_log

        super().__init__(config)
        remote_log.COPY_GRACE_MS = 1_000


class SweepingStore(ControlledStore):
    """Has its broker delete the segments of topics that are gone after two seconds instead of an hour."""

    def __init__(self, config: Mapping[str, str]) -> None:
        from odradek.server.remote import deletion

        super().__init__(config)
        deletion.ABANDONED_S, deletion.SWEEP_S = 2.0, 0.5


class RaisingStore(FolderStore):
    """With a file `fail`, each call raises what classes of users raise, one after the other."""

    _EXCEPTIONS = (
        OSError(5, "Input/output error"),
        TimeoutError(),
        ValueError("no"),
        KeyError("k"),
        FileNotFoundError(2, "gone"),
    )

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._file = Path(config["dir"]) / FAIL
        self._turns = itertools.cycle(self._EXCEPTIONS)

    def _call(self) -> None:
        if self._file.exists():
            raise next(self._turns)

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        self._call()
        return super().copy_log_segment_data(segment, parts)

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        self._call()
        return super().fetch_log_segment(segment, position, size)

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        self._call()
        return super().fetch_index(segment, part, most_bytes)

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        self._call()
        super().delete_log_segment_data(segment)


RAISING = {"remote.log.storage.manager.class.name": "python:compat_tests.tiers.stores:RaisingStore"}
HELD_UPLOAD = {"remote.log.storage.manager.class.name": "python:compat_tests.tiers.stores:HeldUploadStore"}
IMPATIENT = {"remote.log.storage.manager.class.name": "python:compat_tests.tiers.stores:ImpatientStore"}
SWEEPING = {"remote.log.storage.manager.class.name": "python:compat_tests.tiers.stores:SweepingStore"}
#: The property that has a broker use the class.
CONTROLLED = {"remote.log.storage.manager.class.name": "python:compat_tests.tiers.stores:ControlledStore"}


def controlled(folder: Path) -> dict[str, str]:
    """Returns the properties of a broker with a `ControlledStore`."""
    return tiered.properties(folder) | CONTROLLED
