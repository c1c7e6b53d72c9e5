"""The deliveries to members of a share group, their acknowledgements by record, and the violations in them.

    done twice         an acknowledgement was confirmed, though an earlier one had already finished the record
    given when done    a record was delivered after the acknowledgement that finished it was confirmed
    counted back       after a confirmed release, a record was delivered with no higher delivery count
    counted by leaps   in the time without faults, the delivery counts of a record were not 1, 2, 3 and so on
    counted twice      a record was delivered with the same count more often than its partition changed its leader
    given too often    a record was delivered more often than group.share.delivery.count.limit
    given up           a poison record did not reach its delivery limit
    lost               no member finished the record, nor may have finished it
    given while held   a record was delivered to another member within a lock's time after its lock was renewed
    refused though held    a member's acknowledgement failed within a lock's time after the member renewed the lock
    not committed      a record of an aborted transaction was delivered, or one value from two offsets

An acknowledgement that failed, or was not answered, may have taken effect or not. A member may read from its buffer what it
fetched before a record was finished. So a delivery is *late* only if the member joined after that time, or began all of its
last BUFFERED polls after it. Below the start offset of the share partition, Kafka confirms every acknowledgement and ignores
it. So a late acknowledgement counts only while a record at or before its offset was still open.

A renewed lock (KIP-1222) is in the memory of the partition's leader, and ends with its member's connection. So it counts as
held only while the leader is certain to be the same, and the member to be running.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .leaders import Leaders
from .member import RELEASE, RENEW, is_poison

#: Most responses of different brokers that wait in a client.
BUFFERED = 6

#: Clients begin their message for INVALID_RECORD_STATE with this.
_NOT_YOURS = "InvalidRecordState"

Place = tuple[int, int]


class Given(NamedTuple):
    member: str
    time: float
    count: int
    #: The fetch was certainly sent after this.
    not_before: float


class Word(NamedTuple):
    """An acknowledgement. `reported` is the time of its confirmation; None if it failed or its outcome is unknown.

    A client may have sent it several times.
    """

    member: str
    count: int
    what: str
    said: float
    reported: float | None
    #: Time of an error response, because the broker did not regard the record as acquired by this member.
    rejected: float | None = None

    @property
    def ends(self) -> bool:
        return self.what not in (RELEASE, RENEW)


@dataclass
class Record:
    value: int
    given: list[Given] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)

    @property
    def confirmed(self) -> list[Word]:
        return sorted((word for word in self.words if word.reported is not None), key=lambda word: word.reported or 0)

    @property
    def most(self) -> int:
        return max(one.count for one in self.given)


class History(dict[Place, Record]):
    """The records of the topic by partition and offset."""

    def __init__(self) -> None:
        super().__init__()
        #: Member to the time of its last note.
        self.last_seen: dict[str, float] = {}


class Quiet(NamedTuple):
    """The time without faults. All members joined before the record `first_value`, and none left before `until`."""

    first_value: int
    until: float


@dataclass
class Circumstances:
    """The faults of the group. `leader_changes`: partition to the number of changes since its creation."""

    limit: int
    leader_changes: Mapping[int, int]
    quiet: Quiet
    lock_s: float
    leaders: Leaders


def read(files: Iterable[Path]) -> History:
    history = History()
    for file in files:
        _read_one(file, history)
    return history


def _read_one(file: Path, history: History) -> None:
    begun: list[float] = []
    said: dict[int, list[Any]] = defaultdict(list)
    # A killed process may leave an incomplete line.
    for kind, *words in (json.loads(line) for line in file.read_text().splitlines(True) if line.endswith("\n")):
        if kind == "came":
            begun = [words[0]] * BUFFERED
        elif kind == "given":
            begun.append(words[0])
            for partition, offset, count, value in words[2]:
                record = history.setdefault((partition, offset), Record(value))
                record.given.append(Given(file.stem, words[1], count, begun[-BUFFERED]))
        elif kind == "says":
            _forget(said, history, file.stem)
            for partition, *word in words[1]:
                said[partition].append([*word, words[0]])
        elif kind == "told":
            confirmed = words[0] if words[2] is None else None
            rejected = words[0] if words[2] is not None and _NOT_YOURS in words[2] else None
            _say(said.pop(words[1], []), words[1], history, file.stem, confirmed, rejected)
        history.last_seen[file.stem] = words[1] if kind == "given" else words[0]
    _forget(said, history, file.stem)


def _forget(said: dict[int, list[Any]], history: History, member: str) -> None:
    """Records the requests that were not answered as acknowledgements with an unknown outcome."""
    for partition, words in said.items():
        _say(words, partition, history, member)
    said.clear()


def _say(
    words: list[Any],
    partition: int,
    history: History,
    member: str,
    reported: float | None = None,
    rejected: float | None = None,
) -> None:
    for offset, count, what, said in words:
        history[partition, offset].words.append(Word(member, count, what, said, reported, rejected))


def anomalies(history: History, values: Iterable[int], circumstances: Circumstances) -> list[str]:
    """Returns the violations. `values` are those of all committed records; values below 0 are of aborted transactions."""
    found = []
    places = Counter(record.value for record in history.values())
    # Partition to the time until which a record up to this offset was open.
    open_until: dict[int, float] = defaultdict(float)
    for (partition, offset), record in sorted(history.items()):
        open_until[partition] = max(open_until[partition], *(one.not_before for one in record.given))
        kinds = (
            *_of_end(record, open_until[partition]),
            *_of_deliveries(record, circumstances.limit, circumstances.leader_changes[partition]),
            *_of_fate(record, circumstances.limit),
            *_of_quiet(record, circumstances.quiet),
            *_of_locks(record, partition, history.last_seen, circumstances),
            *(["not committed"] if record.value < 0 or places[record.value] > 1 else []),
        )
        for words in kinds:
            found.append(f"{words}: value {record.value}, offset {offset} of partition {partition}: {record}")
    return [*found, *(f"lost: value {value} was given to nobody" for value in values if value not in places)]


def _of_end(record: Record, open_until: float) -> Iterator[str]:
    ended = next((word.reported for word in record.confirmed if word.ends), None)
    if ended is not None and any(ended < word.said and (word.reported or 0) < open_until for word in record.confirmed):
        yield "done twice"


def _of_deliveries(record: Record, limit: int, leader_changes: int) -> Iterator[str]:
    for word in record.confirmed:
        late = [one for one in record.given if word.reported is not None and one.not_before > word.reported]
        if word.ends and late:
            yield "given when done"
        elif word.what == RELEASE and any(one.count <= word.count for one in late):
            yield "counted back"
    if any(times > 1 + leader_changes for times in Counter(one.count for one in record.given).values()):
        yield "counted twice"
    if record.most > limit or min(one.count for one in record.given) < 1:
        yield "given too often"


def _of_fate(record: Record, limit: int) -> Iterator[str]:
    """Yields the records that did not end. Allows one delivery to a member that died before it noted it."""
    if is_poison(record.value):
        if record.most < limit - 1:
            yield "given up"
    elif not any(word.ends for word in record.words) and record.most < limit - 1:
        yield "lost"


def _of_quiet(record: Record, quiet: Quiet) -> Iterator[str]:
    if record.value >= quiet.first_value:
        counts = [one.count for one in sorted(record.given, key=lambda one: one.time) if one.time < quiet.until]
        if counts != list(range(1, len(counts) + 1)):
            yield "counted by leaps"


def _of_locks(
    record: Record, partition: int, last_seen: Mapping[str, float], circumstances: Circumstances
) -> Iterator[str]:
    are_steady = circumstances.leaders.are_steady
    for renewal in record.confirmed:
        if renewal.what != RENEW:
            continue
        end = renewal.said + circumstances.lock_s
        later = [word for word in record.words if word.member == renewal.member and word.said > renewal.said]
        rejected = [word.rejected for word in later if word.rejected is not None and word.rejected < end]
        if rejected and are_steady(partition, renewal.said, min(rejected)):
            yield "refused though held"
        for one in record.given:
            is_held = one.time < min(end, last_seen[renewal.member]) and not any(w.said < one.time for w in later)
            is_fresh = one.member != renewal.member and one.not_before > (renewal.reported or 0)
            if is_held and is_fresh and are_steady(partition, renewal.said, one.time):
                yield "given while held"
