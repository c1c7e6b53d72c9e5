"""JSON documents as they were written: digits of numbers, and fields of the same name, stay as they are.

Numbers that Python's own would change have their text beside them; filters compare their values. An object with a field
twice is a dict of the last ones, as filters read it, with all pairs.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import cast

#: Values within values. JSONPath follows 100 levels, and each level of a page's template takes a part of Python's stack.
MOST_DEPTH = 90
#: Digits of an integer that filters compare exactly; Python takes a time for more that grows with their square.
_MOST_DIGITS = 4000
_BLANK = " \t\r\n\ufeff"
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class _Kept(threading.local):
    """Numbers and objects of this thread that Python's own would change."""

    count = 0


_KEPT = _Kept()


class ExactInt(int):
    """An integer that Python writes otherwise: -0."""

    text: str


class ExactFloat(float):
    """A number that Python writes otherwise: 1.10, or an integer of thousands of digits."""

    text: str


class Fields(dict[str, object]):
    """An object that has some field more than once."""

    pairs: list[tuple[str, object]]


def fields_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    _KEPT.count += 1
    repeated = Fields(made)
    repeated.pairs = pairs
    return repeated


def pairs_of(value: dict[str, object]) -> list[tuple[str, object]]:
    """The fields of an object in their order, each as often as it was written."""
    return value.pairs if isinstance(value, Fields) else [(str(name), one) for name, one in value.items()]


def _integer(text: str) -> int | float:
    if len(text) > _MOST_DIGITS:
        return _exact(text)
    if text != "-0":
        return int(text)
    _KEPT.count += 1
    made = ExactInt(0)
    made.text = text
    return made


def _number(text: str) -> float:
    found = float(text)
    return found if repr(found) == text else _exact(text)


def _exact(text: str) -> ExactFloat:
    _KEPT.count += 1
    made = ExactFloat(text)
    made.text = text
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=fields_of, parse_int=cast("Callable[[str], int]", _integer), parse_float=_number,
    parse_constant=_exact,
)  # fmt: skip


def parsed(data: bytes | str) -> object:
    """The value of a JSON text, in UTF-8, UTF-16 or UTF-32, with blanks or a byte order mark around it. Raises ValueError
    for any other text, and for one that is nested deeper than MOST_DEPTH.
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
    try:
        found = _DECODER.decode(text.strip(_BLANK))
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels") from None
    if text.count("[") + text.count("{") > MOST_DEPTH:
        _check_depth(found)
    return found


class Changes:
    """Whether documents that were made since have numbers or fields that Python's own JSON would change."""

    def __init__(self) -> None:
        self._before = _KEPT.count

    def text(self, value: object) -> str:
        """The text of a value that was made since, as `written` makes it: by Python's own where it changes nothing, in a
        tenth of the time.
        """
        return json.dumps(value, ensure_ascii=False) if _KEPT.count == self._before else written(value)


def parsed_with_text(data: bytes | str) -> tuple[object, str]:
    """The value and its text, as `written` makes it."""
    changes = Changes()
    value = parsed(data)
    return value, changes.text(value)


def _check_depth(value: object) -> None:
    """Raises ValueError. Without recursion, level by level."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels")


def written(value: object, indent: int | None = None) -> str:
    """The JSON text of a value, as `json.dumps` writes it, with numbers and fields as they were."""
    pieces: list[str] = []
    _write(value, pieces.append, indent, "\n")
    return "".join(pieces)


def _write(value: object, add: Callable[[str], None], indent: int | None, line: str) -> None:
    if isinstance(value, dict):
        named = [(f"{encode_basestring(name)}: ", one) for name, one in pairs_of(value)]
        _write_all("{", named, "}", add, indent, line)
    elif isinstance(value, list | tuple):
        _write_all("[", [("", one) for one in value], "]", add, indent, line)
    else:
        add(_scalar(value))


def _write_all(
    opening: str,
    named: list[tuple[str, object]],
    closing: str,
    add: Callable[[str], None],
    indent: int | None,
    line: str,
) -> None:
    inner = line if indent is None else line + " " * indent
    between = ", " if indent is None else f",{inner}"
    add(opening if indent is None or not named else opening + inner)
    for number, (name, one) in enumerate(named):
        add(between + name if number else name)
        _write(one, add, indent, inner)
    add(closing if indent is None or not named else line + closing)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        quoted = encode_basestring(value)
        return quoted if value.isascii() else _HALF_OF_A_PAIR.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
    if isinstance(value, ExactInt | ExactFloat):
        return value.text
    if isinstance(value, bytes):  # Avro has bytes, dates and decimals, which JSON has not
        return f'"{base64.b64encode(value).decode()}"'
    return json.dumps(value, ensure_ascii=False, default=str)


def indented(text: str) -> str:
    """A JSON text with a line for each value, and no other change."""
    pieces: list[str] = []
    depth, previous = 0, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in ("}", "]"):
            depth -= 1
            pieces.append(token if previous in ("{", "[") else f"\n{'  ' * depth}{token}")
        else:
            if previous in ("{", "[", ","):
                pieces.append(f"\n{'  ' * depth}")
            pieces.append(": " if token == ":" else token)
            depth += token in ("{", "[")
        previous = token
    return "".join(pieces)
