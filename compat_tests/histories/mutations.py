"""Changes that each put one anomaly into a correct history. None: the history has no place for it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

from .index import Index
from .operation import FAIL, INFO, OK, POLL, RECORD_KINDS, TXN, Content, Operation

History = list[Operation]
Mutation = Callable[[History, Random], History | None]


def lost_write(history: History, rng: Random) -> History | None:
    """Removes a value from all reads, and leaves a later one."""
    index = Index(history)
    found = [
        (key, value)
        for key, order in index.orders.items()
        for value in order.values[:-1]
        if index.writer_of[key, value].type == OK
    ]
    return without(history, *rng.choice(found)) if found else None


def unseen(history: History, rng: Random) -> History | None:
    """Removes the last value from all reads."""
    index = Index(history)
    found = [(key, order.values[-1]) for key, order in index.orders.items()]
    found = [(key, value) for key, value in found if index.writer_of[key, value].type == OK]
    return without(history, *rng.choice(found)) if found else None


def duplicate(history: History, rng: Random) -> History | None:
    """Lets the last reader read a value again at the end of its log."""
    reader = _last_reader(history, rng)
    key, pairs = _only(reader)
    again = [*pairs, [pairs[-1][0] + 1, rng.choice(pairs)[1]]]
    return replaced(history, reader, [["poll", {key: again}]]) if len(pairs) > 1 else None


def inconsistent_offsets(history: History, rng: Random) -> History | None:
    """Lets one reader read a value at the offset of another."""
    reader = _last_reader(history, rng)
    key, pairs = _only(reader)
    if len(pairs) < 2:
        return None
    one, other = rng.sample(range(len(pairs)), 2)
    changed = [[offset, pairs[other][1]] if at == one else [offset, value] for at, (offset, value) in enumerate(pairs)]
    return replaced(history, reader, [["poll", {key: changed}]])


def unwritten(history: History, rng: Random) -> History | None:
    """Removes the operation that sent a value which was read."""
    writers = _seen_writers(history)
    gone = rng.choice(writers) if writers else None
    return [operation for operation in history if operation is not gone] if gone else None


def aborted_read(history: History, rng: Random) -> History | None:
    """Calls a write that was read a failed one."""
    writers = _seen_writers(history)
    failed = rng.choice(writers) if writers else None
    return [dataclasses.replace(one, type=FAIL) if one is failed else one for one in history] if failed else None


def precommitted_read(history: History, rng: Random) -> History | None:
    """Lets a transaction poll what it has sent."""
    found = [one for one in history if one.f == TXN and any(offset is not None for _, (offset, _) in one.sends)]
    if not found:
        return None
    chosen = rng.choice(found)
    key, pair = rng.choice(chosen.sends)
    return replaced(history, chosen, [*chosen.value, ["poll", {key: [list(pair)]}]])


def poll_skip(history: History, rng: Random) -> History | None:
    """Removes the first record of a poll that goes on where the process was; the last reader has read it."""
    found = [one for one in _polls(history) if any(len(pairs) > 1 for pairs in one.value[0][1].values())]
    if not found:
        return None
    chosen = rng.choice(found)
    cut = {key: pairs[1:] if len(pairs) > 1 else pairs for key, pairs in chosen.value[0][1].items()}
    return replaced(history, chosen, [["poll", cut]])


def nonmonotonic_poll(history: History, rng: Random) -> History | None:
    """Lets a process read the same records twice."""
    found = _polls(history)
    if not found:
        return None
    chosen = rng.choice(found)
    at = history.index(chosen)
    again = dataclasses.replace(chosen, invoked=chosen.completed, completed=chosen.completed)
    return [*history[: at + 1], again, *history[at + 1 :]]


def int_poll_skip(history: History, rng: Random) -> History | None:
    """Removes a record from the middle of a poll."""
    found = [one for one in _polls(history) if any(len(pairs) > 2 for pairs in one.value[0][1].values())]
    if not found:
        return None
    chosen = rng.choice(found)
    cut = {key: [*pairs[:1], *pairs[2:]] if len(pairs) > 2 else pairs for key, pairs in chosen.value[0][1].items()}
    return replaced(history, chosen, [["poll", cut]])


def int_nonmonotonic_poll(history: History, rng: Random) -> History | None:
    """Exchanges the records of a poll."""
    found = [one for one in _polls(history) if any(len(pairs) > 1 for pairs in one.value[0][1].values())]
    if not found:
        return None
    chosen = rng.choice(found)
    return replaced(history, chosen, [["poll", {key: pairs[::-1] for key, pairs in chosen.value[0][1].items()}]])


def nonmonotonic_send(history: History, rng: Random) -> History | None:
    """Exchanges the places of two values that a process sent one after the other."""
    index = Index(history)
    pairs = []
    for operations in index.by_process.values():
        last: dict[str, str] = {}
        for operation in operations:
            if operation.type == OK:
                for key in {key for key, _ in operation.sends}:
                    values = [value for its, (_, value) in operation.sends if its == key]
                    if key in last:
                        pairs.append((key, last[key], values[0]))
                    last[key] = values[-1]
    return exchanged(history, *rng.choice(pairs)) if pairs else None


def int_nonmonotonic_send(history: History, rng: Random) -> History | None:
    """Exchanges the places of two values of one operation."""
    pairs = []
    for operation in history:
        keys = Counter(key for key, _ in operation.sends)
        for key in (key for key, count in keys.items() if count > 1 and operation.type == OK):
            first, second = [value for its, (_, value) in operation.sends if its == key][:2]
            pairs.append((key, first, second))
    return exchanged(history, *rng.choice(pairs)) if pairs else None


def write_read_cycle(history: History, rng: Random) -> History | None:
    """Lets a transaction read what its own reader wrote."""
    index = Index(history)
    found = [
        (writer, reader)
        for reader in history
        if reader.f == TXN and reader.type == OK and reader.sends
        for key, (_, value) in reader.polls
        if (writer := index.writer_of[key, value]).f == TXN and writer.type == OK
    ]
    if not found:
        return None
    writer, reader = rng.choice(found)
    key, pair = rng.choice(reader.sends)
    return replaced(history, writer, [*writer.value, ["poll", {key: [list(pair)]}]])


def real_time_cycle(history: History, rng: Random) -> History | None:
    """Moves a read before the operation that sent the value."""
    index = Index(history)
    found = [
        one for one in _polls(history)
        if one.polls and all(index.writer_of[key, pair[1]].invoked > 1 for key, pair in one.polls[:1])
    ]  # fmt: skip
    if not found:
        return None
    early = rng.choice(found)
    key, (_, value) = early.polls[0]
    at = index.writer_of[key, value].invoked - 1
    moved = dataclasses.replace(early, process=1_000, invoked=at, completed=at)
    return sorted((moved if one is early else one for one in history), key=lambda one: one.invoked)


#: The name under which each change must be found.
MUTATIONS: dict[str, Mutation] = {
    "lost-write": lost_write,
    "unseen": unseen,
    "duplicate": duplicate,
    "inconsistent-offsets": inconsistent_offsets,
    "unwritten": unwritten,
    "G1a": aborted_read,
    "precommitted-read": precommitted_read,
    "poll-skip": poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "nonmonotonic-send": nonmonotonic_send,
    "int-poll-skip": int_poll_skip,
    "int-nonmonotonic-poll": int_nonmonotonic_poll,
    "int-nonmonotonic-send": int_nonmonotonic_send,
    "G1c": write_read_cycle,
    "G1c-realtime": real_time_cycle,
}


def replaced(history: History, old: Operation, value: Content) -> History:
    return [dataclasses.replace(one, value=value) if one is old else one for one in history]


def without(history: History, key: str, value: str) -> History:
    """Removes a value from all reads."""
    return [_mapped(one, lambda its, pair: None if (its, pair[1]) == (key, value) else pair) for one in history]


def exchanged(history: History, key: str, first: str, second: str) -> History:
    """Exchanges two values of a log, in every read and in the offsets of their sends."""
    offsets = {pair[1]: pair[0] for one in history for its, pair in one.sends if its == key}
    other = {first: second, second: first}

    def sent(micro: Content) -> Content:
        name, its, (_, value) = micro
        return [name, its, [offsets[other[value]], value]] if its == key and value in other else micro

    changed = []
    for one in history:
        read = _mapped(one, lambda its, pair: [pair[0], other.get(pair[1], pair[1])] if its == key else pair)
        is_record = read.f in RECORD_KINDS
        value = [sent(micro) if micro[0] == "send" else micro for micro in read.value] if is_record else read.value
        changed.append(dataclasses.replace(read, value=value))
    return changed


def _mapped(one: Operation, change: Callable[[str, Content], Content | None]) -> Operation:
    """Returns the operation with changed pairs in its polls; None removes a pair."""
    if one.f not in RECORD_KINDS:
        return one
    value = []
    for micro in one.value:
        if micro[0] == "poll":
            pairs = {
                key: [new for old in its if (new := change(key, old)) is not None] for key, its in micro[1].items()
            }
            value.append(["poll", {key: its for key, its in pairs.items() if its}])
        else:
            value.append(micro)
    return dataclasses.replace(one, value=value)


def _polls(history: History) -> list[Operation]:
    return [one for one in history if one.f == POLL and one.type == OK and len(one.value) == 1 and one.value[0][1]]


def _last_reader(history: History, rng: Random) -> Operation:
    """Returns a read of a whole log, which is among the last operations."""
    return rng.choice([one for one in history if one.f == POLL][-2:])


def _only(reader: Operation) -> tuple[str, list[Content]]:
    found: tuple[str, list[Content]] = next(iter(reader.value[0][1].items()))
    return found


def _seen_writers(history: History) -> list[Operation]:
    index = Index(history)
    found = {id(one): one for one in _read_writers(index) if one.type in (OK, INFO)}
    return list(found.values())


def _read_writers(index: Index) -> Iterator[Operation]:
    for (key, value), readers in list(index.readers_of.items()):
        if any(reader is not index.writer_of[key, value] for reader in readers):
            yield index.writer_of[key, value]
