"""Batches of the log here, which are compared with those of the source. Only their headers are read.

A read that would wait for the disk is left to a thread: after a start no log is in the page cache.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...protocol.records.batch import HEADER_BYTES, read_header
from ...protocol.records.errors import BatchError
from ...replication.mirror.partition import Batch
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.page_cache import pread_nowait

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..partitions.hosted_partition import HostedPartition


def batch_at(hosted: HostedPartition, offset: int) -> Batch | None:
    """The batch that has an offset, or the next one. None where there is none, or it is damaged.

    It waits for the disk, and a thread may call it when the log is open. Raises LogDirectoryFailure.
    """
    return _batch_at(hosted, offset, os.pread)


def batch_at_nowait(hosted: HostedPartition, offset: int) -> Batch | None:
    """As `batch_at`. Raises BlockingIOError where that would wait for the disk."""
    return _batch_at(hosted, offset, pread_nowait)


def _batch_at(hosted: HostedPartition, offset: int, pread: Callable[..., bytes | bytearray]) -> Batch | None:
    log = hosted.open_log()
    if not log.log_start_offset <= offset < log.log_end_offset:
        return None
    try:
        found = log.read(offset, 1, pread=pread)
        return Batch.of(read_header(pread(found.fd, HEADER_BYTES, found.position))) if len(found) else None
    except (BatchError, LookupError, ValueError):
        return None
    except BlockingIOError:
        raise
    except OSError as error:
        raise LogDirectoryFailure(hosted.directory.path, f"reading {hosted.name}", error) from error


async def last_batch(hosted: HostedPartition) -> Batch | None:
    """The last batch of a log. None of one without batches, or whose last ones were compacted away or are damaged.

    Raises LogDirectoryFailure.
    """
    last_offset = hosted.open_log().log_end_offset - 1
    try:
        return batch_at_nowait(hosted, last_offset)
    except BlockingIOError:
        return await hosted.pools.disk.run(batch_at, hosted, last_offset)
