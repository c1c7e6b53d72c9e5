"""Texts that a page can draw."""

from __future__ import annotations

import json
import unicodedata

from .documents import written

#: Categories of characters that no font draws: control characters, surrogates, private and unassigned ones.
_NOT_DRAWN = frozenset(("Cc", "Cs", "Co", "Cn"))
_SPACES = "\n\r\t"


def drawn_text(data: bytes) -> str | None:
    """The text, or None for bytes that are none, or that have characters which a page draws as boxes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if is_drawn(text) else None


def is_drawn(text: str) -> bool:
    return text.isprintable() or not any(
        one not in _SPACES and unicodedata.category(one) in _NOT_DRAWN for one in text if not one.isprintable()
    )


def json_text(value: object, indent: int | None = None) -> str:
    """JSON whose texts have characters that no font draws as escapes."""
    return escaped(written(value, indent))


def escaped(text: str) -> str:
    """The text with escapes for characters that no font draws."""
    if is_drawn(text):
        return text
    return "".join(one if one in _SPACES or is_drawn(one) else json.dumps(one)[1:-1] for one in text)
