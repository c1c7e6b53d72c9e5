"""Values of JSON as values of the plain types of Avro: numbers, texts and bytes."""

from __future__ import annotations

import base64
import json
import math
import struct
from decimal import Decimal

from .avro_logical import AvroType, AvroValue

PLAIN = ("null", "boolean", "int", "long", "float", "double", "string")
_BITS = {"int": 31, "long": 63}
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


def name_of(branch: AvroType) -> str:
    if isinstance(branch, str):
        return branch
    return str(branch.get("name", branch["type"]))


def check(fits: bool, value: AvroValue, kind: str, path: str) -> None:
    if not fits:
        raise ValueError(f"{path.lstrip('.') or 'the value'} is {shown(value)}, not {kind}")


def shown(value: AvroValue) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}..."


def of_plain(schema: AvroType, kind: str, value: AvroValue, path: str) -> AvroValue:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if kind in _BITS:
        check(is_integer and -(1 << _BITS[kind]) <= value < 1 << _BITS[kind], value, kind, path)
    elif kind in ("float", "double"):
        return _of_float(value, kind, path)
    elif kind in ("bytes", "fixed"):
        check(isinstance(value, str), value, kind, path)
        try:
            value = base64.b64decode(value, validate=True)
        except ValueError:
            raise ValueError(f"{path.lstrip('.') or 'the value'} is {shown(value)}, and {kind} takes base64") from None
        check(kind == "bytes" or len(value) == schema["size"], value, f"fixed of {len(value)} bytes", path)
    elif kind == "enum":
        check(isinstance(value, str) and value in schema["symbols"], value, f"a symbol of {schema['name']}", path)
    else:
        types: dict[str, type] = {"string": str, "boolean": bool, "null": type(None)}
        check(isinstance(value, types[kind]), value, kind, path)
    return value


def _of_float(value: AvroValue, kind: str, path: str) -> float:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    check(is_number or (isinstance(value, str) and value in _NOT_FINITE), value, kind, path)
    made = float(value)
    if isinstance(value, int):
        check(int(made) == value, value, f"a {kind}, which would round it", path)
    check(not isinstance(value, Decimal) or math.isfinite(made), value, kind, path)
    if kind == "float" and math.isfinite(made):
        try:
            struct.pack("<f", made)
        except OverflowError:
            check(False, value, kind, path)
    return made
