"""Prepares record bytes for a response: copied, sent from the file, or first read into the page cache by a thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...storage.files.open_files import OPEN_FILES, OpenFile
from ...storage.files.page_cache import pread_nowait

if TYPE_CHECKING:
    from ...storage.segments.slices import LogSlice

#: Up to this size, records are copied into the response: an extra system call for each piece costs more than a copy.
COPIED_BYTES = 64 * 1024
#: The limit while many files are held by responses that are still to be sent: smaller records are copied into the
#: response, so that it holds no file.
MOST_CROWDED_BYTES = 1 << 20
#: The number of bytes that a thread reads at once.
WARMED_BYTES = 1 << 20


class NotInPageCache(Exception):
    """The bytes are not in memory. A thread must call `read` to load them."""

    def __init__(self, read: Callable[[], object]) -> None:
        super().__init__()
        self.read = read


def sendable(records: LogSlice, *, may_wait: bool) -> Any:
    """Returns bytes, or the slice itself for the connection to send. Raises NotInPageCache unless waiting for the disk
    is allowed.
    """
    if records.size > (MOST_CROWDED_BYTES if OpenFile.count > OPEN_FILES.limit else COPIED_BYTES):
        if not may_wait and not in_page_cache(records):
            raise NotInPageCache(partial(warm, records))
        return records
    if may_wait:
        return records.bytes()
    piece = records.bytes_nowait()
    if piece is None:
        raise NotInPageCache(partial(warm, records))
    return piece


def in_page_cache(records: LogSlice) -> bool:
    """Returns whether both ends of a range are in the page cache; the bytes between were read or written with them."""
    last_page = records.position + records.size - 1
    try:
        for position in (records.position, last_page):
            if not pread_nowait(records.fd, 1, position):
                raise records.cut_short()
    except BlockingIOError:
        return False
    return True


def warm(records: LogSlice) -> None:
    """Reads a range into the page cache; waits for the disk."""
    end = records.position + records.size
    for position in range(records.position, end, WARMED_BYTES):
        os.pread(records.fd, min(WARMED_BYTES, end - position), position)
