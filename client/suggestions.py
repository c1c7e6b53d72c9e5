"""The known word that was probably meant by another."""

from __future__ import annotations

from collections.abc import Iterable

from .message_text import MOST_SHOWN_CHARACTERS


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean X?` for the known word that is most like this one; "" when none is."""
    from difflib import get_close_matches

    found = get_close_matches(word[:MOST_SHOWN_CHARACTERS], sorted(set(known)), n=1)
    return f", did you mean {found[0]}?" if found else ""
