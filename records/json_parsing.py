"""JSON as RFC 8259 has it: one value of a text, with numbers as they are written.

Python's reader takes more (NaN, Infinity), rounds fractions, and refuses what is too deep at a depth that depends on its
caller. Here a text has a value or a reason, and the limits have names. Of two members with one name the first counts, as in
DuckDB, which reads most rows of columns (columns/json_decoder.py).
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..protocol.json_value import JsonObject, JsonValue

#: Arrays and objects within one another: more of them are no data, and other readers end their process there.
MOST_DEPTH = 200
#: Digits of an integer that is a Python number here; Python converts longer ones in quadratic time, and no column has them.
_MOST_DIGITS = 60
_SHOWN_DIGITS = 40
#: Fractions of more digits than a double has, and exponents near its bounds: as text and as decimals they are exact.
LONG_FRACTION = re.compile(r"\.\d{13}|\d{13}\.\d|\d{8}\.\d{4}|\d{4}\.\d{8}|\d[eE][+-]?\d{3}")
#: Places of the decimal point for which DuckDB writes no exponent within arrays and objects.
_LEAST_PLACES, _MOST_PLACES = -6, 21
_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(32)},
    **dict(zip(b'\b\f\n\r\t"\\', ("\\b", "\\f", "\\n", "\\r", "\\t", '\\"', "\\\\"), strict=True)),
}
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Literal(str):
    """A number as it is written: a fraction, one with an exponent, or an integer of more digits than any column has."""

    __slots__ = ()

    @property
    def is_integer(self) -> bool:
        return self.lstrip("-").isdigit()


class Repeated(dict[str, object]):
    """An object that has a name twice: a dict with the first member of each name, and all `pairs` as they are written."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, JsonValue]]) -> None:
        super().__init__(dict(reversed(pairs)))
        self.pairs = pairs


class NotJson(ValueError):
    """A text that is no JSON value, or one beyond a limit. Its text is the reason."""


def parsed(text: str) -> JsonValue:
    """The value: dict, list, str, bool, None, int or Literal. Raises NotJson."""
    check_depth(text)
    try:
        return cast("JsonValue", _DECODER.decode(text))
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson(f"it is not JSON: {error or 'too many levels'}") from None


def loaded(text: str) -> JsonValue:
    """The value with fractions as the nearest doubles, for filters and output. Raises NotJson, as for one beyond them."""
    check_depth(text)
    try:
        return cast("JsonValue", _DOUBLES.decode(text))
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson(f"it is not JSON: {error or 'too many levels'}") from None


def check_depth(text: str) -> None:
    """Raises NotJson for a text with more than MOST_DEPTH levels."""
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    depth = 0
    for token in _STRUCTURE.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise NotJson(f"it has more than {MOST_DEPTH} levels of arrays and objects")
        elif first in "]}":
            depth -= 1


def is_unicode(text: str) -> bool:
    """Returns whether a string has an encoding: JSON may write half of a surrogate pair, as `"\\ud800"`."""
    return text.isascii() or _SURROGATE.search(text) is None


def number_text(value: Literal) -> str:
    """A number as DuckDB makes text of it: with the shortest digits of its double, or as it is written if it has more."""
    return str(value) if _is_kept(value) else repr(float(value))


def _is_kept(value: Literal) -> bool:
    return value.is_integer or LONG_FRACTION.search(value) is not None


def _inner_number(value: Literal) -> str:
    """A number within arrays and objects: DuckDB writes the same digits there, with another form of the exponent."""
    if _is_kept(value) or not (made := float(value)):
        return number_text(value)
    sign, figures, exponent = Decimal(repr(made)).as_tuple()
    digits = "".join(map(str, figures)).rstrip("0")
    point = len(figures) + int(exponent)  # the place of the point in the digits
    if point > _MOST_PLACES or point <= _LEAST_PLACES:
        text = f"{digits[0]}{'.' + digits[1:] if digits[1:] else ''}e{point - 1}"
    elif point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{'-' * sign}{text}"


def written(value: object) -> str:
    """A parsed array or object as the JSON text that DuckDB writes of it, or a part of one. Raises NotJson for half of a
    surrogate pair.
    """
    if isinstance(value, Literal):
        return _inner_number(value)
    if isinstance(value, dict):
        members = value.pairs if isinstance(value, Repeated) else value.items()
        return "{" + ",".join(f"{_quoted(name)}:{written(one)}" for name, one in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def double_of(value: int | Literal) -> float | None:
    """The nearest double of a number; None for one beyond all doubles, and for an integer that a double rounds."""
    try:
        made = float(value)
    except OverflowError:
        return None
    if not math.isfinite(made):
        return None
    is_integer = isinstance(value, int) or value.is_integer
    return None if is_integer and int(made) != int(value) else made


def _quoted(text: str) -> str:
    if not is_unicode(text):
        raise NotJson("it has half of a surrogate pair")
    return f'"{text.translate(_ESCAPES)}"'


def refuse_constant(constant: str) -> None:
    """Raises NotJson for NaN, Infinity and -Infinity, which `json` takes for numbers."""
    raise NotJson(f"it is not JSON: {constant} is not a number of JSON")


def _double(text: str) -> float:
    made = float(text)
    if not math.isfinite(made):
        raise NotJson(f"{text[:_SHOWN_DIGITS]} is beyond the numbers of 64 bits")
    return made


def _integer(text: str) -> int | Literal:
    return int(text) if len(text) <= _MOST_DIGITS else Literal(text)


def _first_of_each(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    made = dict(pairs)
    return cast("JsonObject", Repeated(pairs)) if len(made) < len(pairs) else made


_DECODER = json.JSONDecoder(
    parse_float=Literal, parse_int=_integer, parse_constant=refuse_constant, object_pairs_hook=_first_of_each
)
_DOUBLES = json.JSONDecoder(parse_float=_double, parse_constant=refuse_constant, object_pairs_hook=_first_of_each)
