"""The deliveries to members of a share group and the answers to them, record by record, and the violations in them.

    done twice         an acknowledgement was confirmed that was made after one that ended the record was
    given when done    a record was given out after an acknowledgement that ended it was confirmed
    counted back       after a release was confirmed the record was given with no higher count
    counted by leaps   while nothing went wrong, a record's deliveries were not counted 1, 2, 3 and so on
    counted twice      a record was given with the same count more often than its partition changed its leader
    given too often    more often than group.share.delivery.count.limit
    given up           poison that was not given as often as it may be
    lost               a record that nobody had, or may have, ended
    given while held   a record went to another member within a lock's time after its lock was renewed
    refused though held    what a member said within a lock's time after it renewed its locks was refused
    not committed      a record of a transaction that was aborted was given out, or one record from two places

An acknowledgement that failed, or whose answer never came, may have been taken or not. What a client got before a record
was done may be read from its buffer afterwards, so a delivery is *late* only if its member had begun all of its last
BUFFERED polls after that, or came after that. Below the start of the share partition, where all is done with, Kafka takes
whatever is said and means nothing by it: so what is said too late counts only where an earlier record was given out yet.

A renewed lock (KIP-1222) lives in the memory of the partition's leader, and ends with its member's connection. So what is
held counts only as long as the leader is known to have been the same, and the member to have gone on.
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

#: Answers of different brokers wait in a client beside each other; no more of them than this.
BUFFERED = 6

#: What clients call INVALID_RECORD_STATE begins so, whatever they write around it.
_NOT_YOURS = "InvalidRecordState"

Place = tuple[int, int]


class Given(NamedTuple):
    member: str
    time: float
    count: int
    #: Fetched after this, for sure.
    not_before: float


class Word(NamedTuple):
    """`told`: when it was confirmed; None if it was refused, or nobody knows. A client may have said it several times."""

    member: str
    count: int
    what: str
    said: float
    reported: float | None
    #: When it was refused since the broker did not take the record to be with that member.
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
    """The record at each place of the topic."""

    def __init__(self) -> None:
        super().__init__()
        #: Of each member, the last that is known of it.
        self.last_seen: dict[str, float] = {}


class Quiet(NamedTuple):
    """The records from this value on were written when all members had been in the group, and until then none had gone."""

    first_value: int
    until: float


@dataclass
class Circumstances:
    """The faults of the group. `leader_changes`: by partition, since it was created."""

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
    # Who is killed may leave half a line.
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
    """Forgets requests that were never answered."""
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
    """`values`: of all records that there are, none below 0: those are of aborted transactions."""
    found = []
    places = Counter(record.value for record in history.values())
    # Of each partition: until then a record up to this offset was not done with.
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
    """Allows one delivery to a member that died before it noted it."""
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
