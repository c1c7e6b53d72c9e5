"""Figures as people read them: numbers, sizes, ages and times."""

from __future__ import annotations

from datetime import UTC, datetime

#: Shown where there is no value.
NONE = "\N{EN DASH}"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


class Figure(str):
    """A number as a text. Tables align it to the right, and sort by `value`."""

    value: float | None

    def __new__(cls, text: str, value: float | None = None) -> Figure:
        made = super().__new__(cls, text)
        made.value = value
        return made


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
