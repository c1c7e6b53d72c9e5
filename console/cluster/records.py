"""Records as the console shows them, and the filters of a search. Masks come before filters: a filter cannot find what its
viewer may not see. Expressions run in RE2, which takes linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ...cli.client.connection import Connection
from ...cli.client.errors import Misused
from ...cli.records.filters import filters_of
from ..access.masking import Masks
from ..views.formats import json_text
from .decoding import AUTO, RecordDecoder, header_text

if TYPE_CHECKING:
    from ...cli.records.consumed import ConsumedRecord, Content


NEWEST, OLDEST = "newest", "oldest"
ORDERS = (NEWEST, OLDEST)
_MOST_EXPRESSION = 500
#: Functions and operators of JSONPath that run Python's expressions, whose time has no limit.
_WITHOUT_LIMIT = ("=~", "match(", "search(")

Raw = bytes | None
"""A key or a value as it was written."""
Passes = Callable[["Record", "ConsumedRecord"], bool]


@dataclass(frozen=True, slots=True)
class Query:
    """`partition` None: all. `start` and `until` are positions of `odradek consume`, empty for the ends of the log.
    `edges`: the offset of each partition from which the search continues, for NEWEST those before it.
    """

    topic: str
    partition: int | None = None
    start: str = ""
    limit: int = 50
    until: str = ""
    order: str = NEWEST
    edges: Mapping[int, int] = field(default_factory=dict)
    key: str = ""
    value: str = ""
    header: str = ""
    where: str = ""
    key_form: str = AUTO
    value_form: str = AUTO

    @property
    def has_filter(self) -> bool:
        return bool(self.key or self.value or self.header or self.where)


@dataclass(slots=True)
class Record:
    """`key` and `value` are masked texts; None for a null. `document` is the masked value before it became a text.
    `form`: what the value was decoded as. `raw`: the bytes of key and value, where no masks hide any of them.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: list[tuple[str, str]]
    bytes: int
    document: Content = None
    key_document: Content = None
    form: str = ""
    raw: tuple[Raw, Raw] | None = None

    def as_json(self) -> str:
        made = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "key": self.key,
            "value": self.document,
            "headers": [{"key": name, "value": value} for name, value in self.headers],
        }
        return json_text(made, indent=2)


class RecordMaker:
    """Makes masked records of a library's messages."""

    def __init__(self, connection: Connection, masks: Masks, schema_registry: str | None) -> None:
        self._masks = masks
        self._decoder = RecordDecoder(connection, schema_registry)

    def record(self, message: ConsumedRecord, query: Query) -> Record:
        raw = message.key(), message.value()
        key, key_document, _ = self._decoded(raw[0], query.key_form, query.topic)
        value, document, form = self._decoded(raw[1], query.value_form, query.topic)
        headers = [
            (str(name), self._masks.header(str(name), header_text(content)))
            for name, content in message.headers() or ()
        ]
        length = sum(len(one or b"") for one in raw)
        place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
        shown = None if self._masks else raw
        return Record(*place, key, value, headers, length, document, key_document, form, shown)

    def _decoded(self, data: bytes | None, form: str, topic: str) -> tuple[str | None, Content, str]:
        """The masked text, the masked value that it is of, and what the bytes were taken for."""
        if data is None:
            return None, None, "null"
        value, taken_for = self._decoder.decode(data, form, topic)
        value = self._masks.value(value)
        return value if isinstance(value, str) else json_text(value), value, taken_for


# ---- filters


class Pattern(Protocol):
    """An expression of RE2."""

    def search(self, text: str, /) -> object: ...


def filters(query: Query) -> list[Passes]:
    """Raises Misused for a bad expression."""
    made: list[Passes] = []
    if query.key:
        pattern = _compiled(query.key, "key")
        made.append(lambda record, message: pattern.search(record.key or "") is not None)
    if query.value:
        made.append(_value_filter(query.value))
    if query.header:
        made.append(_header_filter(query.header))
    if query.where:
        if len(query.where) > _MOST_EXPRESSION or any(word in query.where for word in _WITHOUT_LIMIT):
            raise Misused("the JSON filter supports no regular expressions: use the field for values")
        (where,) = filters_of(None, None, (), [query.where])
        made.append(lambda record, message: where(message, None, record.document))
    return made


def _value_filter(text: str) -> Passes:
    pattern = _compiled(text, "value")
    return lambda record, message: pattern.search(record.value or "") is not None


def _header_filter(text: str) -> Passes:
    name, equals, expression = text.partition("=")
    pattern = _compiled(expression, "header")
    return lambda record, message: any(
        known == name and (not equals or pattern.search(content) is not None) for known, content in record.headers
    )


def _compiled(text: str, field: str) -> Pattern:
    if len(text) > _MOST_EXPRESSION:
        raise Misused(f"the expression for the {field} is longer than {_MOST_EXPRESSION} characters")
    import re2  # 3 MB: only for a search by expressions

    options = re2.Options()
    options.log_errors = False
    try:
        made: Pattern = re2.compile(text, options)
        return made
    except re2.error as error:
        raise Misused(f"{text!r} is not a regular expression for the {field}: {error}") from None
