"""One parsed JSON value in the raw type of a schema, or the reason why it is not of the schema."""

from __future__ import annotations

import json
import math

import pyarrow as pa

from ..protocol.json_value import JsonValue
from ..records.json_parsing import Literal, NotJson, double_of, is_unicode, number_text, parsed, written
from .arrow_kinds import is_text
from .decimal_texts import doubtful_texts, plain_text
from .json_raw_types import raw_type
from .shown_value import shown_value

_SHOWN_CHARACTERS = 40


def raw_value(value: JsonValue, raw: pa.DataType, kind: pa.DataType, name: str) -> object:
    """A parsed value as one of the raw type. Raises NotJson with the reason where it is not of the type `kind`."""
    where = name or "the value"
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise NotJson(f"{where} is {_kind_of(value)}, not an object")
        return {
            one.name: raw_value(value.get(one.name), raw[at].type, one.type, f"{name}.{one.name}".lstrip("."))
            for at, one in enumerate(kind)
        }
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise NotJson(f"{where} is {_kind_of(value)}, not a list")
        return [raw_value(one, raw.value_type, kind.value_type, f"{where}[{at}]") for at, one in enumerate(value)]
    if isinstance(value, str) and not is_unicode(value):
        raise NotJson(f"{where} has half of a surrogate pair")
    if is_text(kind):
        if isinstance(value, Literal):
            return number_text(value)
        return value if isinstance(value, str) else written(value)
    return _raw_scalar(value, kind, where)


def _raw_scalar(value: JsonValue, kind: pa.DataType, where: str) -> object:
    wrong = f"{where} is {_kind_of(value)}, not {kind}"
    if isinstance(value, dict | list | None):
        raise NotJson(wrong)
    if pa.types.is_boolean(kind):
        if isinstance(value, bool) or value in ("true", "false"):
            return str(value).lower()
        raise NotJson(wrong)
    if isinstance(value, bool):
        raise NotJson(wrong)
    if pa.types.is_floating(kind):
        return _raw_double(value, kind, where, wrong)
    text: str | None = str(value)
    if pa.types.is_decimal(kind) and doubtful_texts(pa.array([text]), kind)[0]:
        text = plain_text(str(value), kind)
    if text is None or cast_error(pa.array([text]), kind) is not None:
        raise NotJson(wrong)
    return text


def _raw_double(value: str | float, kind: pa.DataType, where: str, wrong: str) -> float:
    if isinstance(value, str):
        try:
            is_finite = math.isfinite(float(value))
        except ValueError:
            is_finite = False
        if not is_finite:
            raise NotJson(wrong)
        value = Literal(value)
    made = double_of(value if isinstance(value, Literal) else int(value))
    if made is None or (not pa.types.is_float64(kind) and not _has_number(kind, value, made)):
        raise NotJson(f"{where} is {shown_value(value, _SHOWN_CHARACTERS)}, which a {kind} would round")
    return made


def _has_number(kind: pa.DataType, value: float | Literal, number: float) -> bool:
    """Returns whether a smaller type than double has a number: an integer exactly, a fraction within its range."""
    found = pa.scalar(number).cast(kind).as_py()
    is_integer = isinstance(value, int) or (isinstance(value, Literal) and value.is_integer)
    return found == number if is_integer else math.isfinite(found)


def mismatch_of_text(text: str, kind: pa.DataType) -> str | None:
    """Returns why a text is not of a type; None where it is."""
    try:
        raw_value(parsed(text), raw_type(kind, 0), kind, "")
    except NotJson as reason:
        return str(reason)
    return None


def cast_error(column: pa.Array, kind: pa.DataType) -> str | None:
    try:
        column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return str(error).partition("\n")[0]
    return None


def _kind_of(value: object) -> str:
    if isinstance(value, Literal):
        return shown_value(value, _SHOWN_CHARACTERS)
    if isinstance(value, str):
        shown = value if is_unicode(value) else json.dumps(value)
        return f"the text {shown_value(shown, _SHOWN_CHARACTERS)!r}"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return shown_value(json.dumps(value), _SHOWN_CHARACTERS)
