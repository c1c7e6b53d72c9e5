"""Seeded simulation of the persister of share groups.

Leaders change and send late requests, groups are initialized again, the log is cut, and coordinators crash anywhere.
The next one loads the rest of the log.

After every event the state of each share partition equals the ledger's. State with a sent response survives a crash.
Earlier leader and state epochs are fenced. A start offset never decreases. A cut of the log does not change the state.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any

from odradek.coordinator.share_state import PersisterConfig, ShareKey
from odradek.coordinator.share_state_checks import NO_EPOCH
from odradek.coordinator.share_state_responses import FORMS
from odradek.coordinator.state_batches import StateBatch
from odradek.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteStatePartition
from odradek.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
)
from odradek.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStatePartitionResult
from odradek.protocol.messages.share_state_batches import StateBatchData
from odradek.protocol.messages.share_state_reads import ReadStatePartition
from odradek.protocol.messages.write_share_group_state import WriteShareGroupStateRequest, WriteStatePartition
from odradek.protocol.schema import Message

from tests.coordinator.share_simulation import TOPIC_ID, image_of
from tests.coordinator.share_state_ledger import Kept, StateLedger, ranks_of
from tests.coordinator.share_state_log import ShareStateLog

KEYS = tuple(ShareKey(group_id, TOPIC_ID, index) for group_id in ("g", "h") for index in (0, 1))
COLD_MS = 1_000


@dataclass
class Leader:
    """A current or former leader of a share partition."""

    leader_epoch: int
    state_epoch: int
    start_offset: int


@dataclass
class Question:
    key: ShareKey
    leader_epoch: int
    #: The number of initializations and deletions of its share partition.
    beginning: int
    #: The log end offset after the decision.
    end: int = 0
    #: The requesting leader's epoch is written.
    is_recorded: bool = False


class ShareStateSimulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 1_000_000
        config = PersisterConfig(self.rng.choice((0, 3, 20)), COLD_MS)
        self.log = ShareStateLog(self.rng, config, image_of(2), self.now)
        self.ledger = StateLedger()
        self.leaders: dict[ShareKey, list[Leader]] = {key: [] for key in KEYS}
        self.state_epochs = dict.fromkeys(KEYS, 0)
        self.leader_epochs = dict.fromkeys(KEYS, 0)
        #: (share partition, number of initializations) -> the start offset in the last read response.
        self.starts_reported: dict[tuple[ShareKey, int], int] = {}
        #: Responses that are not processed yet.
        self.responses: list[tuple[Question, Any]] = []
        self.reported = 0
        for key in KEYS:
            self._initialize(key)
            self._lead(key)

    # Events.

    def run(self, steps: int) -> None:
        moves = {
            self._initialize: 2, self._initialize_late: 1, self._lead: 6, self._lead_late: 3, self._write: 60,
            self._delete: 1, self._turn: 30, self._commit: 20, self._prune: 6, self._wait: 3, self._crash: 4,
        }  # fmt: skip
        for move in self.rng.choices(list(moves), list(moves.values()), k=steps):
            move(self.rng.choice(KEYS))
        self._rest()
        self._crash()

    def _rest(self) -> None:
        """Lets unused share partitions get a new snapshot, so that the log can finally be cut."""
        self.now += 2 * COLD_MS
        self.log.expire(self.now)
        self.log.turn()
        self.log.commit(is_all=True)
        self.log.prune()
        self._hear()
        assert self.log.cuts or not self.log.shard.state.partitions, "the log was never cut"

    def _initialize(self, key: ShareKey) -> None:
        """Initializes, like the group coordinator for a new group or after an administrator alters its offsets."""
        self.state_epochs[key] += 1
        self._begin(key, self.state_epochs[key])

    def _initialize_late(self, key: ShareKey) -> None:
        if self.state_epochs[key] > 1:
            self._begin(key, self.state_epochs[key] - 1)

    def _begin(self, key: ShareKey, state_epoch: int) -> None:
        start = self.rng.choice((-1, 0, self.rng.randrange(60)))
        one = InitializeStatePartition(partition=key.partition, state_epoch=state_epoch, start_offset=start)
        kept = Kept(state_epoch, 0, start, -1 if start == -1 else 0, {})
        if not self._ask(InitializeShareGroupStateRequest, key, one, kept):
            self.ledger.began(key)

    def _delete(self, key: ShareKey) -> None:
        if not self._ask(DeleteShareGroupStateRequest, key, DeleteStatePartition(partition=key.partition), None):
            self.ledger.began(key)

    def _lead(self, key: ShareKey) -> None:
        self.leader_epochs[key] += 1
        self._read(key, self.leader_epochs[key])

    def _lead_late(self, key: ShareKey) -> None:
        """Reads as a former leader, or as the current one that retries."""
        self._read(key, max(1, self.leader_epochs[key] - self.rng.randrange(3)))

    def _read(self, key: ShareKey, leader_epoch: int) -> None:
        kept = self.ledger.kept(key)
        after = kept._replace(leader_epoch=leader_epoch) if kept is not None else None
        one = ReadStatePartition(partition=key.partition, leader_epoch=leader_epoch)
        self._ask(ReadShareGroupStateRequest, key, one, after)
        self.ledger.highest_leaders[key] = max(self.ledger.highest_leaders.get(key, 0), leader_epoch)

    def _leads(self, question: Question, found: ReadStatePartitionResult) -> None:
        key, leader_epoch = question.key, question.leader_epoch
        since = (key, question.beginning)
        assert found.start_offset >= self.starts_reported.get(since, -1), f"the start offset of {key} decreased"
        self.starts_reported[since] = found.start_offset
        if question.is_recorded:
            self.ledger.fenced(key, leader_epoch, question.beginning)
        self.leaders[key].append(Leader(leader_epoch, found.state_epoch, found.start_offset))
        del self.leaders[key][:-4]

    def _write(self, key: ShareKey) -> None:
        """Writes as a leader, possibly late, after a later leader, and possibly with an older start offset."""
        if not self.leaders[key]:
            return
        leader = self.leaders[key][-1] if self.rng.random() < 0.8 else self.rng.choice(self.leaders[key])
        if self.rng.random() < 0.3:
            leader.start_offset += self.rng.randrange(6)
        start = leader.start_offset - (self.rng.randrange(4) if self.rng.random() < 0.2 else 0)
        batches = [self._batch(max(0, leader.start_offset)) for _ in range(self.rng.randrange(4))]
        count = self.rng.randrange(5)
        one = WriteStatePartition(
            partition=key.partition,
            state_epoch=leader.state_epoch,
            leader_epoch=leader.leader_epoch,
            start_offset=max(-1, start),
            delivery_complete_count=count,
            state_batches=[StateBatchData(*batch) for batch in batches],
        )
        kept = self.ledger.kept(key)
        after = kept.written(max(-1, start), count, batches) if kept is not None else None
        self._ask(WriteShareGroupStateRequest, key, one, after)

    def _batch(self, start: int) -> StateBatch:
        first = start + self.rng.randrange(20)
        return StateBatch(first, first + self.rng.randrange(6), self.rng.choice((0, 2, 3, 4)), self.rng.randint(1, 5))

    # The coordinator.

    def _ask(self, request: Any, key: ShareKey, one: Any, after: Kept | None) -> int:
        """Sends a request. `after`: the expected state if it succeeds. Returns the error of the response."""
        question = Question(key, getattr(one, "leader_epoch", NO_EPOCH), self.ledger.beginnings.get(key, 0))
        end = self.log.shard.state.next_offset
        topic = FORMS[request].topic(topic_id=key.topic_id, partitions=[one])
        message: Message = request(group_id=key.group_id, topics=[topic])
        found = self.log.ask(message, partial(self._reported, question), self.now)
        self.ledger.check_fenced(key, question.leader_epoch, getattr(one, "state_epoch", NO_EPOCH), found.error_code)
        question.end = self.log.shard.state.next_offset
        if question.end > end:
            self.ledger.decided(key, after, question.end)
        kept = self.ledger.kept(key)
        if isinstance(found, ReadStatePartitionResult) and not found.error_code:
            assert kept is not None
            reported = (found.state_epoch, found.start_offset, ranks_of(batches_of(found)))
            assert reported == (kept.state_epoch, kept.start_offset, kept.ranks), f"{key} is {reported}, not {kept}"
            question.is_recorded = kept.leader_epoch == question.leader_epoch
        self.ledger.check(key, self.log.shard.state.partitions.get(key))
        self._hear()
        error: int = found.error_code
        return error

    def _reported(self, question: Question, response: Any) -> None:
        self.responses.append((question, response))

    def _hear(self) -> None:
        responses, self.responses = self.responses, []
        for question, response in responses:
            if response is not None:
                self.reported += 1
                self.ledger.answered(question.end)
                if isinstance(response, ReadStatePartitionResult) and not response.error_code:
                    self._leads(question, response)

    def _turn(self, key: ShareKey) -> None:
        self.log.turn()

    def _commit(self, key: ShareKey) -> None:
        self.log.commit()
        self._hear()

    def _prune(self, key: ShareKey) -> None:
        self.log.prune()

    def _wait(self, key: ShareKey) -> None:
        """Lets unused share partitions get a new snapshot."""
        self.now += self.rng.randrange(COLD_MS)
        self.log.expire(self.now)
        self._check_all()

    def _crash(self, key: ShareKey | None = None) -> None:
        self.log.crash(self.now)
        self._hear()
        self.ledger.lost(self.log.end)
        self._check_all()

    def _check_all(self) -> None:
        for key in KEYS:
            self.ledger.check(key, self.log.shard.state.partitions.get(key))


def batches_of(found: ReadStatePartitionResult) -> list[StateBatch]:
    return [StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in found.state_batches]
