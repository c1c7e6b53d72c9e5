"""Values of configs as people read them."""

from __future__ import annotations

from .formats import age, size
from .whole_numbers import MOST_INT64, whole_number

_TO_MILLISECONDS = {".hours": 3_600_000, ".minutes": 60_000}


def with_unit(key: str, value: str | None) -> str:
    """604800000 of retention.ms is `7.0 d`; "" where the value reads as it is."""
    number = whole_number(value or "")
    if number is None:
        return ""
    is_time, is_size = key.endswith(".ms"), key.endswith((".bytes", ".bytes.per.second"))
    if number == -1 and (is_time or is_size):
        return "no limit"
    if number == MOST_INT64:
        return "no limit"
    if number == -2:
        return "as the log's"
    if is_time:
        return str(age(number))
    return str(size(number)) if is_size else ""


def in_unit_of(key: str, synonym: str, value: str) -> str:
    """A broker's value in the unit of the topic's key: log.retention.hours is a synonym of retention.ms."""
    factor = next((one for suffix, one in _TO_MILLISECONDS.items() if synonym.endswith(suffix)), None)
    number = whole_number(value, least=0)
    if factor is None or not key.endswith(".ms") or number is None:
        return value
    return str(number * factor)
