"""Reads records for the messages page, within limits of number, bytes and time. Decoding is the command line's.

Masks come before filters: a filter cannot find what its viewer may not see. Expressions run in RE2, which takes linear time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...cli.client.connection import Connection
from ...cli.client.errors import CommandError, Misused
from ...cli.records.decoding import Coding, Form, decoder
from ...cli.records.filters import filters_of
from ...cli.records.positions import Position, parse_position
from ...cli.records.reading import Reader, Selection
from ..access.masking import Masks

#: Limits of one search.
MOST_SCANNED, MOST_BYTES, MOST_SECONDS = 100_000, 64 << 20, 4.0
MOST_SHOWN = 500
_BATCH = 500
_MOST_EXPRESSION = 500
AUTO = "auto"
FORMS = (AUTO, *(form.value for form in Form if form is not Form.protobuf), Form.protobuf.value)
#: Functions and operators of JSONPath that run Python's expressions, whose time has no limit.
_WITHOUT_LIMIT = ("=~", "match(", "search(")

Passes = Callable[["Record", Any], bool]


@dataclass(frozen=True, slots=True)
class Query:
    """`partition` None: all. `start` and the formats are those of `odradek consume`."""

    topic: str
    partition: int | None = None
    start: str = "-50"
    limit: int = 50
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
    """`key` and `value` are masked texts; None for a null. `document` is the masked value before it became a text."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: list[tuple[str, str]]
    bytes: int
    document: Any = None

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
        return json.dumps(made, ensure_ascii=False, indent=2, default=str)


@dataclass(slots=True)
class Found:
    """`ended` is the reason why the search ended. Partitions of `leaderless` were not read. `notes`: offsets of the query
    that partitions do not have.
    """

    records: list[Record]
    scanned: int
    seconds: float
    ended: str
    leaderless: dict[int, list[int]]
    notes: list[str] = field(default_factory=list)


class RecordReader:
    """`read` opens a consumer without a group and closes it. Decoders are kept: some hold schemas."""

    def __init__(
        self,
        connection: Connection,
        masks: Masks,
        schema_registry: str | None,
        away: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        self._connection = connection
        self._away = away
        self._masks = masks
        self._registry = schema_registry
        self._decoders: dict[str, Any] = {}

    def read(self, query: Query) -> Found:
        """Raises CommandError for a topic that does not exist, and Misused for a bad query."""
        start = parse_position(query.start)
        passes = filters(query)
        began = time.monotonic()
        notes: list[str] = []
        reader = self._reader(query, start, notes.append, follow=False)
        try:
            leaderless = self._leaderless(reader, query)
            if leaderless and not reader.selection.partitions:
                return Found([], 0, time.monotonic() - began, "the end of the log", leaderless)
            reader.begin()
            records, scanned, ended = self._scanned(reader, query, passes, began, keeps_last=_is_tail(start))
        finally:
            reader.close()
        records.sort(key=lambda one: (one.timestamp_ms, one.partition, one.offset))
        records = records[-query.limit :] if _is_tail(start) else records[: query.limit]
        return Found(records, scanned, time.monotonic() - began, ended, leaderless, notes)

    def _reader(self, query: Query, start: Position, note: Callable[[str], None], *, follow: bool) -> Reader:
        chosen = () if query.partition is None else (query.partition,)
        return Reader(self._connection, Selection([query.topic], chosen, start, None, follow), note)

    def _leaderless(self, reader: Reader, query: Query) -> dict[int, list[int]]:
        """Takes partitions without a leader that answers out of the selection: a search would wait for them to its end.
        Returns their replicas.
        """
        known = reader.described(query.topic).partitions
        away = self._away()
        chosen = reader.selection.partitions or sorted(known)
        found = {
            index: sorted(known[index].replicas)
            for index in chosen
            if index in known and (known[index].leader < 0 or known[index].leader in away)
        }
        if found:
            reader.selection.partitions = [index for index in chosen if index not in found]
        return found

    def open(self, query: Query, start: Position, *, follow: bool) -> Reader:
        reader = self._reader(query, start, lambda line: None, follow=follow)
        try:
            reader.begin()
        except BaseException:
            reader.close()
            raise
        return reader

    def _scanned(
        self, reader: Reader, query: Query, passes: list[Passes], began: float, *, keeps_last: bool
    ) -> tuple[list[Record], int, str]:
        found: list[Record] = []
        scanned = read_bytes = 0
        # A tail's newest records come last: all of it is read, and what is older than the newest is dropped.
        for batch in reader.batches(_BATCH):
            for message in batch:
                scanned += 1
                record = self.record(message, query)
                read_bytes += record.bytes
                if all(one(record, message) for one in passes):
                    found.append(record)
                    if not keeps_last and len(found) >= query.limit:
                        return found, scanned, f"the limit of {query.limit} records"
            if keeps_last and len(found) > 4 * MOST_SHOWN:
                found = sorted(found, key=lambda one: one.timestamp_ms)[-MOST_SHOWN:]
            if scanned >= MOST_SCANNED or read_bytes >= MOST_BYTES:
                return found, scanned, "the limit of one search: continue from the last offset"
            if time.monotonic() - began > MOST_SECONDS:
                return found, scanned, f"{MOST_SECONDS:g} s: continue from the last offset"
        return found, scanned, "the end of the log"

    def record(self, message: Any, query: Query) -> Record:
        key, _ = self._decoded(message.key(), query.key_form, query.topic)
        value, document = self._decoded(message.value(), query.value_form, query.topic)
        headers = [
            (str(name), self._masks.header(str(name), _text(content))) for name, content in message.headers() or ()
        ]
        length = len(message.key() or b"") + len(message.value() or b"")
        place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
        return Record(*place, key, value, headers, length, document)

    def _decoded(self, data: bytes | None, form: str, topic: str) -> tuple[str | None, Any]:
        """The masked text, and the masked value that it is of."""
        if data is None:
            return None, None
        if form == AUTO:
            value = _guessed(data)
        else:
            try:
                decode = self._decoder(form)
                value = data.decode(errors="replace") if decode is None else decode(data, topic)
            except CommandError as error:
                if isinstance(error, Misused):
                    raise
                value = f"({error})"
        value = self._masks.value(value)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), value

    def _decoder(self, form: str) -> Any:
        if form not in FORMS:
            raise Misused(f"unknown format {form!r}; formats: {', '.join(FORMS)}")
        if form not in self._decoders:
            if form in ("avro", "protobuf") and self._registry is None:
                raise Misused(f"{form} needs the schema registry: start the console with --schema-registry URL")
            self._decoders[form] = decoder(Coding(Form(form), self._registry), self._connection)
        return self._decoders[form]


def _is_tail(start: Position) -> bool:
    return start.offset is not None and start.offset < -1000


def _guessed(data: bytes) -> Any:
    """JSON, else text, else hexadecimal digits."""
    if data[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            pass
    return _text(data)


def _text(data: bytes | None) -> str:
    if data is None:
        return ""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex(" ", 2)


# ---- filters


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


def _compiled(text: str, field: str) -> Any:
    if len(text) > _MOST_EXPRESSION:
        raise Misused(f"the expression for the {field} is longer than {_MOST_EXPRESSION} characters")
    import re2  # 3 MB: only for a search by expressions

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise Misused(f"{text!r} is not a regular expression for the {field}: {error}") from None
