"""Many small logs, read in one call of the kernel.

A start reads ten thousands of logs after a crash. The call leaves the interpreter to the loop meanwhile. A folder without
a note is read if it has nothing but one segment with its indexes, as a running broker leaves it before a flush.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from ..files.clean_replicas import CleanLog, CleanReplica, CleanSegment
from ..files.partition_metadata import encode_partition_metadata
from ..files.segment_files import LOG_SUFFIX
from .small_log import SeenReplica, SmallLog
from .small_logs import MOST_BYTES, is_small

try:
    from odradek_kernel import read_small_folders as _kernel_folders
    from odradek_kernel import read_small_logs as _kernel_logs
except ImportError:  # pip had no compiler; the kernel may be of another version in a checkout.
    _kernel_logs = _kernel_folders = None

_MANY = struct.Struct("=10q")
_NO_SEGMENT = _NO_EPOCH = -1


def read_grown_logs(replicas: Sequence[tuple[str, CleanReplica]]) -> list[SeenReplica | None]:
    """Reads logs that have changed since their notes, in folders that have not. Returns None for those that
    `recover_small_log` has to look at.
    """
    if _kernel_logs is None or not replicas:
        return [None] * len(replicas)
    paths = [
        f"{path}/{noted.log.segments[0].base_offset:020d}{LOG_SUFFIX}" if noted.log else "" for path, noted in replicas
    ]
    rows = _MANY.iter_unpack(_kernel_logs(_joined(paths), MOST_BYTES))
    return [_grown(noted, row) for (_, noted), row in zip(replicas, rows, strict=True)]


def read_small_folders(replicas: Sequence[tuple[str, bytes]]) -> list[SeenReplica | None]:
    """Reads the folders of replicas, of which it gets the path and the id of the topic. Returns as `read_grown_logs`."""
    if _kernel_folders is None or not replicas:
        return [None] * len(replicas)
    contents = {topic_id: encode_partition_metadata(topic_id).decode() for topic_id in {one[1] for one in replicas}}
    texts = [text for path, topic_id in replicas for text in (path, contents[topic_id])]
    rows = _MANY.iter_unpack(_kernel_folders(_joined(texts), MOST_BYTES))
    return [_found_in_folder(topic_id, row) for (_, topic_id), row in zip(replicas, rows, strict=True)]


def _joined(texts: list[str]) -> bytes:
    return os.fsencode("\0".join((*texts, "")))


def _grown(noted: CleanReplica, row: tuple[int, ...]) -> SeenReplica | None:
    if not row[0] or noted.log is None or noted.log.has_producers or not is_small(noted.log):
        return None
    return SeenReplica(noted, False, _small_log(row))


def _found_in_folder(topic_id: bytes, row: tuple[int, ...]) -> SeenReplica | None:
    is_found, folder_ns, base_offset = row[:3]
    if not is_found:
        return None
    if base_offset == _NO_SEGMENT:
        return SeenReplica(CleanReplica(topic_id, folder_ns, False), False)
    size, modified_ns, end, newest, newest_at, epochs = log = _small_log(row)
    segment = CleanSegment(base_offset, size, modified_ns)
    note = CleanLog(base_offset, end, [segment], [], epochs, False, newest, newest_at, False)
    return SeenReplica(CleanReplica(topic_id, folder_ns, True, note), False, log, True)


def _small_log(row: tuple[int, ...]) -> SmallLog:
    _, _, _, size, modified_ns, end, newest, newest_at, epoch, start = row
    return SmallLog(size, modified_ns, end, newest, newest_at, [] if epoch == _NO_EPOCH else [(epoch, start)])
