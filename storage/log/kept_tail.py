"""The end of a log, kept as segment files before the log is cut: records that were acknowledged are not lost in silence.

The files are in a folder of the log directory whose name ends with `-stray`: neither this program nor Apache Kafka opens or
deletes it. A line of JSON in `odradek-mirror-cuts.jsonl` of the log directory names each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.batch import HEADER_BYTES, read_header
from ..files.copies import copy_part
from ..files.failures import LogDirectoryFailure
from ..files.modes import restrict_folder
from ..files.writes import sync_directory

if TYPE_CHECKING:
    from .log import Log

#: The list of what was cut off, in a log directory.
CUTS_FILE = "odradek-mirror-cuts.jsonl"


class TailFile(NamedTuple):
    """A part of a segment. `base_offset`: of its first batch. `is_whole`: the cut removes the segment's file."""

    path: str
    position: int
    size: int
    base_offset: int
    is_whole: bool


def tail_of(log: Log, offset: int) -> list[TailFile]:
    """The parts of the log's segments from `offset` on; none where the log ends there."""
    files = []
    for segment in log.segments:
        position = segment.position_of(offset)
        if position >= segment.size:
            continue
        is_whole = segment.base_offset > offset
        base = segment.base_offset
        if not is_whole:
            with open(segment.path, "rb") as file:
                base = read_header(os.pread(file.fileno(), HEADER_BYTES, position)).base_offset
        files.append(TailFile(segment.path, position, segment.size - position, base, is_whole))
    return files


def keep_tail(files: Sequence[TailFile], log_directory: str, folder: str, line: dict[str, object]) -> None:
    """Keeps the files in a new `folder`, and adds `line` to the list. Blocks for the disk. Raises LogDirectoryFailure."""
    try:
        os.mkdir(folder)
        restrict_folder(folder)
        for file in files:
            _keep(file, f"{folder}/{file.base_offset:020d}.log")
        sync_directory(folder)
        with open(f"{log_directory}/{CUTS_FILE}", "ab") as cuts:
            cuts.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            cuts.flush()
            os.fsync(cuts.fileno())
        sync_directory(log_directory)
    except OSError as error:
        raise LogDirectoryFailure(log_directory, f"keeping records in {folder}", error) from error


def _keep(file: TailFile, path: str) -> None:
    if file.is_whole:
        try:
            os.link(file.path, path)
        except OSError:
            pass  # a file system without links
        else:
            return
    copy_part(file.path, file.position, file.size, path)
