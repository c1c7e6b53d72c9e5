"""The metadata log of a quorum's replica, with the ends that a test sets and no records."""

from __future__ import annotations

from pathlib import Path


class EmptyFlush:
    """A flush of nothing."""

    def __init__(self, up_to_offset: int) -> None:
        self.up_to_offset = up_to_offset

    def run(self) -> None:
        pass


class ScriptedQuorumLog:
    """The log in a folder. `flushes`: the end of the log at each flush."""

    def __init__(self, directory: Path, replicated: ScriptedReplicatedLog) -> None:
        self.directory = directory
        self.flushes: list[int] = []
        self._replicated = replicated

    def prepare_flush(self) -> EmptyFlush:
        return EmptyFlush(self._replicated.end_offset)

    def flushed(self, flush: EmptyFlush, now_ms: int) -> None:
        self.flushes.append(self._replicated.end_offset)


class ScriptedReplicatedLog:
    """The log as the replica has it."""

    def __init__(self, directory: Path) -> None:
        self.synced_offset = self.end_offset = self.lowest_end = 0
        self.quorum_log = ScriptedQuorumLog(directory, self)
