"""Values as people read them: numbers, sizes, ages and times, values of configs, and texts that a page can draw."""

from __future__ import annotations

import base64
import json
import unicodedata
from datetime import UTC, datetime

#: Shown where there is no value.
NONE = "\N{EN DASH}"


class Figure(str):
    """A number as a text. Tables align it to the right, and sort by `value`."""

    value: float | None

    def __new__(cls, text: str, value: float | None = None) -> Figure:
        made = super().__new__(cls, text)
        made.value = value
        return made


_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def size(count: int | None) -> Figure:
    """Bytes in decimal units: 1234567 is 1.2 MB."""
    if count is None or count < 0:
        return Figure(NONE)
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return Figure(f"{count} B" if not unit else f"{value:.1f} {_UNITS[unit]}", count)


def number(value: float | None) -> Figure:
    """With thin spaces between thousands; one decimal for fractions below 100."""
    if value is None:
        return Figure(NONE)
    if isinstance(value, float) and (value != int(value)) and abs(value) < 100:
        return Figure(f"{value:.1f}", value)
    return Figure(f"{round(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}"), value)


def age(milliseconds: int | None) -> Figure:
    if milliseconds is None:
        return Figure(NONE)
    seconds = milliseconds / 1000
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return Figure(f"{seconds / length:.1f} {unit}", seconds)
    return Figure(f"{seconds:.1f} s", seconds)


def when(timestamp_ms: int | None) -> str:
    """In UTC, to the millisecond."""
    if timestamp_ms is None or timestamp_ms < 0:
        return NONE
    try:
        made = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{made:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def iso(timestamp_ms: int) -> str:
    """For the `datetime` of a <time>; "" for a time that no calendar has."""
    text = when(timestamp_ms)
    return f"{text.replace(' ', 'T')}Z" if "-" in text else ""


def numbers(values: list[int]) -> str:
    return ", ".join(map(str, values)) or NONE


# ---- values of configs

_LARGEST = (1 << 63) - 1
_TO_MILLISECONDS = {".hours": 3_600_000, ".minutes": 60_000}


def with_unit(key: str, value: str | None) -> str:
    """604800000 of retention.ms is `7.0 d`; "" where the value reads as it is."""
    text = value or ""
    if not text.lstrip("-").isdecimal():
        return ""
    number = int(text)
    is_time, is_size = key.endswith(".ms"), key.endswith((".bytes", ".bytes.per.second"))
    if number == -1 and (is_time or is_size):
        return "no limit"
    if number == _LARGEST:
        return "no limit"
    if number == -2:
        return "as the log's"
    if is_time:
        return str(age(number))
    return str(size(number)) if is_size else ""


def in_unit_of(key: str, synonym: str, value: str) -> str:
    """A broker's value in the unit of the topic's key: log.retention.hours is a synonym of retention.ms."""
    factor = next((one for suffix, one in _TO_MILLISECONDS.items() if synonym.endswith(suffix)), None)
    if factor is None or not key.endswith(".ms") or not value.isdecimal():
        return value
    return str(int(value) * factor)


# ---- texts

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
    text = json.dumps(value, ensure_ascii=False, default=_for_json, indent=indent)
    return escaped(text)


def escaped(text: str) -> str:
    """The text with escapes for characters that no font draws."""
    if is_drawn(text):
        return text
    return "".join(one if one in _SPACES or is_drawn(one) else json.dumps(one)[1:-1] for one in text)


def _for_json(content: object) -> str:
    """Avro has bytes, dates and decimals, which JSON has not."""
    return base64.b64encode(content).decode() if isinstance(content, bytes) else str(content)
