"""Remote stores: the parts of a segment that they keep (KIP-405)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class SegmentParts(NamedTuple):
    """The parts of a closed segment: files, and the content of the checkpoint of leader epochs up to its end."""

    log: Path
    offset_index: Path
    time_index: Path
    #: None where no transaction was aborted.
    transaction_index: Path | None
    #: The producers' state at the segment's end.
    producer_snapshot: Path
    leader_epochs: bytes
