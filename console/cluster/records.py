"""Records as the console shows them: decoded, and masked before anything else sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ..budgets import UNLIMITED, Budget
from ..documents import Changes
from ..texts import drawn_text, escaped, json_text
from .decoding import AUTO, DOCUMENTS, FORMS, RecordDecoder, text_or_hex
from .filters import text_filter
from .masked_wanted import masked_wanted
from .masks import MASKED, Masks
from .query import Query
from .seen import Headers, Seen
from .wanted import Wanted, wanted_by

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord
    from ...records.contents import Content

#: A record of more bytes may take a second.
_LONG = 4 << 20


@dataclass(frozen=True, slots=True)
class Raw:
    """A record's bytes as they were written, where no masks hide any of them."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Record:
    """`key` and `value` are masked texts; None for a null. `document` is the masked value before it became a text.
    `form`: what the value was decoded as.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: Headers
    bytes: int
    document: Content = None
    key_document: Content = None
    form: str = ""
    raw: Raw | None = None

    def as_json(self) -> str:
        made = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "key": self.key_document,
            "value": self.document,
            "headers": [{"key": name, "value": value} for name, value in self.headers],
        }
        return json_text(made, indent=2)


class SearchedRecord:
    """A record of which that alone is decoded and masked at which a filter looks: most records of a search pass none."""

    def __init__(self, maker: RecordMaker, message: ConsumedRecord, query: Query) -> None:
        self._maker, self._message, self._query = maker, message, query

    @property
    def key(self) -> str | None:
        return self._maker.text(self._message.key(), self._query.key_form, self._query.topic)

    @property
    def value(self) -> str | None:
        return self._maker.text(self._message.value(), self._query.value_form, self._query.topic)

    @property
    def headers(self) -> Headers:
        return self._maker.headers(self._message.headers() or ())

    @property
    def document(self) -> Content:
        return self._maker.document(self._message.value(), self._query.value_form, self._query.topic)


class RecordMaker:
    """Makes masked records of a library's messages."""

    def __init__(self, connection: Connection, masks: Masks, schema_registry: str | None) -> None:
        self._masks = masks
        self._has_schemas = schema_registry is not None
        self._decoder = RecordDecoder(connection, schema_registry)

    def record(self, message: ConsumedRecord, query: Query, budget: Budget = UNLIMITED) -> Record:
        """Raises Stopped where a long record takes all of the budget."""
        budget.check()
        if len(message.value() or b"") + len(message.key() or b"") < _LONG:
            return self._record(message, query)
        with budget.enforced():
            return self._record(message, query)

    def searched(self, message: ConsumedRecord, query: Query, budget: Budget = UNLIMITED) -> Seen:
        """The record for filters. Raises Stopped where a long record takes all of the budget."""
        if len(message.value() or b"") + len(message.key() or b"") >= _LONG:
            return self.record(message, query, budget)
        return SearchedRecord(self, message, query)

    def text(self, data: bytes | None, form: str, topic: str) -> str | None:
        """The masked text of a key or a value."""
        return self._decoded(data, form, topic)[0]

    def document(self, data: bytes | None, form: str, topic: str) -> Content:
        """The masked key or value before it becomes a text, which takes longer."""
        if data is None:
            return None
        if self._masks:
            return self._masked(data, form, topic)[0]
        return self._decoder.decode(data, form, topic, has_text=False).value

    def wanted(self, query: Query) -> Wanted:
        """The records that may pass the query, by their bytes; with masks by what these leave of them."""
        key = query.key if query.key_form == AUTO else ""
        value = query.value if query.value_form == AUTO else ""
        if self._masks:
            return masked_wanted(self._masks, key, value, text_filter)
        where = query.where if query.value_form == AUTO else ""
        return wanted_by(key, value, text_filter, where, has_schemas=self._has_schemas)

    def _record(self, message: ConsumedRecord, query: Query) -> Record:
        raw = Raw(message.key(), message.value(), message.headers() or ())
        key, key_document, _ = self._decoded(raw.key, query.key_form, query.topic)
        value, document, form = self._decoded(raw.value, query.value_form, query.topic)
        length = len(raw.key or b"") + len(raw.value or b"")
        place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
        shown = None if self._masks else raw
        return Record(*place, key, value, self.headers(raw.headers), length, document, key_document, form, shown)

    def headers(self, pairs: Sequence[tuple[str, bytes | None]]) -> Headers:
        if not self._masks:
            return [(str(name), None if one is None else text_or_hex(one)) for name, one in pairs]
        return [(self._masks.name(str(name)), self._masks.header(str(name), one)) for name, one in pairs]

    def _decoded(self, data: bytes | None, form: str, topic: str) -> tuple[str | None, Content, str]:
        """The masked text, the masked value that it is of, and what the bytes were taken for."""
        if data is None:
            return None, None, "null"
        if self._masks:
            changes = Changes()
            value, taken_for = self._masked(data, form, topic)
            is_json = taken_for == "json" and not isinstance(value, str)
            return escaped(changes.text(value)) if is_json else _text_of(value), value, taken_for
        found = self._decoder.decode(data, form, topic)
        is_written = found.text is not None and not isinstance(found.value, str)
        return escaped(found.text or "") if is_written else _text_of(found.value), found.value, found.form

    def _masked(self, data: bytes, form: str, topic: str) -> tuple[Content, str]:
        """Forms that show bytes as they are would show what masks hide: they show documents. Reasons why bytes are none name
        a part of them, and are left out.
        """
        if form not in FORMS:
            self._decoder.decode(data, form, topic)  # raises the error for a format that does not exist
        found = self._decoder.decode(
            data, form if form in DOCUMENTS else AUTO, topic, with_scalars=True, has_text=False
        )
        if found.is_document:
            return self._masks.document(found.value), found.form
        is_text = found.form == "text" and isinstance(found.value, str)
        text = self._masks.unparsed(data, str(found.value) if is_text else drawn_text(data))
        return text, "hidden by masks" if text == MASKED else "text"


def _text_of(value: Content) -> str:
    return escaped(value) if isinstance(value, str) else json_text(value)
