"""Failures of the quorum's own state: what must never be, whatever others send."""

from __future__ import annotations


class BrokenInvariant(AssertionError):
    """The state of this replica contradicts itself. It must neither vote nor lead nor follow any more."""


class DivergedCommit(BrokenInvariant):
    """The leader's log differs from ours below the high watermark: committed records would change. Never to be obeyed."""


def must_hold(condition: bool, words: str) -> None:
    """Raises BrokenInvariant unless `condition`."""
    if not condition:
        raise BrokenInvariant(words)
