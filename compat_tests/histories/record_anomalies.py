"""Anomalies of single records: lost, doubled, moved, unseen, aborted and yet read, or read by their own transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .case import Case
from .index import Index
from .operation import DELETE, FAIL, INFO, OK, SETTINGS, TXN


def inconsistent_offsets(index: Index) -> Iterator[Case]:
    """Yields offsets at which operations found different values."""
    for key, order in index.orders.items():
        for offset, values in order.log.items():
            if len(values) > 1:
                writers = [index.writer_of[key, value] for value in values if (key, value) in index.writer_of]
                readers = [index.readers_of[key, value][0] for value in values if index.readers_of.get((key, value))]
                yield Case("inconsistent-offsets", f"{key} has {values} at offset {offset}", [*readers, *writers])


def duplicate(index: Index) -> Iterator[Case]:
    """Yields values at several offsets."""
    for key, order in index.orders.items():
        places: dict[str, list[int]] = defaultdict(list)
        for offset in order.offsets:
            for value in order.log[offset]:
                places[value].append(offset)
        for value, offsets in places.items():
            if len(offsets) > 1:
                yield Case("duplicate", f"{key} has {value} at offsets {offsets}", index.readers_of[key, value])


def unwritten(index: Index) -> Iterator[Case]:
    """Yields values that were read and never sent. Jepsen's checker ends with an error there."""
    for (key, value), readers in list(index.readers_of.items()):
        if readers and (key, value) not in index.writer_of:
            yield Case("unwritten", f"{value} of {key} was read, and no operation sent it", readers)


def aborted_read(index: Index) -> Iterator[Case]:
    """Yields values of transactions or sends that failed, and that a reader of committed records saw."""
    for operation in index.history:
        if not operation.is_committed_read:
            continue
        for key, (offset, value) in operation.polls:
            writer = index.writer_of.get((key, value))
            if writer is not None and writer.type == FAIL and writer is not operation:
                yield Case("G1a", f"{value} of {key} failed, and was read at offset {offset}", [writer, operation])


def precommitted_read(index: Index) -> Iterator[Case]:
    """Yields values that a transaction read and itself wrote: Kafka shows them only after the commit."""
    for operation in index.history:
        if operation.f != TXN or not operation.is_committed_read:
            continue
        written = {(key, value) for key, (_, value) in operation.sends}
        for key, (_, value) in operation.polls:
            if (key, value) in written:
                yield Case("precommitted-read", f"{value} of {key} was read by its own transaction", [operation])


def lost_write(index: Index) -> Iterator[Case]:
    """Yields values below the highest value read of their key that are committed and that no operation read."""
    for key, seen in list(index.seen.items()):
        order = index.orders.get(key)
        if order is None:
            continue
        bound = max((order.index_of[value] for value in seen if value in order.index_of), default=-1)
        for value, last in order.last_index_of.items():
            writer = index.writer_of.get((key, value))
            if last <= bound and value not in seen and writer is not None and index.is_certain(writer, key, value):
                highest = index.readers_of[key, order.values[bound]][:1]
                at, end = order.offsets[last], order.offsets[bound]
                text = f"{value} of {key} was acknowledged at offset {at}, and offset {end} was read without it"
                yield Case("lost-write", text, [writer, *highest])
    yield from _torn(index)


def _torn(index: Index) -> Iterator[Case]:
    """Yields the unread values of transactions with an unknown outcome of which others were read.

    The offsets of such values are unknown, so only a history that was read to its end shows that they are lost.
    """
    if not is_drained(index):
        return
    for (key, value), writer in index.writer_of.items():
        if writer.type == INFO and value not in index.seen[key] and index.is_certain(writer, key, value):
            yield Case("lost-write", f"{value} of {key} is missing, and others of its transaction were read", [writer])


def unseen(index: Index) -> Iterator[Case]:
    """Yields acknowledged values that no operation read, in a history that was read to the ends of its logs."""
    deleted = {key for operation in index.history if operation.f == DELETE for key in operation.value}
    for (key, value), writer in index.writer_of.items():
        if writer.type == OK and value not in index.seen[key] and key not in deleted:
            text = f"{value} of {key} was acknowledged, and never read"
            yield Case("unseen", text, [writer], is_allowed=not is_drained(index))


def is_drained(index: Index) -> bool:
    return any(operation.f == SETTINGS and operation.drained for operation in index.history)


CHECKS = (inconsistent_offsets, duplicate, unwritten, aborted_read, precommitted_read, lost_write, unseen)
