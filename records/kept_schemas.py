"""The limit of parsed schemas that decoders keep."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
#: Parsed schemas that are kept: a topic of bytes that only look like values with schemas has many different ids.
_MOST_KEPT = 500


def drop_oldest(kept: dict[K, V]) -> None:
    if len(kept) >= _MOST_KEPT:
        del kept[next(iter(kept))]
