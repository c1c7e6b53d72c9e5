"""Dates and times of Avro: numbers of a unit, their bounds, and their text."""

from __future__ import annotations

import datetime

from .avro_logical import TEMPORAL, AvroValue

#: The years 1 to 9999 in seconds.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
#: Nanoseconds of 64 bits, neither of which is an infinity of DuckDB.
_LAST_NS = (1 << 63) - 2
_DAY_S = 86_400

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def temporal(number: int, written: str, wanted: str, path: str) -> int:
    """A number of the writer's unit in that of the reader. Raises ValueError for a time outside of the bounds."""
    if written != wanted:
        number = _in_unit(number, written, wanted, path)
    parts, size = TEMPORAL[wanted]
    if wanted.startswith("time-"):
        if not 0 <= number < _DAY_S * parts:
            raise ValueError(f"{path} is {number}, and a {wanted} is between 0 and a day")
    elif parts == 1_000_000_000:
        if abs(number) > _LAST_NS:
            raise ValueError(f"{path} is {number}, and a {wanted} has the years 1678 to 2261")
    elif not _FIRST_S <= number * size // parts <= _LAST_S:
        raise ValueError(f"{path} is {number}, and a {wanted} has the years 1 to 9999")
    return number


def _in_unit(number: int, written: str, wanted: str, path: str) -> int:
    families = [name.rpartition("-")[0] for name in (written, wanted)]
    if wanted not in TEMPORAL or families[0] != families[1]:
        raise ValueError(f"{path} is written as {written}, and read as {wanted}")
    made, rest = divmod(number * TEMPORAL[wanted][0], TEMPORAL[written][0])
    if rest:
        raise ValueError(f"{path} is {number} as {written}, which {wanted} would round")
    return made


def text_of(value: AvroValue, logical: str) -> AvroValue:
    """A value as JSON has it: text, or a dict of numbers."""
    if logical == "decimal":
        return format(value, "f")
    if logical not in TEMPORAL:
        return value
    parts, size = TEMPORAL[logical]
    seconds, rest = divmod(value * size, parts)
    nanos = rest * (1_000_000_000 // parts)
    stamp = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanos // 1000)
    if logical == "date":
        return str(stamp.date())
    if logical.startswith("time-"):
        return str(stamp.time())
    finer = f"{nanos % 1000:03}" if nanos % 1000 else ""
    text = stamp.replace(tzinfo=None).isoformat(" ", "microseconds" if finer else "auto") + finer
    return text if logical.startswith("local-") else f"{text}+00:00"
