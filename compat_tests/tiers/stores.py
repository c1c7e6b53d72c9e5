"""A store in a folder whose reads a test holds or fails, and whose deletions it slows down, by files in that folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from odradek.tiers.folder_store import FolderStore
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata
from odradek.tiers.store import RemoteStorageError

from . import tiered

HOLD, FAIL, SLOW_DELETION = "hold", "fail", "slow-deletion"
_POLL_S = 0.05
#: A slow deletion takes as long.
_SLOW_S = 1.0


class ControlledStore(FolderStore):
    """With a file `hold`, reads wait; with a file `fail`, they fail. `slow-deletion` has deletions wait."""

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._folder = Path(config["dir"])

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        while (self._folder / HOLD).exists():
            time.sleep(_POLL_S)
        if (self._folder / FAIL).exists():
            raise RemoteStorageError("the test has the read fail")
        return super().fetch_log_segment(segment, position, size)

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        if (self._folder / SLOW_DELETION).exists():
            time.sleep(_SLOW_S)
        super().delete_log_segment_data(segment)


class SweepingStore(ControlledStore):
    """Has its broker delete the segments of topics that are gone after two seconds instead of an hour."""

    def __init__(self, config: Mapping[str, str]) -> None:
        from odradek.server.remote import deletion

        super().__init__(config)
        deletion.ABANDONED_S, deletion.SWEEP_S = 2.0, 0.5


SWEEPING = {"remote.log.storage.manager.class.name": "python:compat_tests.tiers.stores:SweepingStore"}
#: The property that has a broker use the class.
CONTROLLED = {"remote.log.storage.manager.class.name": "python:compat_tests.tiers.stores:ControlledStore"}


def controlled(folder: Path) -> dict[str, str]:
    """Returns the properties of a broker with a `ControlledStore`."""
    return tiered.properties(folder) | CONTROLLED
