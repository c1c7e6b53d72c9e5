"""The least end of a log: the offset up to which records were known as flushed, committed or followed.

A file cut at the boundary of two batches looks whole. Other files remember more: the checkpoints of the log
directory, the names of producer snapshots, the epochs' starts. One of these may be the damaged one, so a claim that
stands alone counts only when the checksum of its file is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: A claim that needs no other.
PROVEN = 2
#: A claim that needs another beside it.
UNPROVEN = 1


class Claim(NamedTuple):
    """Evidence from `source` that there were records below `offset`."""

    offset: int
    weight: int
    source: str


def known_end(claims: Iterable[Claim], *, weight: int = 0) -> Claim | None:
    """The highest offset that is proven: by one claim, or by several that reach it. `weight`: of what else is known."""
    ordered = sorted(claims, key=lambda claim: -claim.offset)
    for claim in ordered:
        weight += claim.weight
        if weight >= PROVEN:
            return claim
    return None
