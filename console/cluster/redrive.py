"""Redrive: records of a dead-letter queue are sent to the topics that they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...admin.positions import Position
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ...records.reading import Reader
from ...records.selection import Selection
from ..whole_numbers import MOST_INT32, MOST_INT64, whole_number
from .sending import Outgoing, send
from .topic_names import check_topic_name, is_topic_name

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord, ProducedHeaders

#: Headers of dead-letter records, with where each came from.
ORIGIN = "__dlq.errors."
#: Records of one redrive.
MOST_REDRIVEN = 1000
_BATCH = 100


def redrive(connection: Connection, queue: str, partition: int, first: int, count: int) -> int:
    """Sends dead-letter records to the topics that they came from. Returns how many; the queue keeps its records.

    A record without contents is read at its origin. Raises UserError for one without an origin, or with a deleted one.
    Errors name the header of an origin, and have nothing of its text: masks may hide it.
    """
    chosen = []
    for message in _read(connection, queue, partition, first, min(count, MOST_REDRIVEN)):
        topic = _origin_of(message, "topic")
        key, value = message.key(), message.value()
        if key is None and value is None:
            place = (topic, _number_of(message, "partition", MOST_INT32), _number_of(message, "offset", MOST_INT64))
            found = _read_origin(connection, message, *place)
            if not found or found[0].offset() != place[2]:
                raise UserError(f"{_place(message)}: its origin is gone, and {queue} has no copy of it")
            key, value = found[0].key(), found[0].value()
        headers: ProducedHeaders = [
            (name, content) for name, content in message.headers() or () if not name.startswith("__dlq.")
        ]
        chosen.append(Outgoing(topic, value, key, -1, headers))
    return len(send(connection, chosen)) if chosen else 0


def _read_origin(
    connection: Connection, message: ConsumedRecord, topic: str, partition: int, offset: int
) -> list[ConsumedRecord]:
    try:
        return _read(connection, topic, partition, offset, 1)
    except UserError as error:
        words = "does not exist" if error.kind == ErrorKind.NOT_FOUND else "cannot be read now"
        raise UserError(f"{_place(message)}: its origin {words}; nothing was written", error.kind) from None


def _place(message: ConsumedRecord) -> str:
    return f"{message.topic()}-{message.partition()}, offset {message.offset()}"


def _origin_of(message: ConsumedRecord, name: str) -> str:
    """Reads a header with a part of the record's origin. Raises UserError where it has none, or bytes that are no text."""
    for header, content in message.headers() or ():
        if header == f"{ORIGIN}{name}":
            try:
                text = (content or b"").decode()
            except UnicodeDecodeError:
                raise _unusable(message, name, "cannot be read as text") from None
            if name == "topic" and not is_topic_name(text):
                raise _unusable(message, name, "has no name of a topic")
            return text
    raise _unusable(message, name, "is missing")


def _number_of(message: ConsumedRecord, name: str, most: int) -> int:
    text = _origin_of(message, name)
    number = whole_number(text, 0, most)
    if number is None:
        raise _unusable(message, name, "has no number")
    return number


def _unusable(message: ConsumedRecord, name: str, words: str) -> UserError:
    return UserError(
        f"{_place(message)}: the header {ORIGIN}{name}, which names its origin, {words}; nothing was written"
    )


def _read(connection: Connection, topic: str, partition: int, first: int, count: int) -> list[ConsumedRecord]:
    check_topic_name(topic)
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
