"""The result of a search: one page of records, and where the next one begins."""

from __future__ import annotations

from dataclasses import dataclass, field

from .records import Record


@dataclass(slots=True)
class SearchResult:
    """`ended` is the reason why the search ended, and `edges` where it continues: empty at the end of the range. Partitions
    of `leaderless` were not read. `notes`: offsets of the query that partitions do not have. `left`: offsets of the range
    that were not read. `scanned`: records that were fetched, some of them again. `read`: those of the range that this page
    has done with, so that the sum over the pages of a search is the number of its records.
    """

    records: list[Record]
    scanned: int = 0
    read: int = 0
    seconds: float = 0.0
    ended: str = ""
    leaderless: dict[int, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    edges: dict[int, int] = field(default_factory=dict)
    #: Where the search began.
    begun: dict[int, int] = field(default_factory=dict)
    left: int = 0
    #: Offsets of the range when the search began.
    total: int = 0
