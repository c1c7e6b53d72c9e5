"""An observer's view of the states written to the persister: by offset, without snapshots and updates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.coordinator.share_state import ShareKey, ShareState
from odradek.coordinator.share_state_checks import NO_EPOCH
from odradek.coordinator.state_batches import StateBatch
from odradek.protocol.errors import ErrorCode

#: Delivery count and state of one offset. The higher rank wins.
Rank = tuple[int, int]


class Kept(NamedTuple):
    """The state of one share partition after a decision."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    ranks: dict[int, Rank]

    def written(self, start: int, complete_count: int, batches: Iterable[StateBatch]) -> Kept:
        ranks = dict(self.ranks)
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                ranks[offset] = max(ranks.get(offset, (-1, -1)), (count, state))
        if start == self.start_offset:
            complete_count = max(complete_count, self.complete_count)
        elif start < self.start_offset:
            start, complete_count = self.start_offset, self.complete_count
        ranks = {offset: rank for offset, rank in ranks.items() if offset >= start}
        return self._replace(start_offset=start, complete_count=complete_count, ranks=ranks)


class StateLedger:
    """The state of every share partition after each decision, with the decision's position in the log."""

    def __init__(self) -> None:
        self._history: dict[ShareKey, list[tuple[int, Kept | None]]] = {}
        #: The log end offset at the last decision with a sent response.
        self.answered_end = 0
        #: Leader epochs: the highest with a read response since the initialization, and the highest in any request.
        self.fences: dict[ShareKey, int] = {}
        self.highest_leaders: dict[ShareKey, int] = {}
        #: The number of initializations and deletions.
        self.beginnings: dict[ShareKey, int] = {}

    def kept(self, key: ShareKey) -> Kept | None:
        history = self._history.get(key)
        return history[-1][1] if history else None

    def decided(self, key: ShareKey, kept: Kept | None, end: int) -> None:
        """Records a decision. `end`: the log end offset with its records."""
        self._history.setdefault(key, []).append((end, kept))

    def began(self, key: ShareKey) -> None:
        self.fences[key] = 0
        self.beginnings[key] = self.beginnings.get(key, 0) + 1

    def fenced(self, key: ShareKey, leader_epoch: int, beginning: int) -> None:
        """Records a read response, which fences all earlier leaders."""
        if beginning == self.beginnings.get(key, 0):
            self.fences[key] = max(self.fences.get(key, 0), leader_epoch)

    def answered(self, end: int) -> None:
        self.answered_end = max(self.answered_end, end)

    def lost(self, end: int) -> None:
        """Removes decisions above `end`, which a crash has lost."""
        assert end >= self.answered_end, f"the log ends at {end}, but responses were sent up to {self.answered_end}"
        for history in self._history.values():
            while history and history[-1][0] > end:
                history.pop()

    # Invariants.

    def check_fenced(self, key: ShareKey, leader_epoch: int, state_epoch: int, error: int) -> None:
        """Checks that only earlier epochs are fenced. An epoch is NO_EPOCH if the request has none."""
        kept, highest = self.kept(key), self.highest_leaders.get(key, 0)
        wanted = ErrorCode.NONE
        if leader_epoch != NO_EPOCH and leader_epoch < self.fences.get(key, 0):
            wanted = ErrorCode.FENCED_LEADER_EPOCH
        elif kept is not None and state_epoch != NO_EPOCH and state_epoch < kept.state_epoch:
            wanted = ErrorCode.FENCED_STATE_EPOCH
        if leader_epoch != NO_EPOCH and kept is None:
            wanted = ErrorCode.INVALID_REQUEST
        elif leader_epoch != NO_EPOCH and leader_epoch < highest and error == ErrorCode.FENCED_LEADER_EPOCH:
            return  # the shard keeps leader epochs from before the initialization
        assert error == wanted, (
            f"{key}, leader {leader_epoch}, state {state_epoch}: {ErrorCode(error).name}, not {wanted.name}"
        )

    def check(self, key: ShareKey, state: ShareState | None) -> None:
        kept = self.kept(key)
        assert (state is None) == (kept is None), f"{key} is {state} instead of {kept}"
        if state is not None:
            reported = Kept(
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
                ranks_of(state.batches),
            )
            assert reported == kept, f"{key} is kept as {reported} instead of {kept}"


def ranks_of(batches: Iterable[StateBatch]) -> dict[int, Rank]:
    ranks: dict[int, Rank] = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            assert offset not in ranks, f"{offset} is in two batches: {batches}"
            ranks[offset] = (count, state)
    return ranks
