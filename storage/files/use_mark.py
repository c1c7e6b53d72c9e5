"""The mark of a log directory's last use, `odradek-in-use`: when and by whom it was last taken into use.

A process that is killed loses nothing that it has written: the kernel keeps it for the next reader. Only a machine
that stops loses it. So the mark has the boot of the machine (Linux: `boot_id`), the folder itself, since a copy of
it may be older than its files, and the epoch of the broker. While both are as noted, the files are as the last
process left them.

The content is JSON. A mark that is missing or damaged, or a system without a `boot_id`, counts as another boot.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .writes import read_if_exists, write_atomically

USE_FILE = "odradek-in-use"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_use_mark(directory: str) -> int | None:
    """Returns the epoch of the broker that has used the directory in this boot (-1: not known), else None.

    Raises OSError.
    """
    here = _here(directory)
    try:
        place, epoch = json.loads(read_if_exists(f"{directory}/{USE_FILE}") or b"")
    except (IsADirectoryError, ValueError, TypeError, RecursionError):
        return None
    return epoch if here is not None and place == here and isinstance(epoch, int) else None


def write_use_mark(directory: str, broker_epoch: int) -> bool:
    """Returns False, without a mark, where the boot cannot be told. Raises OSError."""
    here = _here(directory)
    if here is not None:
        # Not synced: the mark counts only while the machine runs.
        content = json.dumps([here, broker_epoch], separators=(",", ":")).encode()
        write_atomically(f"{directory}/{USE_FILE}", content, sync=False)
    return here is not None


def _here(directory: str) -> list[object] | None:
    """Returns the boot and the folder; None where there is no `boot_id`."""
    try:
        boot_id = _BOOT_ID.read_text().strip()
    except OSError:
        return None
    found = os.stat(directory)
    return [boot_id, found.st_dev, found.st_ino] if boot_id else None
