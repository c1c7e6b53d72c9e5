"""The exception for a broken invariant of the quorum."""

from __future__ import annotations


class BrokenInvariant(AssertionError):
    """The state of a quorum replica is inconsistent. It must not vote, lead or follow any more."""
