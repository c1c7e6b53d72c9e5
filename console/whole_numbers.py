"""Whole numbers as texts of addresses, forms and records: ASCII digits after at most one sign, within Kafka's types."""

from __future__ import annotations

import re

MOST_INT16, MOST_INT32, MOST_INT64 = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1
_NUMBER = re.compile(r"-?[0-9]{1,19}")


def whole_number(text: str, least: int = -MOST_INT64 - 1, most: int = MOST_INT64) -> int | None:
    """The number; None for a text that is none, or one beyond the limits."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if least <= number <= most else None


def is_whole(value: object, least: int, most: int) -> bool:
    """Whether a value of JSON is a whole number within the limits."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
