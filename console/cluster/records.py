"""Records as the console shows, finds and sends them. Masks come before filters: a filter cannot find what its viewer may
not see. Expressions run in RE2, which takes linear time.
"""

from __future__ import annotations

import fnmatch
import json
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ...cli.client.connection import Connection
from ...cli.client.errors import UNREACHABLE, CommandError, Misused, status_of_code
from ...cli.records.formats import Coding, Form, decoder, decoder_by_schema
from ...cli.records.reading import Reader
from ...cli.records.schema_registry import SchemaRegistry, framed
from ...cli.records.selection import Position, Selection, filters_of
from ..formats import drawn_text, json_text

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from ...cli.records.consumed import ConsumedRecord, Content, ProducedHeaders
    from ...cli.records.writing import Decode

# ---- keys and values as texts and structures
#
# Without a format given, the schema's id before a value decides, then its bytes. The decoders are the command line's.


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


# ---- masks of sensitive fields: contents that no viewer sees, and no filter can search
#
# A mask is the name of a field of JSON objects or of a header, with `*` for any characters, or a path of names between dots.
# Case does not count. `pattern:EXPRESSION` masks what matches in texts that are not JSON, keys included.

MASKED = "••••"
_PATTERN = "pattern:"
_MOST_DEPTH = 100


class Pattern(Protocol):
    """An expression of RE2."""

    def search(self, text: str, /) -> object: ...

    def sub(self, replacement: Callable[[object], str], text: str, /) -> str: ...


def _compiled(text: str, failure: str) -> Pattern:
    """Raises Misused with the words of `failure` for a bad expression."""
    import re2  # 3 MB: only for a search by expressions, and where a mask is one

    options = re2.Options()
    options.log_errors = False
    try:
        made: Pattern = re2.compile(text, options)
        return made
    except re2.error as error:
        raise Misused(f"{failure}{error}") from None


class Masks:
    def __init__(self, masks: Sequence[str]) -> None:
        self._paths = [one.lower().split(".") for one in masks if not one.startswith(_PATTERN)]
        self._patterns = [
            _compiled(one.removeprefix(_PATTERN), f"--mask {one}: ") for one in masks if one.startswith(_PATTERN)
        ]
        if any(not part for path in self._paths for part in path):
            raise Misused("--mask needs a field name, a path such as card.number, or pattern:EXPRESSION")

    def __bool__(self) -> bool:
        return bool(self._paths or self._patterns)

    def value(self, value: Content) -> Content:
        """The decoded key or value with masked fields replaced."""
        if isinstance(value, str):
            return self.text(value)
        return self._inside(value, (), 0) if self else value

    def text(self, text: str) -> str:
        for pattern in self._patterns:
            # A text as the replacement comes out of RE2 with each of its bytes as a character.
            text = pattern.sub(lambda _: MASKED, text)
        return text

    def header(self, name: str, value: str) -> str:
        return MASKED if self._is_masked((name.lower(),)) else self.text(value)

    def _inside(self, value: Content, path: tuple[str, ...], depth: int) -> Content:
        if depth > _MOST_DEPTH:
            return MASKED
        if isinstance(value, dict):
            return {
                name: MASKED
                if self._is_masked((*path, str(name).lower()))
                else self._inside(one, (*path, str(name).lower()), depth + 1)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [self._inside(one, path, depth + 1) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def _is_masked(self, path: tuple[str, ...]) -> bool:
        """A mask of several names matches the end of the path."""
        return any(
            len(mask) <= len(path) and all(map(fnmatch.fnmatchcase, path[-len(mask) :], mask)) for mask in self._paths
        )


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


def filters(query: Query) -> list[Passes]:
    """Raises Misused for a bad expression."""
    made: list[Passes] = []
    if query.key:
        pattern = _expression(query.key, "key")
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
    pattern = _expression(text, "value")
    return lambda record, message: pattern.search(record.value or "") is not None


def _header_filter(text: str) -> Passes:
    name, equals, expression = text.partition("=")
    pattern = _expression(expression, "header")
    return lambda record, message: any(
        known == name and (not equals or pattern.search(content) is not None) for known, content in record.headers
    )


def _expression(text: str, field: str) -> Pattern:
    if len(text) > _MOST_EXPRESSION:
        raise Misused(f"the expression for the {field} is longer than {_MOST_EXPRESSION} characters")
    return _compiled(text, f"{text!r} is not a regular expression for the {field}: ")


# ---- records that viewers send: by the form of the messages page, and back from a dead-letter queue

#: Headers of dead-letter records, with where each came from.
ORIGIN = "__dlq.errors."
#: Records of one redrive.
MOST_REDRIVEN = 1000
_BATCH = 100


@dataclass(slots=True)
class Outgoing:
    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: ProducedHeaders = field(default_factory=list)


def send(connection: Connection, records: Iterable[Outgoing]) -> list[tuple[str, int, int]]:
    """Sends records and waits. Returns topic, partition and offset of each; raises CommandError for the first failure."""
    from confluent_kafka import Producer

    producer = Producer({"partitioner": "murmur2_random", "enable.idempotence": True} | connection.librdkafka())
    records = list(records)
    _check_leaders(producer, connection, records)
    places: list[tuple[str, int, int]] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            record = cast("ConsumedRecord", message)
            places.append((record.topic(), record.partition(), record.offset()))

    for one in records:
        producer.produce(
            one.topic, one.value, one.key, one.partition, headers=one.headers or None, on_delivery=delivered
        )
        producer.poll(0)
    left = producer.flush(connection.timeout_s)
    if failed:
        raise CommandError(f"{failed[0].str()}; {len(places)} records were written", status_of_code(failed[0].code()))
    if left:
        raise CommandError(
            f"{left} records were not acknowledged within {connection.timeout_s:g} s; they may or may not be written"
        )
    return places


def _check_leaders(producer: Producer, connection: Connection, records: list[Outgoing]) -> None:
    """Raises CommandError for a partition that was chosen and has no leader: its record would only wait."""
    for topic, partition in sorted({(one.topic, one.partition) for one in records if one.partition >= 0}):
        found = producer.list_topics(topic, timeout=connection.timeout_s).topics[topic].partitions.get(partition)
        if found is not None and found.leader < 0:
            replicas = ", ".join(map(str, found.replicas))
            raise CommandError(
                f"{topic}-{partition} has no leader, and nothing was written: start one of the brokers {replicas}",
                UNREACHABLE,
            )


def redrive(connection: Connection, queue: str, partition: int, first: int, count: int) -> int:
    """Sends dead-letter records to the topics that they came from. Returns how many; the queue keeps its records.

    A record without contents is read at its origin. Raises CommandError for one without an origin, or with a deleted one.
    """
    chosen = []
    for message in _read(connection, queue, partition, first, min(count, MOST_REDRIVEN)):
        origin = {
            name: (content or b"").decode() for name, content in message.headers() or () if name.startswith(ORIGIN)
        }
        topic = origin.get(f"{ORIGIN}topic")
        if topic is None:
            raise CommandError(
                f"{queue}-{partition}, offset {message.offset()}: the header {ORIGIN}topic, which names its "
                "origin, is missing"
            )
        key, value = message.key(), message.value()
        if key is None and value is None:
            place = (topic, int(origin[f"{ORIGIN}partition"]), int(origin[f"{ORIGIN}offset"]))
            found = _read(connection, *place, 1)
            if not found or found[0].offset() != place[2]:
                raise CommandError(f"{topic}-{place[1]}, offset {place[2]} is gone, and {queue} has no copy of it")
            key, value = found[0].key(), found[0].value()
        headers: ProducedHeaders = [
            (name, content) for name, content in message.headers() or () if not name.startswith("__dlq.")
        ]
        chosen.append(Outgoing(topic, value, key, -1, headers))
    return len(send(connection, chosen)) if chosen else 0


def _read(connection: Connection, topic: str, partition: int, first: int, count: int) -> list[ConsumedRecord]:
    reader = Reader(connection, Selection([topic], (partition,), Position(first), None))
    found: list[ConsumedRecord] = []
    try:
        reader.begin()
        for batch in reader.batches(min(count, _BATCH)):
            found += batch
            if len(found) >= count:
                break
    finally:
        reader.close()
    return found[:count]
