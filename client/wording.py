"""Words of messages that depend on a number."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 record`, `2 records`; `plural` where an s does not make it."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
