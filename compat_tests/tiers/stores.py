"""A store in a folder whose reads a test holds or fails, by files in that folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from odradek.tiers.folder_store import FolderStore
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata
from odradek.tiers.store import RemoteStorageError

from . import tiered

HOLD, FAIL = "hold", "fail"
_POLL_S = 0.05


class ControlledStore(FolderStore):
    """While there is a file `hold`, reads wait; while there is a file `fail`, they fail."""

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._folder = Path(config["dir"])

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        while (self._folder / HOLD).exists():
            time.sleep(_POLL_S)
        if (self._folder / FAIL).exists():
            raise RemoteStorageError("the test has the read fail")
        return super().fetch_log_segment(segment, position, size)


def controlled(folder: Path) -> dict[str, str]:
    """Returns the properties of a broker with a `ControlledStore`."""
    name = "remote.log.storage.manager.class.name"
    return tiered.properties(folder) | {name: "python:compat_tests.tiers.stores:ControlledStore"}
