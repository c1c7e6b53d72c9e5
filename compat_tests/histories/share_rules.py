"""Rules of share groups. No model of them is published; these are Kafka's promises (KIP-932).

- share-accepted-again: a record whose acceptance or rejection was confirmed is not delivered again.
- share-count-not-rising: each delivery of a record has a higher count than those before it. A fault between them excuses
  an equal count: acquisitions are not stored, so a new leader counts on from the stored one.
- share-over-limit: no count is above the limit.
- share-delivered-while-locked: no member gets a record before its lock ends, unless it was released or a fault came between.
- share-lost: each committed record is delivered, and delivered again until it is accepted, rejected, or at the limit. It
  needs a history that was read to its end.

A lock begins while the poll runs that acquires it. A record was given to a poll between its invocation and its completion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from .case import Case
from .index import Index
from .operation import FAIL, FAULT, INFO, OK, SETTINGS, SHARE_ACKNOWLEDGE, SHARE_POLL, Operation
from .record_anomalies import is_drained

ACCEPT, RELEASE, REJECT = "accept", "release", "reject"


@dataclass
class _Record:
    """A record in a group: its deliveries with their counts, and what members said about it."""

    deliveries: list[tuple[Operation, int]] = field(default_factory=list)
    words: list[tuple[Operation, str]] = field(default_factory=list)
    value: str = ""


@dataclass(frozen=True)
class _Settings:
    delivery_limit: int = 5
    lock_ns: int = 30_000_000_000


def share_cases(index: Index) -> Iterator[Case]:
    faults = [operation for operation in index.history if operation.f == FAULT]
    settings = {
        operation.group: _Settings(**operation.value)
        for operation in index.history
        if operation.f == SETTINGS and operation.group and operation.value
    }
    for group, records in _records(index.history).items():
        its = settings.get(group, _Settings())
        for (key, offset), record in records.items():
            where = f"{record.value} of {key}, offset {offset}, in {group}"
            yield from _again(record, where)
            yield from _counts(record, where, its.delivery_limit, faults)
            yield from _locks(record, where, its.lock_ns, faults)
        if is_drained(index):
            yield from _lost(index, group, records, its.delivery_limit)


def _records(history: Iterable[Operation]) -> dict[str, dict[tuple[str, int], _Record]]:
    groups: dict[str, dict[tuple[str, int], _Record]] = defaultdict(lambda: defaultdict(_Record))
    for operation in history:
        if operation.f == SHARE_POLL and operation.type == OK:
            for key, offset, value, count in operation.value:
                record = groups[operation.group][key, offset]
                record.value = value
                record.deliveries.append((operation, count))
        elif operation.f == SHARE_ACKNOWLEDGE and operation.type != FAIL:
            for key, offset, word in operation.value:
                groups[operation.group][key, offset].words.append((operation, word))
    return groups


def _again(record: _Record, where: str) -> Iterator[Case]:
    for said, word in record.words:
        if said.type == OK and word in (ACCEPT, REJECT):
            for poll, _ in record.deliveries:
                if poll.invoked > said.completed:
                    yield Case("share-accepted-again", f"{where}: delivered after {word}", [said, poll])


def _counts(record: _Record, where: str, limit: int, faults: list[Operation]) -> Iterator[Case]:
    for poll, count in record.deliveries:
        if count > limit:
            yield Case("share-over-limit", f"{where}: count {count}, the limit is {limit}", [poll])
    for (former, first), (latter, second) in pairwise(record.deliveries):
        is_after = latter.invoked > former.completed
        if is_after and second <= first and not _has_fault(faults, former.invoked, latter.completed):
            yield Case("share-count-not-rising", f"{where}: count {first}, then {second}", [former, latter])


def _locks(record: _Record, where: str, lock_ns: int, faults: list[Operation]) -> Iterator[Case]:
    for (former, _), (latter, _) in pairwise(record.deliveries):
        is_locked = former.completed < latter.invoked and latter.completed < former.invoked + lock_ns
        is_given_up = any(
            said.process == former.process and former.completed <= said.invoked < latter.completed
            for said, _ in record.words
        )
        if is_locked and not is_given_up and not _has_fault(faults, former.invoked, latter.completed):
            yield Case("share-delivered-while-locked", f"{where}: delivered to two members", [former, latter])


def _has_fault(faults: list[Operation], begin: int, end: int) -> bool:
    return any(fault.invoked <= end and fault.completed >= begin for fault in faults)


def _lost(index: Index, group: str, records: dict[tuple[str, int], _Record], limit: int) -> Iterator[Case]:
    keys = {key for key, _ in records}
    given = {(key, record.value) for (key, _), record in records.items()}
    for (key, value), writer in index.writer_of.items():
        if key in keys and writer.type == OK and (key, value) not in given:
            yield Case("share-lost", f"{value} of {key} was not delivered in {group}", [writer])
    for (key, offset), record in records.items():
        ends = [word for said, word in record.words if word in (ACCEPT, REJECT) and said.type in (OK, INFO)]
        most = max((count for _, count in record.deliveries), default=0)
        if not ends and most < limit:
            text = f"{record.value} of {key}, offset {offset}: {most} deliveries in {group}, and then no more"
            yield Case("share-lost", text, [poll for poll, _ in record.deliveries])
