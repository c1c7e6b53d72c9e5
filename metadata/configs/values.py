"""Types of configuration values, with Kafka's error texts.

| type | in Python | text |
|---|---|---|
| BOOLEAN | bool | true, false, in any case |
| INT, SHORT, LONG | int | a decimal number that fits 32, 16 or 64 bits |
| DOUBLE | float | a decimal number, NaN or Infinity, shown as Java shows it |
| STRING, CLASS | str | unchanged; a CLASS names a Java class, which is never loaded |
| LIST | tuple of str | comma separated; space around a comma is ignored |
| PASSWORD | Password | never shown |

Space at both ends of a text is ignored. A key without a value has None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from ...protocol.errors import ErrorCode

# Java trims every character up to the space, control characters included.
_BLANK = "".join(map(chr, range(0x21)))
_INTEGER = re.compile(r"([+-]?)0*(\d+)")
_MOST_DIGITS = 19
_DECIMAL = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?|NaN|Infinity)", re.ASCII)
_BESIDE_COMMA = " \t\n\r\f\v"


class ConfigType(IntEnum):
    """The type of a config, with the codes of DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class Password:
    """A secret. Only `value` returns its text, so that it appears in no log line."""

    value: str

    def __str__(self) -> str:
        return "[hidden]"

    __repr__ = __str__


Value = bool | int | float | str | tuple[str, ...] | Password | None


class InvalidConfig(ValueError):
    """An invalid configuration. The text is for the client or operator; `error` is the error code."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.INVALID_CONFIG) -> None:
        super().__init__(message)
        self.error = error


_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}


def invalid_value(name: str, value: object, why: str = "") -> InvalidConfig:
    """Returns Kafka's exception for an invalid value: the key, the value and the reason."""
    return InvalidConfig(f"Invalid value {value} for configuration {name}{': ' if why else ''}{why}")


def parse(name: str, text: str, config_type: ConfigType) -> Value:
    """Returns the typed value of a text; raises InvalidConfig if it does not have the type."""
    trimmed = text.strip(_BLANK)
    match config_type:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise invalid_value(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            number = _whole_number(trimmed)
            limit = 1 << _BITS[config_type] - 1
            if number is None or not -limit <= number < limit:
                raise invalid_value(name, text, f"Not a number of type {config_type.name}")
            return number
        case ConfigType.DOUBLE:
            if not _DECIMAL.fullmatch(trimmed):
                raise invalid_value(name, text, "Not a number of type DOUBLE")
            return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
        case ConfigType.LIST:
            return tuple(element.strip(_BESIDE_COMMA) for element in trimmed.split(",")) if trimmed else ()
        case ConfigType.PASSWORD:
            return Password(trimmed)
        case _:
            return trimmed


def _whole_number(text: str) -> int | None:
    """Parses a number; None for other texts, or more digits than any type has: Python refuses to parse thousands."""
    found = _INTEGER.fullmatch(text)
    if found is None or len(found.group(2)) > _MOST_DIGITS:
        return None
    return int(found.group(1) + found.group(2))


def to_text(value: Value) -> str | None:
    """Returns the text of a typed value for a response; a password stays hidden."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def shown(value: Value) -> str:
    """Returns a parsed value in the form of Kafka's error texts."""
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return "null" if value is None else str(to_text(value))


def java_double(value: float) -> str:
    """Formats a double as Java does: 0.5, 1.0E7, 1.7976931348623157E308."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = repr(value)
        return plain if "e" not in plain else f"{value:f}"
    digits = repr(abs(value)).split("e")[0].replace(".", "").strip("0")
    exponent = f"{value:.{len(digits) - 1}e}".partition("e")[2]
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


# Constants for the rows of the tables.
BOOLEAN, STRING, INT, SHORT, LONG = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
)
DOUBLE, LIST, CLASS, PASSWORD = ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD
