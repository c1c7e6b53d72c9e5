"""Redrive: records of a dead-letter queue are sent to the topics that they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...admin.positions import Position
from ...client.user_errors import UserError
from ...records.reading import Reader
from ...records.selection import Selection
from .sending import Outgoing, send

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
    """
    chosen = []
    for message in _read(connection, queue, partition, first, min(count, MOST_REDRIVEN)):
        origin = {
            name: (content or b"").decode() for name, content in message.headers() or () if name.startswith(ORIGIN)
        }
        topic = origin.get(f"{ORIGIN}topic")
        if topic is None:
            raise UserError(
                f"{queue}-{partition}, offset {message.offset()}: the header {ORIGIN}topic, which names its "
                "origin, is missing"
            )
        key, value = message.key(), message.value()
        if key is None and value is None:
            place = (topic, int(origin[f"{ORIGIN}partition"]), int(origin[f"{ORIGIN}offset"]))
            found = _read(connection, *place, 1)
            if not found or found[0].offset() != place[2]:
                raise UserError(f"{topic}-{place[1]}, offset {place[2]} is gone, and {queue} has no copy of it")
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
