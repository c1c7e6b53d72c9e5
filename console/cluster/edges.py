"""Edges: where a search continues in each partition, as a part of an address."""

from __future__ import annotations

from ...client.user_errors import UserError


def edges_text(edges: dict[int, int]) -> str:
    """Edges as a part of an address: `0.1500-1.1480`."""
    return "-".join(f"{partition}.{offset}" for partition, offset in sorted(edges.items()))


def edges_of(text: str) -> dict[int, int]:
    """Raises Misused for a text that `edges_text` did not make."""
    try:
        pairs = [one.split(".") for one in text.split("-") if one]
        found = {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        raise UserError("the position of the search cannot be read: start the search again") from None
    return found
