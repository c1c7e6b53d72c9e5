"""A history by keys and values: writers, readers, and the order of each key's values by their offsets.

Offsets of a log have gaps, since markers of transactions take offsets. An order is dense: it has the known values only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .operation import INFO, OK, TXN, Operation


@dataclass
class Order:
    """The known values of a key. `log`: the values that operations claim to be at an offset; one, in a correct history."""

    log: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, offset: int, value: str) -> None:
        there = self.log[offset]
        if value not in there:
            there.append(value)

    @cached_property
    def offsets(self) -> list[int]:
        return sorted(self.log)

    @cached_property
    def values(self) -> list[str]:
        """Returns one value for each known offset."""
        return [self.log[offset][0] for offset in self.offsets]

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Returns the position of each value, the first one if there are several."""
        found: dict[str, int] = {}
        for at, offset in enumerate(self.offsets):
            for value in self.log[offset]:
                found.setdefault(value, at)
        return found

    @cached_property
    def last_index_of(self) -> dict[str, int]:
        return {value: at for at, offset in enumerate(self.offsets) for value in self.log[offset]}


class Index:
    """Writers, readers and orders by key and value. A value's writer is the operation that sent it."""

    def __init__(self, history: Sequence[Operation]) -> None:
        self.history = history
        self.writer_of: dict[tuple[str, str], Operation] = {}
        self.readers_of: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        #: Values that an operation read which is known to be complete.
        self.seen: dict[str, set[str]] = defaultdict(set)
        self.by_process: dict[int, list[Operation]] = defaultdict(list)
        for operation in history:
            self.by_process[operation.process].append(operation)
            for key, (_, value) in operation.sends:
                self.writer_of[key, value] = operation
            for key, (_, value) in operation.polls:
                if not self.readers_of[key, value] or self.readers_of[key, value][-1] is not operation:
                    self.readers_of[key, value].append(operation)
                if operation.type == OK:
                    self.seen[key].add(value)

    @cached_property
    def orders(self) -> dict[str, Order]:
        """Returns the order of each key. A send counts if its effect is certain; each poll counts."""
        orders: dict[str, Order] = defaultdict(Order)
        for operation in self.history:
            certain = [(key, pair) for key, pair in operation.sends if self.is_certain(operation, key, pair[1])]
            for key, (offset, value) in [*operation.polls, *certain]:
                if offset is not None:
                    orders[key].add(offset, value)
        return orders

    def is_certain(self, writer: Operation, key: str, value: str) -> bool:
        """Returns whether the value was written: acknowledged, or read, or part of a transaction that was read."""
        if writer.type != INFO:
            return writer.type == OK
        if writer.f == TXN:
            return any(other in self.seen[its] for its, (_, other) in writer.sends)
        return value in self.seen[key]
