"""Options of a scan as users give them, checked."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from .errors import InvalidScan
from .record_schema import SCHEMA, VALUE_ERROR

Time = int | datetime.datetime
Offsets = int | Mapping[int, int]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def checked_columns(columns: Sequence[str], *, is_typed: bool = False) -> tuple[str, ...]:
    """Raises InvalidScan for a column that there is not."""
    if isinstance(columns, str):
        raise InvalidScan(f"columns takes a list of names: [{columns!r}]")
    known = [*SCHEMA.names, VALUE_ERROR.name] if is_typed else SCHEMA.names
    for name in columns:
        if name not in known:
            raise InvalidScan(f"there is no column {name!r}, but {', '.join(known)}")
    if len(set(columns)) != len(columns):
        raise InvalidScan("a column is named twice")
    return tuple(columns)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InvalidScan(f"{name} is {value!r}; it takes {' or '.join(choices)}")


def offsets_of(given: Offsets | None) -> tuple[int | None, dict[int, int]]:
    if given is None:
        return None, {}
    return (given, {}) if isinstance(given, int) else (None, dict(given))


def milliseconds_of(time: Time | None) -> int | None:
    if time is None or isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise InvalidScan(f"{time} has no time zone: datetime.timezone.utc, for example")
    return (time - _EPOCH) // datetime.timedelta(milliseconds=1)
