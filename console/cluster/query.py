"""A query: the records that a viewer wants to see, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...admin.positions import STORED, Position, parse_position
from ...client.user_errors import Misused
from .decoding import AUTO

NEWEST, OLDEST = "newest", "oldest"
ORDERS = (NEWEST, OLDEST)


@dataclass(frozen=True, slots=True)
class Query:
    """`partition` None: all. `start` and `until` are positions of `odradek consume`, empty for the ends of the log.
    `edges`: the offset of each partition from which the search continues, for NEWEST those before it.
    """

    topic: str
    partition: int | None = None
    start: str = ""
    limit: int = 50
    until: str = ""
    order: str = NEWEST
    edges: Mapping[int, int] = field(default_factory=dict)
    key: str = ""
    value: str = ""
    header: str = ""
    where: str = ""
    key_form: str = AUTO
    value_form: str = AUTO
    #: The first request of a search: it ends with the first records that pass.
    is_first: bool = False

    @property
    def has_filter(self) -> bool:
        return bool(self.key or self.value or self.header or self.where)


def position_of(text: str) -> Position | None:
    if not text:
        return None
    found = parse_position(text)
    if found.offset == STORED:
        raise Misused("a search has no group, and so no stored offsets: give beginning, end, an offset or a time")
    return found
