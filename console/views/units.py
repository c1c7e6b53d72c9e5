"""Values of configs as people read them: the unit follows from the key, as Kafka names its keys."""

from __future__ import annotations

from .formats import age, size

_LARGEST = (1 << 63) - 1


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
