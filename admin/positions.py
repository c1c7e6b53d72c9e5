"""Positions in logs as texts: where a reading, or a reset of offsets, begins or ends (`-o`, `--until`, `--to`).

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

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..client.user_errors import Misused

_RELATIVE = re.compile(r"-(\d{1,12})(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_NAMED = {"beginning": "beginning", "earliest": "beginning", "end": "end", "latest": "end", "stored": "stored"}
#: librdkafka's logical offsets.
BEGINNING, END, STORED, TAIL = -2, -1, -1000, -2000
_MOST = (1 << 63) - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        return Position(TAIL + int(words))
    raise Misused(
        f"{text!r} is not a position: give beginning, end, an offset, -N (the last N), @TIME or an age such as -1h"
    )


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, or an ISO 8601 time; without a zone it is local time. Raises Misused."""
    if re.fullmatch(r"-?\d{1,19}", text) and -_MOST - 1 <= int(text) <= _MOST:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError, OSError):
        raise Misused(f"{text!r} is not a time: give milliseconds or ISO 8601, such as 2026-01-31T12:00:00Z") from None
