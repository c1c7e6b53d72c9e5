"""The in-flight records of a share partition: runs of offsets in the same state.

Runs are contiguous, and one run may hold any number of records: an acquired range is one run, and only acknowledgements
of single records split it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from operator import attrgetter

NO_MEMBER = ""
NO_DEADLINE = 1 << 62
_first = attrgetter("first")


class RecordState(IntEnum):
    """The numbers are those of `__share_group_state`, where ACQUIRED is never written.

    AVAILABLE     can be delivered, again or for the first time
    ACQUIRED      a member has acquired it, until its lock expires
    ACKNOWLEDGED  processed
    ARCHIVING     given up, and being written to the group's dead letter queue (KIP-1191)
    ARCHIVED      given up: rejected, delivery count limit reached, or no such record in the log
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcquiredRange:
    """A range of records that were first acquired together.

    Kafka keeps one state for the whole range until it is *cut*, and then one state per record. The difference shows in
    the error messages of acknowledgements, and in the number of records per delivery when they fail.
    """

    __slots__ = ("first", "is_cut", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last
        self.is_cut = False

    def __len__(self) -> int:
        return self.last - self.first + 1


class Run:
    """A run of offsets in the same state.

    `before`: the state to roll back to if the pending change cannot be written; None if no change is pending.
    `acquired_range`: the acquired range that contains the run; None if the run was never acquired.
    """

    __slots__ = ("acquired_range", "before", "deadline_ms", "delivery_count", "first", "last", "member_id", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int,
        member_id: str = NO_MEMBER,
        deadline_ms: int = NO_DEADLINE,
        acquired_range: AcquiredRange | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.deadline_ms = deadline_ms
        self.before: tuple[RecordState, int, str, int] | None = None
        self.acquired_range = acquired_range

    def __repr__(self) -> str:
        changing = "" if self.before is None else f" was {self.before[0].name}"
        return f"[{self.first}..{self.last} {self.state.name} x{self.delivery_count} {self.member_id}{changing}]"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_whole(self) -> bool:
        """Returns whether the run's acquired range is uncut, or there is none."""
        return self.acquired_range is None or not self.acquired_range.is_cut

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_final(self) -> bool:
        """Returns whether the state is terminal and no change is pending."""
        return self.state in TERMINAL and self.before is None

    def begin(self, state: RecordState) -> None:
        """Begins a change that takes effect once it is written."""
        assert self.before is None, self
        self.before = (self.state, self.delivery_count, self.member_id, self.deadline_ms)
        self.become(state)

    def become(self, state: RecordState) -> None:
        self.state, self.member_id, self.deadline_ms = state, NO_MEMBER, NO_DEADLINE

    def roll_back(self) -> None:
        assert self.before is not None, self
        self.state, self.delivery_count, self.member_id, self.deadline_ms = self.before
        self.before = None

    def is_like(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
            and self.before is None
            and other.before is None
            and (self.acquired_range is other.acquired_range or (self.is_terminal and self.is_whole is other.is_whole))
        )


class Runs:
    """Contiguous runs in offset order, from `start` on."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def end(self) -> int:
        """Returns the offset after the last record."""
        return self._runs[-1].last + 1 if self._runs else self.start

    def append(self, run: Run) -> None:
        assert run.first == self.end <= run.last + 1, (run, self.end)
        self._runs.append(run)

    def between(self, first: int, last: int) -> list[Run]:
        """Returns the runs from `first` to `last`, both included. Splits the runs at both ends."""
        self._cut(first)
        self._cut(last + 1)
        return self._runs[bisect_right(self._runs, first - 1, key=_first) : bisect_right(self._runs, last, key=_first)]

    def overlapping(self, first: int, last: int) -> list[Run]:
        """Returns the runs that overlap `first` to `last`, unsplit."""
        low = max(bisect_right(self._runs, first, key=_first) - 1, 0)
        return [run for run in self._runs[low : bisect_right(self._runs, last, key=_first)] if run.last >= first]

    def end_of_range(self, offset: int) -> int:
        """Returns the last offset that was first acquired together with `offset`, or `offset` itself."""
        return max(
            (run.acquired_range.last for run in self.overlapping(offset, offset) if run.acquired_range), default=offset
        )

    def drop_below(self, offset: int) -> list[Run]:
        """Removes and returns the runs below `offset`."""
        if offset <= self.start:
            return []
        self._cut(offset)
        index = bisect_right(self._runs, offset - 1, key=_first)
        dropped = self._runs[:index]
        del self._runs[:index]
        self.start = offset
        return dropped

    def join_alike(self) -> None:
        """Joins adjacent runs in the same state."""
        joined: list[Run] = []
        for run in self._runs:
            if joined and joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs = joined

    def _cut(self, offset: int) -> None:
        """Splits the run that contains `offset` so that a run begins there."""
        index = bisect_right(self._runs, offset, key=_first) - 1
        if index < 0:
            return
        run = self._runs[index]
        if run.first < offset <= run.last:
            rest = Run(
                offset,
                run.last,
                run.state,
                run.delivery_count,
                run.member_id,
                run.deadline_ms,
                run.acquired_range,
            )
            rest.before = run.before
            run.last = offset - 1
            if run.acquired_range is not None:
                run.acquired_range.is_cut = True
            self._runs.insert(index + 1, rest)
