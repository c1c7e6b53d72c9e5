"""Comparison of the files of many replicas with their notes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from .modes import RIGHTS_OF_OTHERS
from .segment_files import LOG_SUFFIX

if TYPE_CHECKING:
    from .clean_replicas import CleanReplica

try:
    from odradek_kernel import stat_files as _kernel
except ImportError:  # pip had no compiler; the kernel may be of another version in a checkout.
    _kernel = None

#: Size, time and mode of a file, as the kernel returns them.
_STATE = struct.Struct("=qqq")
_NO_FILE = 0, 0, -1


class NoteState(IntEnum):
    """How far the files of a replica are as its note has them."""

    #: There is no note, or the folder was changed.
    OUTDATED = 0
    #: Segments were changed, and no other file.
    SAME_FOLDER = 1
    SAME_FILES = 2


def compare_with_notes(replicas: Sequence[tuple[str, CleanReplica | None]]) -> list[NoteState]:
    """Compares the folder and the segments of each replica, of which it gets the path and the note, with the note.

    The compiled kernel (kernel/small_log.c) looks at all files in one call, which leaves the interpreter to other threads.
    """
    paths: list[str] = []
    for path, noted in replicas:
        if noted is not None:
            paths.append(path)
            if noted.log is not None:
                paths += [f"{path}/{segment[0]:020d}{LOG_SUFFIX}" for segment in noted.log.segments]
    states = _states_of(paths)
    return [NoteState.OUTDATED if noted is None else _compared(noted, states) for _, noted in replicas]


def _compared(noted: CleanReplica, states: Iterator[tuple[int, int, int]]) -> NoteState:
    """Takes the states of the replica's files from the iterator, whether the first ones are as noted or not."""
    _, modified_ns, mode = next(states)
    is_same_folder = mode >= 0 and not mode & RIGHTS_OF_OTHERS and modified_ns == noted.modified_ns
    are_same = True
    for segment in noted.log.segments if noted.log is not None else ():
        size, modified_ns, mode = next(states)
        are_same = are_same and mode >= 0 and size == segment.size and modified_ns == segment.modified_ns
    if not is_same_folder:
        return NoteState.OUTDATED
    return NoteState.SAME_FILES if are_same else NoteState.SAME_FOLDER


def _states_of(paths: list[str]) -> Iterator[tuple[int, int, int]]:
    if _kernel is None:
        return map(_state_of, paths)
    return _STATE.iter_unpack(_kernel(os.fsencode("\0".join((*paths, "")))))


def _state_of(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return _NO_FILE
    return found.st_size, found.st_mtime_ns, found.st_mode
