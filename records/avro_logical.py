"""Logical types of Avro as exact values: numbers of the unit, decimals of all digits, texts.

fastavro makes objects of Python of them, which have the years 1 to 9999, microseconds, and decimals rounded to their
precision. A marked schema has names of our own in place of the logical types, and fastavro calls functions of ours.

| logical type | value | bounds |
|---|---|---|
| date | days since 1970 | years 1 to 9999 |
| time-millis, time-micros | number since midnight | one day |
| timestamp-millis, -micros, -nanos, local-timestamp-... | number since 1970 | years 1 to 9999, of nanos 1678 to 2261 |
| decimal | Decimal | digits of its precision |
| big-decimal, uuid | the text | |
| duration | a dict of months, days, milliseconds | |

A logical type on another type than Avro gives it, and an unknown one, is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from fastavro.types import AvroMessage, Schema

#: A schema as fastavro parses it: a name, a list of a union, or a dict.
AvroType: TypeAlias = "Schema"
#: A value of any Avro type.
AvroValue: TypeAlias = "AvroMessage"
PREFIX = "odradek-"
#: In a marked schema: the field that a type is in; whether values become texts; whether they are a branch of a union.
PATH, AS_TEXT, IN_UNION = "odradek.path", "odradek.text", "odradek.union"
#: In a marked schema: the name in place of a logical type of integers that have none.
WHOLE = "whole"
TEMPORAL = {
    "date": (1, 86_400), "time-millis": (1000, 1), "time-micros": (1_000_000, 1),
    **{
        f"{local}timestamp-{unit}": (parts, 1)
        for local in ("", "local-")
        for unit, parts in (("millis", 1000), ("micros", 1_000_000), ("nanos", 1_000_000_000))
    },
}  # fmt: skip
"""Units of a second, and seconds of a unit."""
TYPES = {
    **dict.fromkeys(TEMPORAL, ("long",)), "date": ("int",), "time-millis": ("int",), "decimal": ("bytes", "fixed"),
    "big-decimal": ("bytes",), "uuid": ("string", "fixed"), "duration": ("fixed",),
}  # fmt: skip
_SIZES = {"uuid": 16, "duration": 12}


class Logical(NamedTuple):
    """A value of a branch of a union: `kind` is the logical type."""

    kind: str
    value: AvroValue


def logical_type(schema: AvroType) -> str | None:
    """The logical type of a schema that is valid there, marked or not."""
    if not isinstance(schema, dict):
        return None
    name = str(schema.get("logicalType")).removeprefix(PREFIX)
    if schema.get("type") not in TYPES.get(name, ()):
        return None
    if schema["type"] == "fixed" and schema.get("size") != _SIZES.get(name, schema.get("size")):
        return None
    return name
