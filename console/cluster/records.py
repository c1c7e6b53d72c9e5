"""Records as the console shows them, and the filters of a search. Masks come before filters: a filter cannot find what its
viewer may not see. Expressions run in RE2, which takes linear time.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...cli.client.connection import Connection
from ...cli.client.errors import CommandError, Misused
from ...cli.records.formats import Coding, Form, decoder, decoder_by_schema
from ...cli.records.schema_registry import SchemaRegistry, framed
from ...cli.records.selection import filters_of
from ..access.masking import Masks
from ..views.formats import drawn_text, json_text

if TYPE_CHECKING:
    from ...cli.records.consumed import ConsumedRecord, Content
    from ...cli.records.writing import Decode

# Keys and values as texts and structures. Without a format given, the schema's id before a value decides, then its bytes.
#
# The decoders are the command line's.


AUTO = "auto"
FORMS = (AUTO, *(form.value for form in Form))
#: A viewer waits no longer for a schema. A schema that could not be read is not read again before a time.
_REGISTRY_TIMEOUT_S, _RETRY_S = 2.0, 30.0
#: Failures that are kept: a topic of bytes that only look like values with schemas has many different ids.
_MOST_FAILURES = 1000
_DAMAGED = (ValueError, KeyError, IndexError, EOFError, struct.error, TypeError)


class Decoded(NamedTuple):
    """`form`: what the bytes were taken for, such as `json` or `avro, schema 7`."""

    value: Content
    form: str


class RecordDecoder:
    """Decoders are kept: some hold schemas."""

    def __init__(self, connection: Connection, registry_url: str | None) -> None:
        self._connection = connection
        self._registry_url = registry_url
        self._by_schema: Callable[[bytes], tuple[str, Content]] | None = None
        if registry_url is not None:
            user = connection.properties.get("schema.registry.basic.auth.user.info")
            self._by_schema = decoder_by_schema(SchemaRegistry(registry_url, user, _REGISTRY_TIMEOUT_S))
        self._chosen: dict[str, Decode | None] = {}
        #: Schema id, or -1 for the registry -> why it cannot be read, and until when this holds.
        self._failures: dict[int, tuple[str, float]] = {}

    def decode(self, data: bytes, form: str, topic: str) -> Decoded:
        """Raises Misused for a format that does not exist or needs a registry."""
        if form == AUTO:
            return self._guessed(data)
        try:
            decode = self._decoder(form)
            return Decoded(_text(data) if decode is None else decode(data, topic), form)
        except Misused:
            raise
        except CommandError as error:
            return Decoded(f"({error})", form)

    def _decoder(self, form: str) -> Decode | None:
        if form not in FORMS:
            raise Misused(f"unknown format {form!r}; formats: {', '.join(FORMS)}")
        if form not in self._chosen:
            if form in ("avro", "protobuf") and self._registry_url is None:
                raise Misused(f"{form} needs the schema registry: start the console with --schema-registry URL")
            self._chosen[form] = decoder(Coding(Form(form), self._registry_url), self._connection)
        return self._chosen[form]

    def _guessed(self, data: bytes) -> Decoded:
        note = ""
        if self._by_schema is not None and len(data) > 5 and data[0] == 0:
            found, note = self._with_schema(data, self._by_schema)
            if found is not None:
                return found
        if data[:1] in (b"{", b"["):
            try:
                return Decoded(json.loads(data.decode()), "json")
            except (ValueError, RecursionError):
                pass
        text = drawn_text(data)
        return Decoded(data.hex(" ", -2), f"hex{note}") if text is None else Decoded(text, "text")

    def _with_schema(self, data: bytes, decode: Callable[[bytes], tuple[str, Content]]) -> tuple[Decoded | None, str]:
        """The value, or why there is none."""
        schema_id, _ = framed(data)
        now = time.monotonic()
        for known in (-1, schema_id):
            reason, until = self._failures.get(known, ("", 0.0))
            if now < until:
                return None, reason
        try:
            kind, value = decode(data)
            return Decoded(value, f"{kind.lower()}, schema {schema_id}"), ""
        except _DAMAGED as error:
            return None, f", not of schema {schema_id}: {error or type(error).__name__}"[:200]
        except ImportError:
            reason, key = f", schema {schema_id} needs pip install 'odradek[decoding]'", schema_id
        except CommandError as error:
            reason = f", schema {schema_id}: {error}"[:200]
            key = schema_id if "HTTP status" in reason or isinstance(error, Misused) else -1
        if len(self._failures) >= _MOST_FAILURES:
            self._failures.clear()
        self._failures[key] = (reason, time.monotonic() + _RETRY_S)
        return None, reason


def _text(data: bytes) -> str:
    found = drawn_text(data)
    return data.hex(" ", -2) if found is None else found


def header_text(data: bytes | None) -> str:
    if data is None:
        return ""
    return _text(data) if isinstance(data, bytes) else str(data)


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
