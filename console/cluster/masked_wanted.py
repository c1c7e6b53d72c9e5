"""Records that may pass the filters of a search with masks, by what masks leave of their bytes.

The choice must not tell what masks hide, neither by the records of a page nor by its time. So a filter is not compared with
what is hidden: whether a record is looked at as a whole depends on the filter and on what its viewer sees. Where a short
look does not tell what that is, the record is looked at as a whole, whatever the filter.

A key that is a plain text (`plain_texts.py`) is shown as it is. A value that is a JSON document shows its names, its numbers
and its plain texts, except those of masked fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..documents import MOST_DEPTH
from .masks import MASKED
from .wanted import EVERYTHING, May, Wanted, literal_of

if TYPE_CHECKING:
    from .masks import Masks

_OPENING = ord("{")
_CONSTANTS: dict[object, str] = {True: "true", False: "false", None: "null"}
#: Names that are kept.
_MOST_NAMES = 4096


class _Number(str):
    """A number of a document, as it was written."""

    __slots__ = ()


#: Objects are tuples, so that each field counts.
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_float=_Number, parse_constant=_Number)


class _WholeLook(Exception):
    """Raised where a short look does not tell what masks leave of a document."""


def masked_wanted(masks: Masks, key: str, value: str, text_filter: Callable[[str], Callable[[str], bool]]) -> Wanted:
    """The records that two expressions may match; "" for none. `text_filter` makes a filter of texts of an expression."""
    if not masks.are_names:
        return EVERYTHING  # a pattern may match what stands in several fields
    word = literal_of(value)
    return Wanted(
        _of_keys(masks, key, text_filter) if key else None,
        _of_values(masks, word) if word else None,
    )


def _of_keys(masks: Masks, key: str, text_filter: Callable[[str], Callable[[str], bool]]) -> May:
    word, passes, is_plain = literal_of(key).encode(), text_filter(key), masks.shows_word

    def may(data: bytes | None) -> bool:
        if not data or not is_plain(data):
            return True
        return word in data if word else passes(data.decode())

    return may


def _of_values(masks: Masks, word: str) -> May:
    visible = _Visible(masks)

    def may(data: bytes | None) -> bool:
        if not data or data[0] != _OPENING:
            return True
        try:
            return word in visible.text(data.decode())
        except (_WholeLook, UnicodeDecodeError):
            return True

    return may


class _Visible:
    """Finds the parts of documents that masks leave."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        #: The names that were looked at, as they are shown, and whether their values are masked.
        self._names: dict[str, tuple[str, bool]] = {}

    def text(self, text: str) -> str:
        """The names, texts and numbers that masks leave of a JSON document, one a line. Raises _WholeLook."""
        if text.count("[") + text.count("{") > MOST_DEPTH:
            raise _WholeLook
        try:
            document, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            raise _WholeLook from None
        if end != len(text):
            raise _WholeLook
        shown: list[str] = []
        self._add_fields(document, shown)
        return "\n".join(shown)

    def _add_fields(self, fields: Sequence[tuple[str, object]], shown: list[str]) -> None:
        names, shows_text = self._names, self._masks.shows_text
        for name, value in fields:
            text, is_masked = names.get(name) or self._look_at(name)
            shown.append(text)
            if is_masked:
                continue
            if type(value) is int:
                shown.append(str(value) if value else "-0")  # or 0
            elif type(value) is str and shows_text(value):
                shown.append(value)
            else:
                self._add(value, shown)

    def _add(self, value: object, shown: list[str]) -> None:
        if value is None or isinstance(value, bool):
            shown.append(_CONSTANTS[value])
        elif isinstance(value, int):
            shown.append(str(value) if value else "-0")
        elif isinstance(value, tuple):
            self._add_fields(value, shown)
        elif isinstance(value, list):
            for one in value:
                self._add(one, shown)
        else:
            text = str(value)
            if not isinstance(value, _Number) and not self._masks.shows_text(text):
                raise _WholeLook
            shown.append(text)

    def _look_at(self, name: str) -> tuple[str, bool]:
        text, is_masked = self._masks.field(name)
        if text != MASKED and not (name.isascii() and name.isprintable()):  # a page may write it with escapes
            raise _WholeLook
        if len(self._names) >= _MOST_NAMES:
            self._names.clear()
        self._names[name] = text, is_masked
        return text, is_masked
