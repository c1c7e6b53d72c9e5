"""The keys that a condition of Arrow asks for."""

from __future__ import annotations

from collections.abc import Iterator

#: How Arrow shows conditions.
_EQUAL, _AND = '(key == "', " and "


def keys_of(condition: object, is_text: bool) -> tuple[bytes, ...]:
    """Keys that every row which passes an expression of Arrow has: its conditions `key = x` that are joined by "and".

    Arrow shows the parts of an expression as text only. A key is left out where the text does not show it for sure.
    """
    found = []
    for one in _conjuncts(str(condition)):
        if one.startswith(_EQUAL) and one.endswith('")'):
            key = _literal(one[len(_EQUAL) : -2], is_text)
            if key is not None:
                found.append(key)
    return tuple(found)


def _literal(text: str, is_text: bool) -> bytes | None:
    if is_text:  # with escapes, and in a scan such as \xff for bytes that are no text
        return None if {'"', "\\"} & set(text) or not text.isprintable() else text.encode()
    try:
        return bytes.fromhex(text) if text.isalnum() or not text else None
    except ValueError:
        return None


def _conjuncts(text: str) -> Iterator[str]:
    """The parts of "((a and b) and c)"; one that is no conjunction is whole."""
    at = _place_of_and(text)
    if at < 0:
        yield text
        return
    yield from _conjuncts(text[1:at])
    yield from _conjuncts(text[at + len(_AND) : -1])


def _place_of_and(text: str) -> int:
    """Where the two parts of "(a and b)" are joined; -1 for any other text."""
    if not text.startswith("(") or not text.endswith(")"):
        return -1
    depth, is_quoted, found, at = 0, False, -1, 0
    while at < len(text):
        sign = text[at]
        if is_quoted:
            at += sign == "\\"
            is_quoted = sign != '"'
        elif sign == '"':
            is_quoted = True
        else:
            depth += (sign in "([{") - (sign in ")]}")
            if depth == 0 and at < len(text) - 1:
                return -1
            if depth == 1 and found < 0 and text.startswith(_AND, at):
                found = at
        at += 1
    return found if depth == 0 and not is_quoted else -1
