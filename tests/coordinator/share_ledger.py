"""The ledger of a share group: its members' and an observer's view, independent of the tested state machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from odradek.coordinator.acquisition import Acquired
from odradek.coordinator.dead_letters import DeadLetter
from odradek.coordinator.share_partition import AckBatch, Write
from odradek.coordinator.share_runs import RecordState


@dataclass
class Held:
    count: int
    until_ms: int
    #: The member has left since.
    is_released: bool = False


@dataclass
class Ledger:
    """The ledger with the invariants of share groups, checked with each event."""

    limit: int
    has_dead_letters: bool = False
    #: Member -> offset -> its acquired record.
    held: dict[str, dict[int, Held]] = field(default_factory=dict)
    #: Offsets whose terminal acknowledgement the leader has confirmed.
    confirmed: set[int] = field(default_factory=set)
    #: Offsets with a terminal acknowledgement in a request, whatever the response was.
    given_up: set[int] = field(default_factory=set)
    #: The same, for records that do not belong in the dead letter queue, and for those that do.
    given_up_for_good: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    #: The offsets in `confirmed` that were not rejected.
    accepted: set[int] = field(default_factory=set)
    #: Offsets that are ARCHIVING in the persister, while the leader assumes that the write failed.
    unclear: set[int] = field(default_factory=set)
    #: Offsets in the dead letter queue.
    dead: set[int] = field(default_factory=set)
    #: The delivery count of an offset, as last counted by this leader.
    counts: dict[int, int] = field(default_factory=dict)
    #: Offsets that have reached the delivery count limit.
    exhausted: set[int] = field(default_factory=set)

    def acquired(self, member_id: str, acquired: Iterable[Acquired], now: int, until_ms: int) -> int:
        total = 0
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                total += 1
                self._check_delivery(offset, count, now)
                self.counts[offset] = count
                if count == self.limit:
                    self.exhausted.add(offset)
                self.held.setdefault(member_id, {})[offset] = Held(count, until_ms)
        return total

    def _check_delivery(self, offset: int, count: int, now: int) -> None:
        assert offset not in self.confirmed, f"{offset} was acknowledged but is delivered again"
        assert 1 <= count <= self.limit, f"{offset} is delivered {count} times"
        assert count > self.counts.get(offset, 0), f"{offset} is delivered again with count {count}"
        for member_id, held in self.held.items():
            others = held.get(offset)
            assert others is None or others.until_ms <= now, f"{member_id} also has {offset}"

    def sent(self, member_id: str, batch: AckBatch, start_offset: int) -> bool:
        """Records an acknowledgement of a member. Returns whether it is valid."""
        held = self.held.get(member_id, {})
        for offset, kind in _offsets(batch):
            if kind in (0, 1, 3):
                self.given_up.add(offset)
                (self.rejected if kind == 3 else self.given_up_for_good).add(offset)
        return all(offset in held or offset < start_offset for offset, _ in _offsets(batch))

    def confirmed_by_leader(self, member_id: str, batch: AckBatch, start_offset: int, until_ms: int) -> None:
        """Records a confirmed acknowledgement. `start_offset`: that of the request; lower offsets are ignored."""
        held = self.held.get(member_id, {})
        for offset, kind in _offsets(batch):
            if offset < start_offset:
                continue
            if kind == 4:
                if offset in held and not held[offset].is_released:
                    held[offset].until_ms = until_ms
                continue
            if kind in (0, 1, 3):
                self.confirmed.add(offset)
            if kind in (0, 1):
                self.accepted.add(offset)
            held.pop(offset, None)

    def released(self, member_id: str, now: int) -> None:
        """Records a release: other members may acquire the records at once. If the write fails, the member keeps them."""
        for held in self.held.get(member_id, {}).values():
            held.until_ms, held.is_released = now, True

    def leader_changed(self) -> None:
        """Records a new leader: unwritten locks and counts are lost."""
        self.held.clear()
        self.counts.clear()

    def given_up_by_leader(self, dead_letter: DeadLetter) -> None:
        for offset in range(dead_letter.first, dead_letter.last + 1):
            assert self.has_dead_letters, "the group has no dead letter queue"
            assert offset not in self.accepted - self.unclear, f"{offset} was accepted but is a dead letter"
            assert 1 <= dead_letter.delivery_count <= self.limit, dead_letter
            why = self.rejected if dead_letter.is_rejected else self.exhausted
            assert offset in why, f"{offset} is a dead letter without a reason: {dead_letter}"

    def written_unknown_to_leader(self, write: Write) -> None:
        """Records a write whose result the leader did not get.

        The member may still accept its records. The persister keeps the higher state, like Kafka's.
        """
        for first, last, state, _ in write.batches:
            if state == RecordState.ARCHIVING:
                self.unclear.update(range(first, last + 1))

    def dead_letter_written(self, dead_letter: DeadLetter) -> None:
        self.dead.update(range(dead_letter.first, dead_letter.last + 1))

    def check_drained(self, end: int) -> None:
        lost = set(range(end)) - self.given_up - self.exhausted
        assert not lost, f"{sorted(lost)} were never completed"
        if self.has_dead_letters:
            lost = set(range(end)) - self.given_up_for_good - self.dead
            assert not lost, f"{sorted(lost)} were given up but are no dead letters"


def _offsets(batch: AckBatch) -> Iterable[tuple[int, int]]:
    for offset in range(batch.first, batch.last + 1):
        yield offset, batch.types[0] if len(batch.types) == 1 else batch.types[offset - batch.first]
