"""Invariants of the quorum's own state: they hold regardless of what peers send."""

from __future__ import annotations

from .invariants import BrokenInvariant


class DivergedCommit(BrokenInvariant):
    """The leader's log differs from ours below the high watermark: committed records would change. It is never followed."""


def must_hold(condition: bool, words: str) -> None:
    """Raises BrokenInvariant unless `condition`."""
    if not condition:
        raise BrokenInvariant(words)
