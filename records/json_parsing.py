"""JSON as RFC 8259 has it: one value of a text, with numbers as they are written.

Python's reader takes more (NaN, Infinity), rounds fractions, and refuses what is too deep at a depth that depends on its
caller. Here a text has a value or a reason, and the limits have names. Of two members with one name the first counts, as in
DuckDB, which reads most rows of columns (columns/json_decoder.py).
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..protocol.json_value import JsonObject, JsonValue

#: Arrays and objects within one another: more of them are no data, and other readers end their process there.
MOST_DEPTH = 200
#: Digits of an integer that is a Python number here; Python converts longer ones in quadratic time, and no column has them.
_MOST_DIGITS = 60
_SHOWN_DIGITS = 40
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Literal(str):
    """A number as it is written: a fraction, one with an exponent, or an integer of more digits than any column has."""

    __slots__ = ()

    @property
    def is_integer(self) -> bool:
        return self.lstrip("-").isdigit()


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


def written(value: object) -> str:
    """A parsed value as JSON text, with its numbers as they were written. Raises NotJson for half of a surrogate pair."""
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{written(one)}" for name, one in value.items()) + "}"
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
    return json.dumps(text, ensure_ascii=False)


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
    if len(made) < len(pairs):
        made = dict(reversed(pairs))
        return {name: made[name] for name, _ in pairs}
    return made


_DECODER = json.JSONDecoder(
    parse_float=Literal, parse_int=_integer, parse_constant=refuse_constant, object_pairs_hook=_first_of_each
)
_DOUBLES = json.JSONDecoder(parse_float=_double, parse_constant=refuse_constant, object_pairs_hook=_first_of_each)
