"""A value in the words of a reason, cut to a number of characters."""

from __future__ import annotations


def shown_value(value: object, most_characters: int) -> str:
    text = str(value)
    return text if len(text) <= most_characters else f"{text[:most_characters]}..."
