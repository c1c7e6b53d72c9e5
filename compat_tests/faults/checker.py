"""Compares responses to clients with the final contents of the topic. The anomalies are those of Jepsen's Kafka workload.

The input is records, offsets and acknowledgements, independent of brokers. Every check is a function of the history and
of the final contents, and yields a sentence for each anomaly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .history import Committed, Line, Resumed, Seen, Sent, value_of

#: (partition, offset).
Place = tuple[int, int]
#: The whole topic, from the final read.
Final = Mapping[Place, str]


@dataclass
class History:
    """The lines, by kind and in the order in which each client wrote them."""

    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    resumed: list[Resumed] = field(default_factory=list)
    #: Whether a leader may be Apache Kafka: librdkafka concludes from its errors that a batch was appended before. Such an
    #: acknowledgement has no offset, and the record may be lost (docs/development/faults.md).
    trusts_offsets_only: bool = False

    @classmethod
    def of(cls, lines: Iterable[Line]) -> History:
        history = cls()
        kept = {Sent: history.sent, Seen: history.seen, Committed: history.committed, Resumed: history.resumed}
        for line in lines:
            kept[type(line)].append(line)  # type: ignore[arg-type, attr-defined]
        return history

    @property
    def acknowledged(self) -> list[Sent]:
        return [one for one in self.sent if not one.error and (has_offset(one) or not self.trusts_offsets_only)]


def has_offset(one: Sent) -> bool:
    return one.offset >= 0


def anomalies(history: History, final: Final, again: Collection[Place] = ()) -> list[str]:
    """Returns all anomalies. `again`: copies that the client itself caused, see `sent_again`."""
    once = {place: value for place, value in final.items() if place not in again}
    return [
        reported for check in CHECKS for reported in check(history, once if check in (duplicated, reordered) else final)
    ]


def sent_again(final: Final, writers: Mapping[Place, tuple[int, int]]) -> set[Place]:
    """Returns the places of later copies that the client wrote under a newer epoch of its producer id.

    Idempotence holds within one epoch. librdkafka takes a new epoch for all partitions (KIP-360) when one of them reports a
    missing sequence number. A batch in flight to another partition may already be in the log. librdkafka sends it again,
    and no broker can detect that. `writers`: producer id and epoch of each record.
    """
    first: dict[str, Place] = {}
    found: set[Place] = set()
    for place, value in sorted(final.items()):
        before = first.setdefault(value, place)
        if place != before and writers[place][0] == writers[before][0] and writers[place][1] > writers[before][1]:
            found.add(place)
    return found


def lost(history: History, final: Final) -> Iterator[str]:
    """Yields acknowledged records that are not in the topic."""
    there = set(final.values())
    for one in history.acknowledged:
        if value_of(one.producer, one.number) not in there:
            yield f"lost: {value_of(one.producer, one.number)}, acknowledged at {one.partition}/{one.offset}"


def moved(history: History, final: Final) -> Iterator[str]:
    """Yields records at another place than the acknowledged one."""
    places = {value: place for place, value in final.items()}
    for one in history.acknowledged:
        value = value_of(one.producer, one.number)
        if has_offset(one) and value in places and final.get((one.partition, one.offset)) != value:
            yield f"moved: {value}, acknowledged at {one.partition}/{one.offset}, stands at {places[value]}"


def duplicated(history: History, final: Final) -> Iterator[str]:
    """Yields records that were sent once and are there twice. Idempotence excludes that, acknowledged or not."""
    places: dict[str, list[Place]] = defaultdict(list)
    for place, value in final.items():
        places[value].append(place)
    for value, found in places.items():
        if len(found) > 1:
            yield f"duplicated: {value} stands at {sorted(found)}"


def invented(history: History, final: Final) -> Iterator[str]:
    """Yields records that no producer sent."""
    sent = {value_of(one.producer, one.number) for one in history.sent}
    for place, value in final.items():
        if value not in sent:
            yield f"invented: {value} at {place}"


def reordered(history: History, final: Final) -> Iterator[str]:
    """Yields records of one producer whose order in a partition is not the order of sending."""
    last: dict[tuple[str, int], int] = {}
    for (partition, offset), value in sorted(final.items()):
        producer, _, number = value.rpartition("-")
        before = last.get((producer, partition), -1)
        if int(number) < before:
            yield f"reordered: {value} at {partition}/{offset} stands behind number {before}"
        last[producer, partition] = int(number)


def changed(history: History, final: Final) -> Iterator[str]:
    """Yields records that a consumer saw at a place where finally there is another record, or none."""
    for one in history.seen:
        there = final.get((one.partition, one.offset))
        if there != one.value:
            yield f"changed: {one.session} saw {one.value} at {one.partition}/{one.offset}, where {there} stands"


def regressed(history: History, final: Final) -> Iterator[str]:
    """Yields offsets that are not above the previous one of the consumer's session."""
    last: dict[tuple[str, int], int] = {}
    for one in history.seen:
        before = last.get((one.session, one.partition), -1)
        if one.offset <= before:
            yield f"regressed: {one.session} saw {one.partition}/{one.offset} after {before}"
        last[one.session, one.partition] = one.offset


def skipped(history: History, final: Final) -> Iterator[str]:
    """Yields records that a consumer passed over."""
    last: dict[tuple[str, int], int] = {}
    for one in history.seen:
        before = last.get((one.session, one.partition))
        for offset in range(one.offset if before is None else before + 1, one.offset):
            if (one.partition, offset) in final:
                yield f"skipped: {one.session} did not see {one.partition}/{offset}, and then {one.offset}"
        last[one.session, one.partition] = one.offset


def forgotten(history: History, final: Final) -> Iterator[str]:
    """Yields offsets from which a group resumed, below a commit that was acknowledged before its request."""
    for asked in history.resumed:
        known = [
            one.offset for one in history.committed if one.partition == asked.partition and one.at_ns < asked.at_ns
        ]
        if known and asked.offset < max(known):
            yield f"forgotten: the group resumes {asked.partition} at {asked.offset}, {max(known)} was committed"


CHECKS = (lost, moved, duplicated, invented, reordered, changed, regressed, skipped, forgotten)
