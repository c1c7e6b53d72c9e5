"""Values of logical types as fastavro reads them: the functions that it calls for a marked schema."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from decimal import Decimal

from .avro_logical import (
    AS_TEXT,
    IN_UNION,
    PATH,
    PREFIX,
    TEMPORAL,
    TYPES,
    WHOLE,
    AvroType,
    AvroValue,
    Logical,
    logical_type,
)
from .avro_times import temporal, text_of

#: Zeros in the text of a big-decimal.
_MOST_SCALE = 10_000
_FLOAT = struct.Struct("<f")

_is_registered = False


def register() -> None:
    """Adds names of our own to those of fastavro, whose logical types stay as they are."""
    global _is_registered
    if _is_registered:
        return
    import fastavro

    for logical, kinds in TYPES.items():
        for kind in kinds:
            fastavro.read.LOGICAL_READERS[f"{kind}-{PREFIX}{logical}"] = _reader(logical)
    for kind in ("int", "long"):
        fastavro.read.LOGICAL_READERS[f"{kind}-{PREFIX}{WHOLE}"] = _whole
    _is_registered = True


def _whole(data: int, writer: AvroType, reader: AvroType = None) -> AvroValue:
    """An integer, or the float that has exactly its value where the reader has floats."""
    kind = reader.get("type") if isinstance(reader, dict) else reader
    if kind not in ("float", "double"):
        return data
    made = float(data) if kind == "double" else _FLOAT.unpack(_FLOAT.pack(data))[0]
    if int(made) != data:
        raise ValueError(f"{writer[PATH]} is {data}, which a {kind} would round")
    return made


def _reader(logical: str) -> Callable[[AvroValue, AvroType, AvroType], AvroValue]:
    of_bytes = _VALUES.get(logical)

    def read(data: AvroValue, writer: AvroType, reader: AvroType = None) -> AvroValue:
        target = reader if reader is not None else writer
        wanted = logical_type(target)
        if wanted is None:  # the reader takes the type below it
            return data
        value = of_bytes(data, writer) if of_bytes is not None else data
        if logical in TEMPORAL:
            value = temporal(value, logical, wanted, writer[PATH])
        elif wanted != logical:
            raise ValueError(f"{writer[PATH]} is written as {logical}, and read as {wanted}")
        if target.get(AS_TEXT):
            return text_of(value, wanted)
        return Logical(wanted, value) if target.get(IN_UNION) else value

    return read


def _decimal(data: bytes, schema: AvroType) -> Decimal:
    unscaled = int.from_bytes(data, "big", signed=True)
    scale, precision = int(schema.get("scale", 0)), int(schema["precision"])
    if abs(unscaled) >= 10**precision:
        raise ValueError(
            f"{schema[PATH]} is {_shown(unscaled)}, a decimal of more than its precision of {precision} digits"
        )
    return Decimal(f"{unscaled}E{-scale}")


def _shown(number: int) -> str:
    return str(number) if abs(number) < 10**60 else f"a number of {number.bit_length()} bits"


def _big_decimal(data: bytes, schema: AvroType) -> str:
    """The bytes of a number, as `bytes` of Avro, and its scale, as an `int`."""
    try:
        size, at = _zigzag(data, 0)
        scale, end = _zigzag(data, at + size)
    except IndexError:
        size = scale = end = at = -1
    if not 0 <= size <= len(data) - at or end != len(data) or abs(scale) > _MOST_SCALE:
        raise ValueError(f"{schema[PATH]} is not a big-decimal")
    return format(Decimal(f"{int.from_bytes(data[at : at + size], 'big', signed=True)}E{-scale}"), "f")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at


def zigzag_of(number: int) -> bytes:
    """An `int` or a `long` of Avro."""
    raw, made = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while raw >= 0x80:
        made.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*made, raw))


def _uuid(data: AvroValue, schema: AvroType) -> str:
    return str(uuid.UUID(bytes=data)) if isinstance(data, bytes) else str(data)


def _duration(data: bytes, schema: AvroType) -> dict[str, int]:
    return dict(zip(("months", "days", "milliseconds"), struct.unpack("<III", data), strict=True))


_VALUES: dict[str, Callable[[AvroValue, AvroType], AvroValue]] = {
    "decimal": _decimal, "big-decimal": _big_decimal, "uuid": _uuid, "duration": _duration,
}  # fmt: skip
