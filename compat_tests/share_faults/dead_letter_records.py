"""The dead-letter queue of a group (KIP-1191), and the violations in it.

    not buried             a finished record that no member accepted is not in the queue
    buried and accepted    a record is in the queue, though the broker confirmed that it was accepted
    buried for nothing     no member rejected the record, and it did not reach its delivery limit
    another's words        a dead-letter record has a value other than its source record's, or a wrong reason
    buried over and over   a record has more dead-letter records than leaders that may have continued with it

The leader writes that a record is archiving before it produces the dead-letter record. A leader that loads this state
produces the dead-letter record again: after kill -9 none is missing, and some are there twice. A transaction marker is
acquired with the records around it, and the client acknowledges it as a gap. If clients die each time before that, the
marker reaches the delivery limit as a record does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from compat_tests.batches import partition_count, read_batches

from .history import Circumstances, History, Place, Record
from .member import ACCEPT, REJECT

_PREFIX = "__dlq.errors."
REJECTED = "Offset rejected by client."
EXCEEDED = "Offset delivery count exceeded the threshold."


class DeadLetterRecord(NamedTuple):
    place: Place
    value: int
    why: str


def read(bootstrap: str, queue: str) -> list[DeadLetterRecord]:
    """Returns all current dead-letter records of a group that copies records."""
    found = []
    for index in range(partition_count(bootstrap, queue)):
        for _, records in read_batches(bootstrap, queue, index):
            for record in records:
                headers = {name.removeprefix(_PREFIX): (value or b"").decode() for name, value in record.headers}
                place = int(headers["partition"]), int(headers["offset"])
                # A record that the broker could not read again has no value; the value of a marker is not a number.
                value = record.value or b""
                number = int(value) if value.lstrip(b"-").isdigit() else -1
                found.append(DeadLetterRecord(place, number, headers["message"]))
    return found


def markers(bootstrap: str, topic: str) -> set[Place]:
    """Returns the offsets of transaction markers."""
    return {
        (index, header.base_offset)
        for index in range(partition_count(bootstrap, topic))
        for header, _ in read_batches(bootstrap, topic, index)
        if header.is_control
    }


def anomalies(
    history: History,
    dead_letter_records: Iterable[DeadLetterRecord],
    circumstances: Circumstances,
    markers: Container[Place] = (),
) -> list[str]:
    by_place: dict[Place, list[DeadLetterRecord]] = defaultdict(list)
    for dead_letter in dead_letter_records:
        if dead_letter.place not in markers or dead_letter.why != EXCEEDED:
            by_place[dead_letter.place].append(dead_letter)
    found = []
    open_until: dict[int, float] = defaultdict(float)
    for place, record in sorted(history.items()):
        open_until[place[0]] = max(open_until[place[0]], *(one.not_before for one in record.given))
        of_it = by_place.pop(place, [])
        kinds = _of_letters(record, of_it, circumstances, open_until[place[0]], circumstances.leader_changes[place[0]])
        found += [f"{words}: value {record.value} at {place}: {record}, {of_it}" for words in kinds]
    return [*found, *(f"buried for nothing: nobody was given {place}: {of_it}" for place, of_it in by_place.items())]


def _of_letters(
    record: Record,
    dead_letter_records: list[DeadLetterRecord],
    circumstances: Circumstances,
    open_until: float,
    leader_changes: int,
) -> Iterator[str]:
    is_rejected = any(word.what == REJECT for word in record.words)
    # A member may have died before it wrote down one delivery.
    is_used_up = record.most >= circumstances.limit - 1
    accepted = [word.reported for word in record.confirmed if word.what == ACCEPT]
    if not dead_letter_records:
        if not any(word.what == ACCEPT for word in record.words):
            yield "not buried"
        return
    if any(reported is not None and reported < open_until for reported in accepted):
        yield "buried and accepted"
    if not is_rejected and not is_used_up:
        yield "buried for nothing"
    reasons = {REJECTED: is_rejected, EXCEEDED: is_used_up}
    if any(
        dead_letter.value != record.value or not reasons.get(dead_letter.why) for dead_letter in dead_letter_records
    ):
        yield "another's words"
    if len(dead_letter_records) > 1 + leader_changes:
        yield "buried over and over"
