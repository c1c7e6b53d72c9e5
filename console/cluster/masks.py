"""Masks of sensitive contents: no viewer sees them, and no filter finds them, in whatever form a record is shown.

A mask is the name of a field of JSON objects or of a header, with `*` for any characters, or a path of names between dots.
Case does not count. `pattern:EXPRESSION` masks what matches in texts, numbers and names, keys of records included.

Masks need a document. JSON within texts and headers is one. What is none could have a field without showing its name, so a
mask of a field hides it whole: a value that is neither JSON nor decoded with a schema, and a text in a document that has
brackets, quotes or the field's name, itself or in an encoding (wrapped_texts.py). A single word, such as an order's number,
is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from ...client.reasons import reason_of
from ...client.user_errors import Misused
from ..documents import ExactFloat, ExactInt, fields_of, pairs_of, parsed, written
from ..texts import drawn_text
from .plain_texts import PlainTexts
from .wrapped_texts import has_fields, unwrapped

if TYPE_CHECKING:
    from ...records.contents import Content

MASKED = "••••"
_PATTERN = "pattern:"
_MOST_DEPTH = 100
#: Decisions about names that are kept.
_MOST_NAMES = 4096
#: Characters of a name that is remembered.
_MOST_NAME = 200
_BLANK = " \t\r\n\ufeff"
#: Characters of documents in texts: JSON's, JSON's in JSON, XML's, and those of a form's address.
_STRUCTURE = re.compile(r"[{}\[\]\"\\<>]|%7b|%22|%5b|&quot;|&#", re.IGNORECASE)
#: Characters as escapes of JSON, of addresses and of XML.
_ESCAPES = re.compile(r"\\u[0-9a-f]{4}|%[0-9a-f]{2}|&#", re.IGNORECASE)
_WORD = re.compile(r"[^\W_][\w.@/:+~#-]{0,63}")
#: A word of ASCII, as a key.
_KEY = re.compile(rb"[A-Za-z0-9][\w.@/:+~#-]{0,63}").fullmatch
#: Encodings within encodings that a text is tried for.
_MOST_LAYERS = 3
#: Digits that a number with an exponent is written with, to be compared with patterns.
_MOST_EXPONENT = 60


class Pattern(Protocol):
    """An expression of RE2."""

    @property
    def programsize(self) -> int: ...

    def search(self, text: str, /) -> object: ...

    def sub(self, replacement: Callable[[object], str], text: str, /) -> str: ...


def compiled(text: str, failure: str, most_bytes: int | None = None) -> Pattern:
    """An expression to replace matches, or with `most_bytes` of memory to search alone. Raises Misused with the words of
    `failure` for a bad one.
    """
    import re2  # 3 MB: only for a search by expressions, and where a mask is one

    options = re2.Options()
    options.log_errors = False
    if most_bytes is not None:  # for a search, which needs no place of the match
        options.max_mem, options.never_capture = most_bytes, True
    try:
        made: Pattern = re2.compile(text, options)
        return made
    except (re2.error, UnicodeEncodeError) as error:
        raise Misused(f"{failure}{reason_of(error)}") from None


def searchable(text: str) -> str:
    """The text for an expression of RE2, which takes no halves of UTF-16 pairs."""
    return text if text.isascii() else text.encode(errors="replace").decode()


class Masks:
    def __init__(self, masks: Sequence[str]) -> None:
        fields = [one.casefold().split(".") for one in masks if not one.startswith(_PATTERN)]
        if any(not part for path in fields for part in path):
            raise Misused("--mask needs a field name, a path such as card.number, or pattern:EXPRESSION")
        self._patterns = [
            compiled(one.removeprefix(_PATTERN), f"--mask {one}: ") for one in masks if one.startswith(_PATTERN)
        ]
        self._names = [_matcher(path[0]) for path in fields if len(path) == 1]
        self._paths = [[_matcher(part) for part in path] for path in fields if len(path) > 1]
        #: Parts of a text that name a masked field, and a name of its path.
        self._mentions = [[(_mention(part), _matcher(part)) for part in path] for path in fields]
        self._plain_texts = PlainTexts([part for path in fields for part in path])
        self._is_masked_name = lru_cache(_MOST_NAMES)(self._matches_name)
        #: Names of fields come again with each document.
        self._path_of = lru_cache(_MOST_NAMES)(self._made_path)
        self._field_of = lru_cache(_MOST_NAMES)(self._made_field)
        self._name = lru_cache(_MOST_NAMES)(self._made_name)

    def __bool__(self) -> bool:
        return bool(self._has_fields or self._patterns)

    @property
    def _has_fields(self) -> bool:
        return bool(self._mentions)

    @property
    def are_names(self) -> bool:
        """Whether each mask is the name of a field, without a path to it and without patterns."""
        return self._has_fields and not self._paths and not self._patterns

    # ---- a short look

    def shows_text(self, text: str) -> bool:
        """Whether masks of fields leave a text as it is, wherever it stands; False where that takes a longer look."""
        return self._has_fields and text.isascii() and self._plain_texts.has(text.encode())

    def shows_word(self, data: bytes) -> bool:
        """Whether masks of fields leave a key that is no document as it is; False where that takes a longer look."""
        return self._plain_texts.has(data) and _KEY(data) is not None

    def field(self, name: str) -> tuple[str, bool]:
        """The name of a field as it is shown, and whether its value is masked wherever it stands."""
        shown, inner = self._field_of(name, ()) if len(name) <= _MOST_NAME else self._made_field(name, ())
        return shown, inner is None

    # ---- documents

    def document(self, value: Content) -> Content:
        """A decoded key or value with masked fields replaced."""
        if not self:
            return value
        made = self._inside(value, (), 0)
        # A pattern may match what stands in several fields.
        return MASKED if self._patterns and self.patterned(text := written(made)) != text else made

    def _inside(self, value: Content, path: tuple[str, ...], depth: int) -> Content:
        if depth > _MOST_DEPTH:
            return MASKED
        if type(value) is int and not self._patterns:
            return value
        if isinstance(value, dict):
            return self._object(value, path, depth)
        if isinstance(value, list | tuple):
            return [self._inside(one, path, depth + 1) for one in value]
        if isinstance(value, str):
            return self._text(value, path, depth)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, bytes):
            return MASKED
        plain = isinstance(value, int | float) and not isinstance(value, ExactInt | ExactFloat)
        text = (str(value) if plain else written(value)) if self._patterns else ""
        texts = (text, _without_exponent(text))
        return MASKED if any(self.patterned(one) != one for one in texts) else value

    def _object(self, value: dict[str, object], path: tuple[str, ...], depth: int) -> dict[str, object]:
        made: list[tuple[str, object]] = []
        numbers_stay = not self._patterns
        for name, one in pairs_of(value):
            shown, inner = self._field_of(name, path) if len(name) <= _MOST_NAME else self._made_field(name, path)
            if inner is None:
                one = MASKED
            elif not (numbers_stay and type(one) is int):
                one = self._inside(one, inner, depth + 1)
            made.append((shown, one))
        return fields_of(made)

    def _made_field(self, name: str, path: tuple[str, ...]) -> tuple[str, tuple[str, ...] | None]:
        """The name that is shown, and the path of the field, None for a masked one."""
        return self.name(name), self._made_path(name, path)

    def _made_path(self, name: str, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of a field, None for a masked one. A dot in a name is one of a path."""
        folded = name.casefold()
        if self._is_masked_name(folded):
            return None
        for part in folded.split("."):
            path = (*path, part)
            if self._is_masked_name(part) or any(_ends(path, one) for one in self._paths):
                return None
        return path

    def _matches_name(self, folded: str) -> bool:
        return any(one(folded) for one in self._names)

    def name(self, name: str) -> str:
        """The name of a field or a header, which may have a document in it."""
        return self._name(name) if len(name) <= _MOST_NAME else self._made_name(name)

    def _made_name(self, name: str) -> str:
        return MASKED if self._has_fields and _STRUCTURE.search(name) else self.patterned(name)

    # ---- texts

    def _text(self, text: str, path: tuple[str, ...], depth: int) -> str:
        """A text of a document or a header: masked as a document where it is one."""
        if self.are_names and self.shows_text(text):
            return text
        inner = text.strip(_BLANK)
        if inner[:1] in ("{", "[", '"'):
            try:
                return written(self._inside(parsed(inner), path, depth + 1))
            except ValueError:
                if self._has_fields:
                    return MASKED
        return MASKED if self._has_fields and self._could_hide(text, path) else self._plain(text)

    def _could_hide(self, text: str, path: tuple[str, ...], layer: int = 0) -> bool:
        """Whether a text that is no document could have a masked field."""
        if layer > _MOST_LAYERS or _STRUCTURE.search(text) or self._mentions_field(text, path):
            return True
        if has_fields(text.encode(errors="replace")):
            return True
        return any(
            one.is_opaque
            or (self._could_hide(one.text, path, layer + 1) if one.is_text else self._mentions_field(one.text, path))
            for one in unwrapped(text)
        )

    def _mentions_field(self, text: str, path: tuple[str, ...]) -> bool:
        folded = text.casefold()
        return any(
            all(mention.search(folded) or any(map(is_named, path)) for mention, is_named in parts)
            for parts in self._mentions
        )

    def _plain(self, text: str) -> str:
        """A text without what patterns match; hidden whole where they may match what an encoding or escapes hide."""
        if self._patterns and (_ESCAPES.search(text) or self._matches_within(text, 0)):
            return MASKED
        return self.patterned(text)

    def _matches_within(self, text: str, layer: int) -> bool:
        return layer <= _MOST_LAYERS and any(
            (one.is_opaque and not one.text)
            or self.patterned(one.text) != searchable(one.text)
            or (one.is_text and self._matches_within(one.text, layer + 1))
            for one in unwrapped(text)
        )

    def patterned(self, text: str) -> str:
        """The text without what patterns match."""
        for pattern in self._patterns:
            # A text as the replacement comes out of RE2 with each of its bytes as a character.
            text = pattern.sub(lambda _: MASKED, searchable(text))
        return text

    # ---- what is no document

    def unparsed(self, data: bytes, text: str | None) -> str:
        """A key or a value that could not be decoded: hidden whole, save for texts that masks leave. `text`: the text of the
        bytes, None where a page does not draw it.
        """
        if text is None:
            return MASKED
        if (
            self._has_fields
            and text
            and not (_WORD.fullmatch(text) and (self.shows_text(text) or not self._could_hide(text, ())))
        ):
            return MASKED
        return self._plain(text)

    def header(self, name: str, data: bytes | None) -> str | None:
        """The value of a header; None for a null."""
        path = self._path_of(name, ())
        if data is None:
            return None
        text = drawn_text(data)
        return MASKED if text is None or path is None else self._text(text, path, 0)


def _matcher(mask: str) -> Callable[[str], object]:
    """A function of a name; only `*` is special in a mask."""
    return re.compile(".*".join(map(re.escape, mask.split("*"))), re.DOTALL).fullmatch


def _ends(path: tuple[str, ...], mask: list[Callable[[str], object]]) -> bool:
    return len(mask) <= len(path) and all(one(part) for one, part in zip(mask, path[-len(mask) :], strict=True))


def _mention(mask: str) -> re.Pattern[str]:
    """Finds a name in a text."""
    return re.compile(r"\S*".join(map(re.escape, mask.strip("*").split("*"))))


def _without_exponent(text: str) -> str:
    """The digits of a number of JSON."""
    if "e" not in text and "E" not in text:
        return text
    number = Decimal(text)
    return f"{number:f}" if number.is_finite() and abs(number.adjusted()) <= _MOST_EXPONENT else text
