"""Values of JSON as values of the logical types of Avro: decimals, uuids, durations, dates and times."""

from __future__ import annotations

import datetime
import re
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from .avro_logical import TEMPORAL, AvroType, AvroValue
from .avro_logical_values import zigzag_of
from .avro_plain_input import check, of_plain, shown

_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)?[ T]?(?P<time>\d\d:\d\d(:\d\d)?)?(\.(?P<part>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)?"
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def of_logical(schema: AvroType, logical: str, value: AvroValue, path: str) -> AvroValue:
    if logical in TEMPORAL:
        if isinstance(value, int) and not isinstance(value, bool):
            return int(of_plain(schema, schema["type"], value, path))
        return _of_time(value, logical, path)
    try:
        return _MADE[logical](value, schema)
    except (ValueError, TypeError, KeyError, InvalidOperation, struct.error, OverflowError) as error:
        raise ValueError(
            f"{path.lstrip('.')} is {shown(value)}, not {logical}: {error or type(error).__name__}"
        ) from None


def _decimal(value: AvroValue, schema: AvroType) -> bytes:
    scale, precision = int(schema.get("scale", 0)), int(schema["precision"])
    number = _unscaled(_number(value), scale)
    if abs(number) >= 10**precision:
        raise ValueError(f"it has more than {precision} digits")
    if schema["type"] == "fixed":
        return number.to_bytes(schema["size"], "big", signed=True)
    return _bytes_of(number)


def _number(value: AvroValue) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError("it is not a number")
    made = Decimal(value)
    if not made.is_finite():
        raise ValueError("it is not a number")
    return made


def _unscaled(number: Decimal, scale: int) -> int:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent + scale
    unscaled: int = int("".join(map(str, digits)))
    if shift < 0:
        parts = int(10**-shift)
        unscaled, rest = divmod(unscaled, parts)
        if rest:
            raise ValueError(f"it has more than {scale} digits after the point")
    else:
        unscaled *= int(10**shift)
    return -unscaled if sign else unscaled


def _bytes_of(number: int) -> bytes:
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _big_decimal(value: AvroValue, schema: AvroType) -> bytes:
    number = _number(value)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    unscaled = _bytes_of(_unscaled(number, -exponent))
    return zigzag_of(len(unscaled)) + unscaled + zigzag_of(-exponent)


def _uuid(value: AvroValue, schema: AvroType) -> AvroValue:
    if not isinstance(value, str):
        raise ValueError("it is not text")
    made = uuid.UUID(value)
    return made.bytes if schema["type"] == "fixed" else value


def _duration(value: AvroValue, schema: AvroType) -> bytes:
    return struct.pack("<III", value["months"], value["days"], value["milliseconds"])


_MADE: dict[str, Callable[[AvroValue, AvroType], AvroValue]] = {
    "decimal": _decimal, "big-decimal": _big_decimal, "uuid": _uuid, "duration": _duration,
}  # fmt: skip


def _of_time(value: AvroValue, logical: str, path: str) -> int:
    parts, size = TEMPORAL[logical]
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    is_date, is_time = logical == "date", logical.startswith("time-")
    has = (found and found["day"] is not None, found and found["time"] is not None)
    check(found is not None and has == (not is_time, not is_date), value, logical, path)
    assert found is not None
    try:
        zone = "+00:00" if found["zone"] in (None, "Z") else found["zone"]
        stamp = datetime.datetime.fromisoformat(f"{found['day'] or '1970-01-01'}T{found['time'] or '00:00'}{zone}")
    except ValueError:
        check(False, value, logical, path)
    nanos = int((found["part"] or "").ljust(9, "0"))
    whole = stamp - _EPOCH
    number, rest = divmod(((whole.days * 86_400 + whole.seconds) * 1_000_000_000 + nanos) * parts, 1_000_000_000 * size)
    check(not rest, value, f"{logical}, which would round it", path)
    return number
