"""A client of any library: a producer, with or without transactions, and a consumer, as a workload uses them.

A method raises `Refused` if its operation certainly had no effect, and `Unknown` if it may have had one.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Refused(Exception):
    """The operation had no effect, and never will."""


class Unknown(Exception):
    """The operation may have taken effect, or may still do so; the client cannot go on."""


class Key(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Sending(NamedTuple):
    key: Key
    value: str


class Got(NamedTuple):
    """A record that was polled."""

    key: Key
    offset: int
    value: str


@dataclass(frozen=True)
class Identity:
    """The addresses and the names of a client. `transactional_id` is empty for a plain idempotent producer."""

    bootstrap: str
    group: str
    transactional_id: str = ""
    #: Settings of the group: the protocol of KIP-848 in place of the classic one.
    is_consumer_protocol: bool = False


#: Times in seconds: a request that is not answered in this time has an unknown outcome.
OPERATION_S = 15.0
TRANSACTION_TIMEOUT_S = 10.0
SESSION_S = 6.0
#: A library that has not returned after this time is given up.
LONGEST_S = OPERATION_S + 10


@dataclass
class Moved:
    """The keys that a group gave to the client or took from it since the last look."""

    keys: set[Key] = field(default_factory=set)

    def take(self) -> tuple[str, ...]:
        keys, self.keys = self.keys, set()
        return tuple(sorted(map(str, keys)))


class Client(ABC):
    #: The library's name.
    name = ""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.moved = Moved()

    @abstractmethod
    def send(self, records: Sequence[Sending]) -> list[int | None]:
        """Sends records and waits for their acknowledgements. Returns their offsets, None where one is not known.

        In a transaction, `end` decides.
        """

    @abstractmethod
    def begin(self) -> None:
        """Begins a transaction."""

    @abstractmethod
    def join_offsets(self, offsets: Mapping[Key, int]) -> None:
        """Adds offsets of the group to the transaction."""

    @abstractmethod
    def end(self, *, commits: bool) -> None:
        """Ends the transaction. Raises `Refused` if it was aborted in place of the commit."""

    @abstractmethod
    def assign(self, offsets: Mapping[Key, int]) -> None: ...

    @abstractmethod
    def subscribe(self, topics: Sequence[str]) -> None: ...

    @abstractmethod
    def seek(self, offsets: Mapping[Key, int]) -> None: ...

    @abstractmethod
    def poll(self, timeout_s: float) -> list[Got]:
        """Returns records of committed transactions in the order of their offsets."""

    @abstractmethod
    def commit(self, offsets: Mapping[Key, int]) -> None:
        """Commits offsets of the group."""

    def generation(self) -> int:
        """Returns the generation of the group that the client is in, -1 if the library does not show it."""
        return -1

    @abstractmethod
    def close(self) -> None:
        """Ends the client. Raises nothing, even if the broker does not answer."""


def within_time(call: Callable[[], object]) -> None:
    """Calls a function of a library that may wait for ever. Raises Unknown without an outcome, and leaves the thread behind.

    Transactions of kafka-python have no time limit; those of librdkafka pass theirs where a coordinator has moved.
    """
    outcome: list[BaseException | None] = []

    def work() -> None:
        try:
            call()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LONGEST_S)
    if not outcome:
        raise Unknown("no response")
    if outcome[0] is not None:
        raise outcome[0]
