"""Live tails: a consumer that stays open between the requests of one viewer, and is closed when the requests stop."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...admin.positions import END, Position
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ...records.reading import Reader
from ..budgets import UNLIMITED, Budget
from .filters import filters
from .query import Query
from .record_reader import RecordReader
from .records import Record

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord

#: Consumers of all viewers together.
MOST_TAILS = 8
_CLOSED_AFTER_S = 15.0
#: Limits of one request.
_MOST_RECORDS, _MOST_WAIT_S = 200, 0.4
_TAIL_BATCH = 100


class NewRecords(NamedTuple):
    """Records of a tail since the last call. `has_more`: the limit of one request has left later ones for the next."""

    records: list[Record]
    has_more: bool


@dataclass(slots=True)
class _Tail:
    query: Query
    reader: Reader
    batches: Iterator[list[ConsumedRecord]]
    used: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class Tails:
    """The least recently read tail makes place for a new one."""

    def __init__(self, records: RecordReader) -> None:
        self._records = records
        self._tails: dict[str, _Tail] = {}
        self._lock = threading.Lock()

    def begin(self, query: Query) -> str:
        """Opens a tail at the end of the log. Returns its name."""
        filters(query)  # raises the error for a bad expression
        reader = self._records.open(query, Position(END), follow=True)
        made = _Tail(query, reader, reader.batches(_TAIL_BATCH), time.monotonic())
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._tails[name] = made
            dropped = sorted(self._tails, key=lambda one: self._tails[one].used)[
                : max(0, len(self._tails) - MOST_TAILS)
            ]
        for one in dropped:
            self.end(one)
        return name

    def read(self, name: str, budget: Budget = UNLIMITED) -> NewRecords:
        """The next records that pass, at most _MOST_RECORDS. Later ones are left for the next call: none is dropped, and the
        tail of a topic with more of them each second falls behind its end. Raises UserError for a tail that was closed,
        Stopped at the budget's end.

        An error ends the tail: its batches do not go on after one, and it would seem that no record comes.
        """
        try:
            return self._read(name, budget)
        except Exception:
            self.end(name)
            raise

    def _read(self, name: str, budget: Budget) -> NewRecords:
        tail = self._tails.get(name)
        if tail is None:
            raise _ended()
        found: list[Record] = []
        is_full = False
        passes = filters(tail.query, budget)
        with tail.lock:
            if self._tails.get(name) is not tail:  # it was closed while this waited
                raise _ended()
            tail.used = time.monotonic()
            deadline = tail.used + _MOST_WAIT_S
            for batch in tail.batches:
                for message in batch:
                    record = self._records.maker.record(message, tail.query, budget)
                    if all(one(record, message) for one in passes):
                        found.append(record)
                is_full = len(found) + _TAIL_BATCH > _MOST_RECORDS
                if is_full or (found and not batch) or time.monotonic() > deadline:
                    break
        return NewRecords(found, is_full)

    def end(self, name: str) -> None:
        with self._lock:
            tail = self._tails.pop(name, None)
        if tail is not None:
            with tail.lock:
                tail.reader.close()

    def sweep(self) -> None:
        """Closes tails whose viewer is gone."""
        now = time.monotonic()
        for name in [name for name, tail in list(self._tails.items()) if now - tail.used > _CLOSED_AFTER_S]:
            self.end(name)

    def close(self) -> None:
        for name in list(self._tails):
            self.end(name)


def _ended() -> UserError:
    return UserError("following the new records has ended: start again", ErrorKind.NOT_FOUND)
