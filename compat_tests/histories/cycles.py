"""Cycles of dependencies: G1c by write-read edges, and G0 by write-write edges, which Kafka allows.

An edge leads from an operation to one that must come later. To these the order within a process is added (`-process`), and
real time (`-realtime`): an operation that completed before another was invoked comes first. Write-write edges are no part
of G1c: transactions of Kafka interleave in a log, and a reader of one sees records on both sides of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, pairwise

from .case import Case
from .graph import Graph
from .index import Index
from .operation import FAIL, OK, RECORD_KINDS, Operation

Edges = Iterable[tuple[Hashable, Hashable]]


def cycle_cases(index: Index) -> Iterator[Case]:
    yield from _cases(index, "G1c", _write_read, is_allowed=False)
    yield from _cases(index, "G0", _write_write, is_allowed=True)


def _cases(index: Index, name: str, edges: Callable[[Index], Edges], *, is_allowed: bool) -> Iterator[Case]:
    """Yields one case for each set of operations in cycles, under the first name that fits."""
    named: set[Operation] = set()
    for suffix, order in (("", _no_edges), ("-process", _processes), ("-realtime", _real_time)):
        graph = Graph(chain(edges(index), order(index)))
        for component in graph.components():
            found = [node for node in component if isinstance(node, Operation)]
            if len(found) > 1 and named.isdisjoint(found):
                named.update(found)
                start = min(found, key=lambda operation: operation.invoked)
                cycle = [node for node in graph.cycle(start, component) if isinstance(node, Operation)]
                text = f"{len(cycle)} operations each come after the next one, the last after the first"
                yield Case(name + suffix, text, cycle, is_allowed=is_allowed)


def _records(index: Index) -> list[Operation]:
    return [operation for operation in index.history if operation.f in RECORD_KINDS and operation.type != FAIL]


def _write_read(index: Index) -> Edges:
    for reader in _records(index):
        if reader.is_committed_read:
            for key, (_, value) in reader.polls:
                writer = index.writer_of.get((key, value))
                if writer is not None and writer is not reader and writer.type != FAIL:
                    yield writer, reader


def _write_write(index: Index) -> Edges:
    for key, order in index.orders.items():
        writers = [index.writer_of[key, value] for value in order.values if (key, value) in index.writer_of]
        yield from ((former, latter) for former, latter in pairwise(writers) if former is not latter)


def _no_edges(index: Index) -> Edges:
    return ()


def _processes(index: Index) -> Edges:
    by_process: dict[int, list[Operation]] = defaultdict(list)
    for operation in _records(index):
        by_process[operation.process].append(operation)
    for operations in by_process.values():
        yield from pairwise(operations)


def _real_time(index: Index) -> Edges:
    """Yields edges to and from points of time, each with an edge to the next one: fewer than edges of all pairs."""
    ends = sorted((operation.completed, at) for at, operation in enumerate(index.history) if operation.type == OK)
    starts = sorted((operation.invoked, at) for at, operation in enumerate(index.history))
    records, now, next_end = set(_records(index)), 0, 0
    for invoked, at in starts:
        while next_end < len(ends) and ends[next_end][0] < invoked:
            now, next_end = now + 1, next_end + 1
            yield now - 1, now
            ended = index.history[ends[next_end - 1][1]]
            if ended in records:
                yield ended, now
        if index.history[at] in records:
            yield now, index.history[at]
