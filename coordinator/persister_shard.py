"""The share coordinator: the persister of the share partitions in one partition of `__share_group_state`.

Uses no disk and no clock.

    shard = PersisterShard(config)
    shard.replay(record) ...          the log, from its start
    shard.loaded(now_ms)              the end of the log; requests follow
    shard.handle(message, now_ms)     a GroupRequest for one share partition, or MetadataChanged
    shard.take()                      -> Output: records to append, and replies to send once they are committed
    shard.deadline(), expire(now_ms)  the next deadline, and the handling of expired timers

As for groups, a shard is dropped and reloaded if its records cannot be appended or its leadership ends.

Only write methods of `PersisterState` change the state: each records a change and replays it at once. For each share
partition the log has snapshots, and between them updates that are combined with the state before. Both are replayed in
order, at least from the last snapshot on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..metadata.image import MetadataImage
from .result import GroupRequest, Output, Record
from .share_state import PersisterConfig, PersisterState
from .share_state_operations import handle
from .timers import Timer


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The published metadata. `deleted`: ids of deleted topics, whose state is deleted."""

    image: MetadataImage
    deleted: frozenset[bytes] = frozenset()


class Redundant(NamedTuple):
    """The log below `below` is redundant once the high watermark has reached `committed`.

    Until then a failover could lose a snapshot or a tombstone, and the records that it replaces would be needed. This
    value must not be used after the shard is dropped.
    """

    below: int
    committed: int


class PersisterShard:
    def __init__(self, config: PersisterConfig) -> None:
        self.state = PersisterState(config)
        self._cold = Timer(("cold",))

    def handle(self, message: GroupRequest | TopicsChanged, now_ms: int) -> None:
        if isinstance(message, TopicsChanged):
            self._topics_changed(message)
        else:
            handle(self.state, message, now_ms)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now_ms: int) -> None:
        while self.state.timers.due(now_ms) is not None:
            self._snapshot_cold(now_ms)
            self._plan(now_ms)

    def take(self) -> Output:
        """Returns the output since the last call. The caller appends the records before it sends any reply."""
        state = self.state
        output = Output(state.records[:], state.replies[:])
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record) -> None:
        self.state.replay(record)

    def loaded(self, now_ms: int) -> None:
        self._plan(now_ms)

    def redundant(self) -> Redundant | None:
        """Returns the part of the log that later snapshots replace; None if there are no snapshots."""
        below = min(self.state.snapshot_offsets.values(), default=None)
        return None if below is None else Redundant(below, self.state.newest_snapshot_offset + 1)

    def _topics_changed(self, message: TopicsChanged) -> None:
        self.state.image = message.image
        for key in [key for key in self.state.partitions if key.topic_id in message.deleted]:
            self.state.write_tombstone(key)

    def _plan(self, now_ms: int) -> None:
        self.state.timers.set(self._cold, now_ms + self.state.config.cold_snapshot_interval_ms)

    def _snapshot_cold(self, now_ms: int) -> None:
        """Writes new snapshots of states that have not been written for long, so that the log below can be deleted."""
        state = self.state
        states = state.partitions
        if all(known.create_timestamp_ms != known.write_timestamp_ms for known in states.values()):
            return
        oldest = now_ms - state.config.cold_snapshot_interval_ms
        for key, known in list(states.items()):
            if known.write_timestamp_ms <= oldest:
                state.write_snapshot(
                    key, replace(known, snapshot_epoch=known.snapshot_epoch + 1, write_timestamp_ms=now_ms)
                )
