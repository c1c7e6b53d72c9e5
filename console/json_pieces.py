"""A line of JSON as pieces with their classes, for colours."""

from __future__ import annotations

import re

#: Pieces of JSON: a name of a field, a text, a number, a word.
_PIECE = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*(?:"|$))'
    r"|(?P<numeral>-?\b\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)"
)


def pieces_of(text: str) -> list[tuple[str, str]]:
    """A line of JSON as pieces with their classes: for colours. Nothing for another text."""
    if text[:1] not in ("{", "["):
        return []
    made: list[tuple[str, str]] = []
    end = 0
    for found in _PIECE.finditer(text):
        if found.start() > end:
            made.append(("", text[end : found.start()]))
        made.append((str(found.lastgroup), found[0]))
        end = found.end()
    return [*made, ("", text[end:])] if end < len(text) else made
