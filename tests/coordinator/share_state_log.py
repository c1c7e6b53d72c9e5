"""A partition of `__share_group_state` for simulations: the shard, its log with a high watermark, cuts and crashes.

As in a broker, the decisions of a turn are appended as one batch, and a reply is sent when the high watermark has
passed all records that its decision depends on. A crash loses records that were not appended, and randomly some that
were not committed. The next shard is loaded from the log by the broker's own loader. The simulation keeps the whole
log, to verify that a cut changes nothing.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from odradek.coordinator.persister_loader import PersisterLoader
from odradek.coordinator.persister_shard import PersisterShard, Redundant, TopicsChanged
from odradek.coordinator.result import GroupRequest, Reply
from odradek.coordinator.share_state import PersisterConfig, ShareKey, ShareState
from odradek.coordinator.share_state_records import encode_record
from odradek.metadata.image import MetadataImage
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message

from tests.coordinator.group_logs import LogRecord

#: Receives the result for the share partition, or None if the response was lost with the leader.
Reported = Callable[[Any], None]


class ShareStateLog:
    #: Set by an injected bug.
    waits_for_commits = True

    def __init__(self, rng: random.Random, config: PersisterConfig, image: MetadataImage, now: int) -> None:
        self.rng, self.config, self.image = rng, config, image
        self.log_start = self.high_watermark = 0
        self.crashes = self.cuts = 0
        self._batches: list[Sequence[LogRecord]] = []
        #: Records of this turn that are not appended yet.
        self._undecided: list[LogRecord] = []
        self._parked: list[tuple[int, Reply]] = []
        #: Cuts that wait for the commit of their snapshots.
        self._cuts: list[Redundant] = []
        self.shard = self._serving(now)

    @property
    def end(self) -> int:
        return sum(map(len, self._batches))

    # The leader's operations.

    def ask(self, request: Message, reported: Reported, now: int) -> Any:
        """Handles a request. Calls `reported` when the response is sent. Returns the response at once, for an observer."""
        self.shard.handle(GroupRequest(reported, request), now)
        return self._take()[0]

    def expire(self, now: int) -> None:
        self.shard.expire(now)
        self._take()

    def _take(self) -> list[Any]:
        output = self.shard.take()
        self._undecided += [encode_record(record) for record in output.records]
        sees = self.end + len(self._undecided)
        assert self.shard.state.next_offset == sees, "the shard's next offset differs from the log's"
        self._parked += [(sees, reply) for reply in output.replies]
        responses = [_of_one(reply) for reply in output.replies]
        self._release()
        return responses

    def turn(self) -> None:
        """Appends the records since the last turn as one batch."""
        if self._undecided:
            self._batches.append(self._undecided)
            self._undecided = []

    def commit(self, *, is_all: bool = False) -> None:
        ends = [end for end in itertools.accumulate(map(len, self._batches)) if end > self.high_watermark]
        if ends:
            self.high_watermark = ends[-1] if is_all else self.rng.choice(ends)
        self._cut()
        self._release()

    def _release(self) -> None:
        while self._parked and (self._parked[0][0] <= self.high_watermark or not self.waits_for_commits):
            _, reply = self._parked.pop(0)
            reply.token(_of_one(reply))  # type: ignore[operator]

    def prune(self) -> None:
        redundant = self.shard.redundant()
        if redundant is not None and redundant.below > self.log_start:
            self._cuts.append(redundant)
            self._cut()

    def _cut(self) -> None:
        due = [cut.below for cut in self._cuts if cut.committed <= self.high_watermark]
        self._cuts = [cut for cut in self._cuts if cut.committed > self.high_watermark]
        if due and max(due) > self.log_start:
            assert max(due) <= self.high_watermark, "the cut is above the high watermark"
            self.log_start = max(due)
            self.cuts += 1

    # Failover.

    def crash(self, now: int) -> None:
        self.crashes += 1
        self._undecided, self._cuts = [], []
        while self.end > self.high_watermark and self.rng.random() < 0.6:
            self._batches.pop()
        lost, self._parked = self._parked, []
        self.shard = self._serving(now)
        self.check_cut(now)
        for _, reply in lost:
            reply.token(None)  # type: ignore[operator]

    def _serving(self, now: int) -> PersisterShard:
        shard = self._loaded(self.log_start, now)
        shard.handle(TopicsChanged(self.image), now)
        return shard

    def _loaded(self, start: int, now: int) -> PersisterShard:
        """Loads a shard from the batch that contains `start` on, as logs are read."""
        loader = PersisterLoader(self.config, "__share_group_state-0")
        base = 0
        for batch in self._batches:
            if base + len(batch) > start:
                loader.feed(encode_batch([Record(base + i, now, *record) for i, record in enumerate(batch)]))
            base += len(batch)
        assert loader.record_count >= base - start
        while loader.replay_some(self.rng.randint(1, 20)):
            pass
        return loader.loaded(base, now)

    # Invariants.

    def check_cut(self, now: int) -> None:
        """Checks that the cut log has the same state as the whole log."""
        whole, cut = self._loaded(0, now).state.partitions, self.shard.state.partitions
        assert whole.keys() == cut.keys(), f"after the cut below {self.log_start} the log has other share partitions"
        for key in whole:
            assert _plain(whole, key) == _plain(cut, key), (
                f"after the cut below {self.log_start} the state of {key} differs"
            )


def _plain(states: dict[ShareKey, ShareState], key: ShareKey) -> ShareState:
    """Returns a state without values that depend on the log's length.

    These are the time of the next snapshot, and leader epochs from before an initialization.
    """
    return replace(states[key], update_count=0, fencing_leader_epoch=0)


def _of_one(reply: Reply) -> Any:
    """Returns the result for the only share partition of a response."""
    response: Any = reply.response
    return response.results[0].partitions[0]
