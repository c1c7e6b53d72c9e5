"""Values as people read them: numbers, sizes, ages and times, values of configs, and texts that a page can draw."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from .parts import Node

#: Shown where there is no value.
NONE = "\N{EN DASH}"


class Figure(str):
    """A number as a text. Tables align it to the right, and sort by `value`."""

    value: float | None

    def __new__(cls, text: str, value: float | None = None) -> Figure:
        made = super().__new__(cls, text)
        made.value = value
        return made


_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def size(count: int | None) -> Figure:
    """Bytes in decimal units: 1234567 is 1.2 MB."""
    if count is None or count < 0:
        return Figure(NONE)
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return Figure(f"{count} B" if not unit else f"{value:.1f} {_UNITS[unit]}", count)


def number(value: float | None) -> Figure:
    """With thin spaces between thousands; one decimal for fractions below 100."""
    if value is None:
        return Figure(NONE)
    if isinstance(value, float) and (value != int(value)) and abs(value) < 100:
        return Figure(f"{value:.1f}", value)
    return Figure(f"{round(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}"), value)


def age(milliseconds: int | None) -> Figure:
    if milliseconds is None:
        return Figure(NONE)
    seconds = milliseconds / 1000
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return Figure(f"{seconds / length:.1f} {unit}", seconds)
    return Figure(f"{seconds:.1f} s", seconds)


def when(timestamp_ms: int | None) -> str:
    """In UTC, to the millisecond."""
    if timestamp_ms is None or timestamp_ms < 0:
        return NONE
    try:
        made = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{made:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def iso(timestamp_ms: int) -> str:
    """For the `datetime` of a <time>; "" for a time that no calendar has."""
    text = when(timestamp_ms)
    return f"{text.replace(' ', 'T')}Z" if "-" in text else ""


def numbers(values: list[int]) -> str:
    return ", ".join(map(str, values)) or NONE


# ---- values of configs

_LARGEST = (1 << 63) - 1
_TO_MILLISECONDS = {".hours": 3_600_000, ".minutes": 60_000}


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


def in_unit_of(key: str, synonym: str, value: str) -> str:
    """A broker's value in the unit of the topic's key: log.retention.hours is a synonym of retention.ms."""
    factor = next((one for suffix, one in _TO_MILLISECONDS.items() if synonym.endswith(suffix)), None)
    if factor is None or not key.endswith(".ms") or not value.isdecimal():
        return value
    return str(int(value) * factor)


# ---- texts

#: Categories of characters that no font draws: control characters, surrogates, private and unassigned ones.
_NOT_DRAWN = frozenset(("Cc", "Cs", "Co", "Cn"))
_SPACES = "\n\r\t"


def drawn_text(data: bytes) -> str | None:
    """The text, or None for bytes that are none, or that have characters which a page draws as boxes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if is_drawn(text) else None


def is_drawn(text: str) -> bool:
    return text.isprintable() or not any(
        one not in _SPACES and unicodedata.category(one) in _NOT_DRAWN for one in text if not one.isprintable()
    )


def json_text(value: object, indent: int | None = None) -> str:
    """JSON whose texts have characters that no font draws as escapes."""
    text = json.dumps(value, ensure_ascii=False, default=_for_json, indent=indent)
    return escaped(text)


def escaped(text: str) -> str:
    """The text with escapes for characters that no font draws."""
    if is_drawn(text):
        return text
    return "".join(one if one in _SPACES or is_drawn(one) else json.dumps(one)[1:-1] for one in text)


def _for_json(content: object) -> str:
    """Avro has bytes, dates and decimals, which JSON has not."""
    return base64.b64encode(content).decode() if isinstance(content, bytes) else str(content)


# ---- documents: JSON as a tree, bytes as a hex dump, and the fields of documents by their paths

#: Limits of a tree: its nodes, and the characters of one text.
MOST_NODES, _MOST_TEXT, _MOST_DEPTH = 2000, 10_000, 60
_MOST_PATHS, _MOST_PATH_DEPTH = 60, 4
_HEX_COLUMNS, MOST_HEX_BYTES = 16, 16_384


def tree(value: object, name: str = "") -> Node:
    """A document with more than MOST_NODES values is cut; its text is whole."""
    return _node(name, value, 0, [MOST_NODES])


def _node(name: str, value: object, depth: int, left: list[int]) -> Node:
    left[0] -= 1
    if isinstance(value, dict | list):
        pairs: Iterable[tuple[str, object]] = (
            ((str(key), one) for key, one in value.items())
            if isinstance(value, dict)
            else ((str(index), one) for index, one in enumerate(value))
        )
        children = []
        if depth < _MOST_DEPTH:
            for key, one in pairs:
                if left[0] <= 0:
                    children.append(Node("…", "cut: the text below is whole", "null"))
                    break
                children.append(_node(key, one, depth + 1, left))
        unit = "field" if isinstance(value, dict) else "item"
        words = f"{len(value)} {unit}{'' if len(value) == 1 else 's'}"
        return Node(name, words, "object" if isinstance(value, dict) else "list", children)
    return Node(name, _leaf(value), _type_of(value))


def _leaf(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def hex_dump(data: bytes) -> str:
    """Lines of an offset, sixteen bytes, and their characters, with dots for those that are none."""
    lines = []
    for start in range(0, min(len(data), MOST_HEX_BYTES), _HEX_COLUMNS):
        part = data[start : start + _HEX_COLUMNS]
        text = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {text}")
    if len(data) > MOST_HEX_BYTES:
        lines.append(f"… {len(data) - MOST_HEX_BYTES} more bytes")
    return "\n".join(lines)


def field_of(document: object, path: str) -> str | None:
    """The value at a path of names between dots, as a text; None without one."""
    if not isinstance(document, dict):
        return None
    if path in document:
        found = document[path]
        if found is None:
            return "null"
        return found if isinstance(found, str) and is_drawn(found) else json_text(found)
    name, _, rest = path.partition(".")
    return field_of(document.get(name), rest) if rest else None


def paths_of(documents: Iterable[object]) -> list[str]:
    """Paths of the fields of objects, without objects themselves, in the order in which they appear."""
    found: dict[str, None] = {}
    for document in documents:
        _collect(document, "", 0, found)
        if len(found) >= _MOST_PATHS:
            break
    return list(found)[:_MOST_PATHS]


def _collect(value: object, prefix: str, depth: int, found: dict[str, None]) -> None:
    if not isinstance(value, dict) or depth >= _MOST_PATH_DEPTH or len(found) >= _MOST_PATHS:
        return
    for name, one in value.items():
        path = f"{prefix}{name}"
        if isinstance(one, dict) and one and depth + 1 < _MOST_PATH_DEPTH:
            _collect(one, f"{path}.", depth + 1, found)
        else:
            found.setdefault(path)
