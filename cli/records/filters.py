"""Filters of `consume`: a record must pass all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..client.errors import Misused

if TYPE_CHECKING:
    from .consumed import ConsumedRecord, Content


Filter = Callable[["ConsumedRecord", "Content", "Content"], bool]
"""Takes the message, its decoded key and its decoded value."""


def filters_of(key: str | None, value: str | None, headers: Sequence[str], where: Sequence[str]) -> list[Filter]:
    """Raises Misused for a bad expression."""
    made: list[Filter] = []
    if key is not None:
        made.append(_matching(key, "--key", lambda message: message.key()))
    if value is not None:
        made.append(_matching(value, "--value", lambda message: message.value()))
    made += [_header(text) for text in headers]
    made += [_where(text) for text in where]
    return made


def _compiled(text: str, option: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise Misused(f"{option} {text!r} is not a regular expression: {error}") from None


def _matching(text: str, option: str, part: Callable[[ConsumedRecord], bytes | None]) -> Filter:
    """The whole text when it has no characters of expressions, else a search."""
    pattern = _compiled(text, option)
    if re.escape(text) == text:
        wanted = text.encode()
        return lambda message, key, value: part(message) == wanted
    return lambda message, key, value: pattern.search(part(message) or b"") is not None


def _header(text: str) -> Filter:
    """`NAME` or `NAME=EXPRESSION`."""
    name, equals, expression = text.partition("=")
    pattern = _compiled(expression, "--header") if equals else None

    def passes(message: ConsumedRecord, key: Content, value: Content) -> bool:
        for known, content in message.headers() or ():
            if known == name and (pattern is None or pattern.search(content or b"") is not None):
                return True
        return False

    return passes


def _where(text: str) -> Filter:
    """A JSONPath (RFC 9535) that selects something, or the inside of its filter: `@.total > 10 && @.paid`."""
    import jsonpath

    query = text if text.lstrip().startswith("$") else f"$[?{text}]"
    try:
        compiled = jsonpath.compile(query)
    except jsonpath.JSONPathError as error:
        raise Misused(f"--where {text!r} is not a JSONPath expression: {str(error).splitlines()[0]}") from None
    is_filter = query != text

    def passes(message: ConsumedRecord, key: Content, value: Content) -> bool:
        document = value
        if isinstance(value, str | bytes):
            try:
                document = json.loads(value)
            except ValueError:
                return False
        if document is None:
            return False
        if not is_filter and not isinstance(document, list | dict):
            return False
        return next(iter(compiled.finditer([document] if is_filter else document)), None) is not None

    return passes
