"""Requests that may go to a second broker while the first has not answered."""

from __future__ import annotations

#: A request that any broker serves, and that only reads, goes to the next one after this time.
ANY_S = 2.0
_READS = ("ApiVersions", "Describe", "FindCoordinator", "List", "Metadata")


def only_reads(request: object) -> bool:
    """Whether a request changes nothing."""
    return type(request).__name__.startswith(_READS)
