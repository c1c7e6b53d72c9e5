"""The share partitions whose partitions this broker leads, each made when a member first fetches from it.

load      the persister is asked for its state; fetches wait meanwhile
settle    after whatever happened to the machine: its writes go to the persister one after the other, its replies go
          out, its dead letters are sent, and whoever waits for records looks again
forget    another leads, the state is fenced, or the group has gone: it is made anew for whoever asks then
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ...coordinator.share_partition.dead_letters import DeadLetter
from ...coordinator.share_partition.partition import AckBatch, Refusal, SharePartition, Write
from ...coordinator.share_state.combining import UNINITIALIZED_OFFSET, StateBatch
from ...coordinator.share_state.state import ShareKey
from ...protocol.errors import ErrorCode
from ...protocol.messages import read_share_group_state as read
from ...protocol.messages import write_share_group_state as write
from . import share_configs

if TYPE_CHECKING:
    from ..broker import BrokerServer
    from ..partitions.hosted_partition import HostedPartition

log = logging.getLogger("odradek.groups")

Done = Callable[["Refusal | None"], None]

#: What the persister says, as those who fetch and acknowledge are told.
_TOLD_AS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_TOLD_AS_THEY_ARE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
#: After these it is made anew.
_FENCED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class Waiter(Protocol):
    """Who waits for records of a share partition."""

    def on_state_changed(self) -> None:
        """There may be something to look at."""


class LedSharePartition:
    def __init__(
        self,
        broker: BrokerServer,
        key: ShareKey,
        hosted: HostedPartition,
        forget: Callable[[LedSharePartition], None],
    ) -> None:
        self.key = key
        self.hosted = hosted
        self.leader_epoch = hosted.leader_epoch
        #: None while the persister is asked, and after an error.
        self.machine: SharePartition | None = None
        #: Why there is none.
        self.refusal: Refusal | None = None
        self.waiters: dict[Waiter, None] = {}
        self._broker = broker
        self._forget = forget
        self._state_epoch = 0
        self._writes: deque[Write] = deque()
        self._is_writing = False
        #: Dead letters on their way.
        self._unburied = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._configured_by = broker.image

    # Its state.

    def load(self) -> None:
        partition = read.PartitionData(partition=self.key.partition, leader_epoch=self.leader_epoch)
        topic = read.ReadStateData(topic_id=self.key.topic_id, partitions=[partition])
        request = read.ReadShareGroupStateRequest(group_id=self.key.group_id, topics=[topic])
        self._broker.persister.ask(request, self._loaded)

    def _loaded(self, response: read.ReadShareGroupStateResponse) -> None:
        found = response.results[0].partitions[0]
        # One that is closed meanwhile stays so: it must not send letters that another sends.
        refusal = self.refusal or _refusal(found.error_code, found.error_message)
        if refusal is None and not self._is_led():
            refusal = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        if refusal is not None:
            self.refusal = refusal
            self._forget(self)
        else:
            self._begin(found)
        self._wake()

    def _begin(self, found: read.PartitionResult) -> None:
        start = found.start_offset
        if start == UNINITIALIZED_OFFSET:
            start = share_configs.reset_offset(self._broker, self.key.group_id, self.hosted)
        self._state_epoch = found.state_epoch
        self.machine = SharePartition(
            start,
            [
                StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                for b in found.state_batches
            ],
            share_configs.limits(self._broker, self.key.group_id),
        )
        self.settle()

    def refresh(self) -> None:
        """What is configured may have changed."""
        machine, image = self.machine, self._broker.image
        if machine is not None and image is not self._configured_by:
            machine.limits = share_configs.limits(self._broker, self.key.group_id)
            self._configured_by = image

    def _is_led(self) -> bool:
        hosted = self.hosted
        return hosted.is_leader and not hosted.offline and hosted.leader_epoch == self.leader_epoch

    # What members say.

    def acknowledge(self, member_id: str, batches: list[AckBatch], done: Done) -> None:
        machine = self.machine
        if machine is None:
            done(self.refusal or Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "It is being loaded."))
        else:
            self.refresh()
            machine.acknowledge(done, member_id, batches, self._broker.now_ms())
            self.settle()

    def release(self, member_id: str) -> None:
        if self.machine is not None:
            self.refresh()
            self.machine.release(member_id)
            self.settle()

    # After each of them.

    def settle(self) -> None:
        machine = self.machine
        assert machine is not None
        output = machine.take()
        self._writes += output.writes
        self._write_next()
        for token, refusal in output.replies:
            assert callable(token)
            token(refusal)
        for letter in output.letters:
            self._send(machine, letter)
        self._plan(machine.deadline())

    def _send(self, machine: SharePartition, letter: DeadLetter) -> None:
        self._unburied += 1
        group_id = self.key.group_id
        is_wanted = partial(self._is_with, machine)
        self._broker.dead_letters.send(group_id, self.hosted, letter, is_wanted, partial(self._buried, machine, letter))

    def _is_with(self, machine: SharePartition) -> bool:
        return self.machine is machine

    def _buried(self, machine: SharePartition, letter: DeadLetter) -> None:
        self._unburied -= 1
        if self.machine is machine:
            machine.buried(letter)
            self.settle()
            self._wake()

    def _write_next(self) -> None:
        """One at a time: a start offset must not be overtaken by an earlier one."""
        if self._is_writing or not self._writes:
            return
        self._is_writing = True
        written = self._writes.popleft()
        partition = write.PartitionData(
            partition=self.key.partition,
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=written.start_offset,
            delivery_complete_count=written.delivery_complete_count,
            state_batches=[write.StateBatch(*batch) for batch in written.batches],
        )
        topic = write.WriteStateData(topic_id=self.key.topic_id, partitions=[partition])
        request = write.WriteShareGroupStateRequest(group_id=self.key.group_id, topics=[topic])
        self._broker.persister.ask(request, partial(self._written, written))

    def _written(self, written: Write, response: write.WriteShareGroupStateResponse) -> None:
        self._is_writing = False
        found = response.results[0].partitions[0]
        refusal = _refusal(found.error_code, found.error_message)
        machine = self.machine
        if machine is None:
            return
        machine.written(written.id, refusal)
        self.settle()
        self._wake()
        if refusal is not None:
            log.warning("%s: its state could not be written: %s", self.key, refusal)
            if refusal.error in _FENCED:
                self._forget(self)

    @property
    def is_writing(self) -> bool:
        return self._is_writing or bool(self._writes) or self._unburied > 0

    def _wake(self) -> None:
        for waiter in list(self.waiters):
            waiter.on_state_changed()

    # Locks that end.

    def _plan(self, deadline_ms: int | None) -> None:
        if deadline_ms is not None and (self._timer is None or deadline_ms < self._timer_ms):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = deadline_ms
            self._timer = self._broker.call_at(deadline_ms, self._due)

    def _due(self) -> None:
        self._timer = None
        machine = self.machine
        if machine is not None:
            self.refresh()
            machine.expire(self._broker.now_ms())
            self.settle()
            self._wake()

    def close(self, error: ErrorCode) -> None:
        """Whoever waits for an acknowledgement is told `error`; what was on its way may be written yet or not."""
        if self._timer is not None:
            self._timer.cancel()
        machine, self.machine = self.machine, None
        self.refusal = self.refusal or Refusal(error, "")
        if machine is not None:
            for token in machine.abandon():
                assert callable(token)
                token(self.refusal)
        self._wake()


class SharePartitions:
    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker
        self._led: dict[ShareKey, LedSharePartition] = {}

        #: Type of acknowledgement -> how many records were acknowledged so.
        self.acknowledgements: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._led)

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(list(self._led.values()))

    def get(self, key: ShareKey) -> LedSharePartition | None:
        return self._led.get(key)

    def open(self, key: ShareKey, hosted: HostedPartition) -> LedSharePartition:
        """The share partition, which may still have to be loaded. `hosted` is led here."""
        led = self._led.get(key)
        if led is not None and (led.leader_epoch != hosted.leader_epoch or led.hosted is not hosted):
            self._forget(key, led)
            led = None
        if led is None:
            led = LedSharePartition(self._broker, key, hosted, self._forget_if_current)
            self._led[key] = led
            led.load()
        led.refresh()
        return led

    def release(self, group_id: str, member_id: str) -> None:
        """A member has gone."""
        for key, led in list(self._led.items()):
            if key.group_id == group_id:
                led.release(member_id)

    def forget_group(self, group_id: str) -> None:
        """Nobody of the group is here any more: whoever comes next finds what the persister has."""
        for key, led in list(self._led.items()):
            if key.group_id == group_id and not led.is_writing:
                self._forget(key, led)

    def apply(self, is_changed: bool) -> None:
        """After partitions got other leaders, or went."""
        if is_changed:
            for key, led in list(self._led.items()):
                hosted = self._broker.partitions.get_by_id((key.topic_id, key.partition))
                if hosted is not led.hosted or not hosted.is_leader or hosted.leader_epoch != led.leader_epoch:
                    self._forget(key, led)

    def stop(self) -> None:
        for key, led in list(self._led.items()):
            self._forget(key, led)

    def _forget_if_current(self, led: LedSharePartition) -> None:
        """One that was forgotten may hear of its state yet, when another has its place."""
        if self._led.get(led.key) is led:
            self._forget(led.key, led)

    def _forget(self, key: ShareKey, led: LedSharePartition) -> None:
        del self._led[key]
        led.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _refusal(error_code: int, message: str | None) -> Refusal | None:
    if not error_code:
        return None
    error: Any = ErrorCode(error_code)
    if error not in _TOLD_AS_THEY_ARE:
        error = _TOLD_AS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
    return Refusal(error, message or "")
