"""Records that may pass the filters of a search, by their bytes: so a search decodes few of the others.

A record that is not wanted passes no filter. One that is wanted may: it is decoded and looked at as a whole. Without masks
and schemas, a key or a value is shown as JSON, as text or in hex. An expression has literal words (`literal_of`), which
its matches contain. A text that is shown contains such a word only if

- its bytes do: JSON is shown with other blanks between its tokens, and a word is within one token, or
- it is JSON with a \\u escape, which stands for a character, or
- it is shown in hex or with escapes for what no font draws, and the word is one of hex digits.

A document that a JSON filter selects contains the texts and integers to which the filter compares its fields, unless it has
escapes, numbers with a fraction or an exponent, or is not in UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .comparisons import comparisons_in

if TYPE_CHECKING:
    from ...protocol.records.record import Record

#: Characters of words: they stand within one token of JSON, and for themselves in an expression.
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@-")
_HEX = "0123456789abcdefu"
#: A shorter word is in too many records.
_LEAST_WORD = 2
_ESCAPE = b"\\u"
#: A number with a fraction or an exponent, which may equal an integer of other digits.
_FRACTION = re.compile(rb"\d[.eE]").search
#: The beginning of a document in UTF-16 or UTF-32.
_WIDE = re.compile(rb"[\[{]\0|\0[\[{]").search
#: Bytes that a page shows as they are: no control characters, and only those of ASCII text.
_PLAIN = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
#: First bytes of documents, after blanks.
_DOCUMENT = b"{[ \t\r\n\xef\0"

#: Parts of expressions for which no word is looked for: options, alternatives, and classes with brackets in them.
_NO_WORDS = ("(?", "|", "[]", "[^]", "[:")
#: Parts that are left out: a class, and a number of repetitions.
_CLOSED_BY = {"[": "]", "{": "}"}

May = Callable[["bytes | None"], bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """`keys` and `values`: whether these bytes may pass; None: any may. `in_batch`: whether a record of a batch may, by the
    bytes of all of them.
    """

    keys: May | None = None
    values: May | None = None
    in_batch: Callable[[bytes], bool] | None = None

    def chosen(self, records: Sequence[Record]) -> list[Record]:
        keys, values = self.keys, self.values
        if keys is not None:
            records = [one for one in records if keys(one.key)]
        if values is not None:
            records = [one for one in records if values(one.value)]
        return list(records)


EVERYTHING = Wanted()


def wanted_by(
    key: str, value: str, text_filter: Callable[[str], Callable[[str], bool]], where: str = "", *, has_schemas: bool
) -> Wanted:
    """The records that two expressions and a JSON filter may match; "" for none. `text_filter` makes a filter of texts of an
    expression.

    `has_schemas`: values with a schema's id before them are shown as documents, whose words are not those of the bytes.
    """
    words = [word for word in map(literal_of, (key, value)) if word]
    certain = [word.encode() for word in words if _is_certain(word)]
    texts, integers = compared_in(where)
    of_values = [_may(value, text_filter, has_schemas=has_schemas)] if value else []
    if texts or integers:
        of_values.append(_may_select(texts, integers, has_schemas=has_schemas))
    has_words = bool(certain or texts or integers) and not has_schemas
    return Wanted(
        _may(key, text_filter, has_schemas=has_schemas) if key else None,
        _both(of_values) if of_values else None,
        _in_batch([*certain, *texts], integers) if has_words else None,
    )


def _both(checks: Sequence[May]) -> May:
    return checks[0] if len(checks) == 1 else lambda data: all(check(data) for check in checks)


def _in_batch(words: Sequence[bytes], integers: Sequence[bytes]) -> Callable[[bytes], bool]:
    def may(data: bytes) -> bool:
        return _has_all(data, words, integers) or _ESCAPE in data or _WIDE(data) is not None

    return may


def _has_all(data: bytes, words: Sequence[bytes], integers: Sequence[bytes]) -> bool:
    return all(word in data for word in words) and (all(one in data for one in integers) or _FRACTION(data) is not None)


def _may_select(words: Sequence[bytes], integers: Sequence[bytes], *, has_schemas: bool) -> May:
    def may(data: bytes | None) -> bool:
        if not data:
            return False
        if _has_all(data, words, integers) or _ESCAPE in data or (has_schemas and data[0] == 0):
            return True
        return _WIDE(data[:8]) is not None

    return may


def compared_in(where: str) -> tuple[list[bytes], list[bytes]]:
    """The texts and the integers that each document which a JSON filter selects contains; none where that is not certain."""
    literals = [one.literal for one in comparisons_in(where) if one.operator == "=="]
    texts = [one for one in literals if isinstance(one, str) and len(one) >= _LEAST_WORD and _WORD.issuperset(one)]
    integers = [str(abs(one)) for one in literals if isinstance(one, int)]
    return [one.encode() for one in texts], [one.encode() for one in integers if len(one) >= _LEAST_WORD]


def _may(text: str, text_filter: Callable[[str], Callable[[str], bool]], *, has_schemas: bool) -> May:
    word = literal_of(text).encode()
    is_certain = bool(word) and _is_certain(word.decode())
    passes = text_filter(text)

    def by_word(data: bytes | None) -> bool:
        if not data:
            return False  # it is shown as no text
        return word in data or _ESCAPE in data or (has_schemas and data[0] == 0) or _WIDE(data[:8]) is not None

    def by_digits(data: bytes | None) -> bool:
        return data is not None and (word in data or _is_odd(data))  # NULs of UTF-16 are odd

    def by_text(data: bytes | None) -> bool:
        if not data or data[0] in _DOCUMENT or _is_odd(data):
            return True
        return passes(data.decode())

    return by_word if is_certain else by_digits if word else by_text


def _is_odd(data: bytes) -> bool:
    """Whether a page may show the bytes otherwise."""
    return bool(data.translate(None, _PLAIN)) or _ESCAPE in data


def _is_certain(word: str) -> bool:
    """Whether neither hex nor an escape can show the word."""
    return word.lstrip(_HEX) == word


def literal_of(expression: str) -> str:
    """The longest word that each match of an expression of RE2 contains; "" where none is certain.

    A word does not begin with hex digits where another part of it is enough: `f00-key` gives `-key`.
    """
    if any(one in expression for one in _NO_WORDS) or "\\" in expression.replace("\\.", ""):
        return ""
    words: list[str] = []
    current = ""
    depth = position = 0
    while position < len(expression):
        one = expression[position]
        position += 2 if one == "\\" else 1
        if one in _WORD and not depth:
            current += one
            continue
        # A quantifier that allows zero times takes the character before with it.
        words.append(current[:-1] if one in "*?{" else current)
        current = ""
        if one in _CLOSED_BY:
            end = expression.find(_CLOSED_BY[one], position)
            position = end + 1 if end >= 0 else len(expression)
        elif one in "()":
            depth = max(0, depth + (1 if one == "(" else -1))
    words.append(current)
    certain = [word.lstrip(_HEX) for word in words]
    best = max(certain, key=len) if max(map(len, certain)) >= _LEAST_WORD else max(words, key=len)
    return best if len(best) >= _LEAST_WORD else ""
