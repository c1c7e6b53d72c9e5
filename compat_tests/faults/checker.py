"""Holds what clients were told against what is there in the end. The anomalies are those of Jepsen's Kafka workload.

It knows records, offsets and acknowledgements, and nothing of brokers. Every check is a function of the history and of
the final reading; a sentence for each anomaly comes out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .history import Committed, Line, Resumed, Seen, Sent, value_of

#: (partition, offset).
Place = tuple[int, int]
#: The whole of the topic as it was read in the end.
Final = Mapping[Place, str]


@dataclass
class History:
    """The lines, by kind and in the order in which each client wrote them.."""

    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    resumed: list[Resumed] = field(default_factory=list)

    @classmethod
    def of(cls, lines: Iterable[Line]) -> History:
        history = cls()
        kept = {Sent: history.sent, Seen: history.seen, Committed: history.committed, Resumed: history.resumed}
        for line in lines:
            kept[type(line)].append(line)  # type: ignore[arg-type]
        return history

    @property
    def acknowledged(self) -> list[Sent]:
        return [one for one in self.sent if not one.error]


def anomalies(history: History, final: Final, again: Collection[Place] = ()) -> list[str]:
    """`again`: copies that are the client's own doing, see `sent_again`."""
    once = {place: value for place, value in final.items() if place not in again}
    return [
        reported for check in CHECKS for reported in check(history, once if check in (duplicated, reordered) else final)
    ]


def sent_again(final: Final, writers: Mapping[Place, tuple[int, int]]) -> set[Place]:
    """Places of later copies that the client wrote under a newer epoch of its producer id.

    What idempotence promises ends with the epoch. librdkafka takes a new one for all partitions (KIP-360) when one of them
    tells it that a sequence number is missing, while a batch that it waits for in another partition may be there already;
    then it sends that batch again, and no broker can tell. `writers`: producer id and epoch of each record.
    """
    first: dict[str, Place] = {}
    found: set[Place] = set()
    for place, value in sorted(final.items()):
        before = first.setdefault(value, place)
        if place != before and writers[place][0] == writers[before][0] and writers[place][1] > writers[before][1]:
            found.add(place)
    return found


def lost(history: History, final: Final) -> Iterator[str]:
    """Acknowledged, and not there."""
    there = set(final.values())
    for one in history.acknowledged:
        if value_of(one.producer, one.number) not in there:
            yield f"lost: {value_of(one.producer, one.number)}, acknowledged at {one.partition}/{one.offset}"


def moved(history: History, final: Final) -> Iterator[str]:
    """Acknowledged at one place, and standing at another."""
    places = {value: place for place, value in final.items()}
    for one in history.acknowledged:
        value = value_of(one.producer, one.number)
        if value in places and final.get((one.partition, one.offset)) != value:
            yield f"moved: {value}, acknowledged at {one.partition}/{one.offset}, stands at {places[value]}"


def duplicated(history: History, final: Final) -> Iterator[str]:
    """Sent once, there twice: idempotent producers are promised that it does not happen, acknowledged or not."""
    places: dict[str, list[Place]] = defaultdict(list)
    for place, value in final.items():
        places[value].append(place)
    for value, found in places.items():
        if len(found) > 1:
            yield f"duplicated: {value} stands at {sorted(found)}"


def invented(history: History, final: Final) -> Iterator[str]:
    """There, and never sent."""
    sent = {value_of(one.producer, one.number) for one in history.sent}
    for place, value in final.items():
        if value not in sent:
            yield f"invented: {value} at {place}"


def reordered(history: History, final: Final) -> Iterator[str]:
    """Two records of one producer that stand in a partition in another order than they were sent."""
    last: dict[tuple[str, int], int] = {}
    for (partition, offset), value in sorted(final.items()):
        producer, _, number = value.rpartition("-")
        before = last.get((producer, partition), -1)
        if int(number) < before:
            yield f"reordered: {value} at {partition}/{offset} stands behind number {before}"
        last[producer, partition] = int(number)


def changed(history: History, final: Final) -> Iterator[str]:
    """A consumer saw a record at a place where another one, or none, is in the end."""
    for one in history.seen:
        there = final.get((one.partition, one.offset))
        if there != one.value:
            yield f"changed: {one.session} saw {one.value} at {one.partition}/{one.offset}, where {there} stands"


def regressed(history: History, final: Final) -> Iterator[str]:
    """A consumer that reads on saw an offset that is not above the one before."""
    last: dict[tuple[str, int], int] = {}
    for one in history.seen:
        before = last.get((one.session, one.partition), -1)
        if one.offset <= before:
            yield f"regressed: {one.session} saw {one.partition}/{one.offset} after {before}"
        last[one.session, one.partition] = one.offset


def skipped(history: History, final: Final) -> Iterator[str]:
    """A consumer went past a record that is there."""
    last: dict[tuple[str, int], int] = {}
    for one in history.seen:
        before = last.get((one.session, one.partition))
        for offset in range(one.offset if before is None else before + 1, one.offset):
            if (one.partition, offset) in final:
                yield f"skipped: {one.session} did not see {one.partition}/{offset}, and then {one.offset}"
        last[one.session, one.partition] = one.offset


def forgotten(history: History, final: Final) -> Iterator[str]:
    """A group was told of an offset below one that had been acknowledged before it asked."""
    for asked in history.resumed:
        known = [
            one.offset for one in history.committed if one.partition == asked.partition and one.at_ns < asked.at_ns
        ]
        if known and asked.offset < max(known):
            yield f"forgotten: the group resumes {asked.partition} at {asked.offset}, {max(known)} was committed"


CHECKS = (lost, moved, duplicated, invented, reordered, changed, regressed, skipped, forgotten)
