"""The records that a command selects: where it begins and ends (`-o`, `--until`), and the filters that a record must pass.

| text of `-o` | begin with |
|---|---|
| beginning, earliest | the first record of each partition |
| end, latest | records that come from now on |
| stored | the group's committed offsets |
| 123 | that offset in each partition |
| -5 | the last five records of each partition |
| @1700000000000, @2026-01-31T12:00:00Z | the first record at or after a time |
| -1h | the first record of the last hour; s, m, h, d, w |
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from ..client.errors import Misused

if TYPE_CHECKING:
    from .consumed import ConsumedRecord, Content

# ---- positions

_RELATIVE = re.compile(r"-(\d{1,12})(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_NAMED = {"beginning": "beginning", "earliest": "beginning", "end": "end", "latest": "end", "stored": "stored"}
#: librdkafka's logical offsets.
BEGINNING, END, STORED, _TAIL = -2, -1, -1000, -2000
_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Position:
    """Either a logical or real `offset` in librdkafka's numbers, or a `timestamp_ms`."""

    offset: int | None = None
    timestamp_ms: int | None = None


def parse_position(text: str, now_s: float | None = None) -> Position:
    """Raises Misused for a text that is none of the forms."""
    words = text.strip().lower()
    if words in _NAMED:
        return Position({"beginning": BEGINNING, "end": END, "stored": STORED}[_NAMED[words]])
    if words.startswith("@"):
        return Position(timestamp_ms=timestamp_ms(text.strip()[1:]))
    relative = _RELATIVE.fullmatch(words)
    if relative:
        now_ms = int((time.time() if now_s is None else now_s) * 1000)
        return Position(timestamp_ms=max(0, now_ms - int(relative[1]) * _UNIT_MS[relative[2]]))
    if re.fullmatch(r"\d{1,19}", words) and int(words) <= _MOST:
        return Position(int(words))
    if re.fullmatch(r"-\d{1,9}", words) and int(words):
        return Position(_TAIL + int(words))
    raise Misused(
        f"{text!r} is not a position: give beginning, end, an offset, -N (the last N), @TIME or an age such as -1h"
    )


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, or an ISO 8601 time; without a zone it is local time. Raises Misused."""
    if re.fullmatch(r"\d{1,16}", text):
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise Misused(f"{text!r} is not a time: give milliseconds or ISO 8601, such as 2026-01-31T12:00:00Z") from None


@dataclass(slots=True)
class Selection:
    """The records to read. `partitions` empty: all. `until` None: to the end, or for ever with `follow`."""

    topics: Sequence[str]
    partitions: Sequence[int] = ()
    start: Position = field(default_factory=lambda: Position(END))
    until: Position | None = None
    follow: bool = False
    count: int | None = None
    group: str | None = None
    committed: bool = True


# ---- filters

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
