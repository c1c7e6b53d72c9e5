"""Errors of archives."""

from __future__ import annotations


class ArchiveError(Exception):
    """A table cannot be opened, written or read. `status`: of the command line (docs/command-line.md)."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class TableChanged(ArchiveError):
    """Another process has committed offsets to the table."""


class SparkEnded(Exception):
    """The session of Spark has ended: another process begins with another one."""
