"""Named places in a log, which a ListOffsets request has in place of a timestamp."""

from __future__ import annotations

#: The end that the reader sees: the high watermark, or the last stable offset with read_committed.
LATEST = -1
#: The start, that of the remote store included.
EARLIEST = -2
#: The record with the largest timestamp (KIP-734).
MAX_TIMESTAMP = -3
#: The start on local disks (KIP-405).
EARLIEST_LOCAL = -4
#: The last offset in the remote store (KIP-1005).
LATEST_TIERED = -5
#: The first offset that is not in the remote store yet (KIP-1023).
EARLIEST_PENDING_UPLOAD = -6
