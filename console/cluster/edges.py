"""Edges: where a search continues in each partition, as a part of an address."""

from __future__ import annotations

from ...client.user_errors import Misused
from ..whole_numbers import MOST_INT32, whole_number


def edges_text(edges: dict[int, int]) -> str:
    """Edges as a part of an address: `0.1500-1.1480`."""
    return "-".join(f"{partition}.{offset}" for partition, offset in sorted(edges.items()))


def edges_of(text: str) -> dict[int, int]:
    """Raises Misused for a text that `edges_text` did not make."""
    found: dict[int, int] = {}
    for one in text.split("-") if text else ():
        partition, _, offset = one.partition(".")
        place, edge = whole_number(partition, 0, MOST_INT32), whole_number(offset, 0)
        if place is None or edge is None:
            raise Misused("the position of the search cannot be read: start the search again")
        found[place] = edge
    return found
