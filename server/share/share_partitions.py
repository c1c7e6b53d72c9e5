"""The share partitions of the partitions that this broker leads. Each is created when a member first fetches from it.

load      requests the state from the persister; fetches wait meanwhile
settle    after every input to the state machine: sends its writes to the persister one at a time, its replies and
          its dead-letter records, and wakes as many waiting fetches as there are records for
forget    when another broker leads, the state is fenced, or the group is gone: drops the share partition; the next
          fetch creates it anew
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...coordinator.share_partition import (
    AckBatch,
    Acquirable,
    DeadLetter,
    Limits,
    SharePartition,
    ValidationError,
    Write,
)
from ...coordinator.share_state import UNINITIALIZED_OFFSET, ShareKey, StateBatch
from ...metadata.configs.key import duration_seconds
from ...metadata.features import SHARE_VERSION
from ...metadata.image import GROUP_RESOURCE
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateData,
    ReadStatePartition,
    ReadStatePartitionResult,
    StateBatchData,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateData,
    WriteStatePartition,
)
from ...protocol.records.errors import BatchError
from ...storage.segments.segment import LargeBatch
from ..data_path.fetch import is_remote

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...storage.segments.segment import TimestampedOffset
    from ..config.broker_config import BrokerConfig
    from ..controller.cluster_view import Leaders
    from ..coordinators.share_state_driver import Persister
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..partitions.remote_port import RemotePort
    from ..runtime.clock import Clock
    from ..runtime.subsystem import Lazy, MetadataCache
    from .dead_letters import DeadLetters


# The persister's state of one share partition.


#: Called with each completed write and the persister's error code and message.
Written = Callable[[Write, int, "str | None"], None]


class PersistedState:
    """Reads and writes the state, with one write in flight: an earlier start offset must not overwrite a later one."""

    def __init__(self, persister: Lazy[Persister], key: ShareKey, leader_epoch: int, written: Written) -> None:
        self._persister = persister
        self._key = key
        self._leader_epoch = leader_epoch
        self._written = written
        #: The epoch of the state that was read.
        self._state_epoch = 0
        self._writes: deque[Write] = deque()
        self._is_writing = False

    @property
    def is_writing(self) -> bool:
        return self._is_writing or bool(self._writes)

    def read(self, done: Callable[[ReadStatePartitionResult], None]) -> None:
        partition = ReadStatePartition(partition=self._key.partition, leader_epoch=self._leader_epoch)
        topic = ReadStateData(topic_id=self._key.topic_id, partitions=[partition])
        request = ReadShareGroupStateRequest(group_id=self._key.group_id, topics=[topic])
        self._persister().ask(request, partial(self._was_read, done))

    def _was_read(
        self, done: Callable[[ReadStatePartitionResult], None], response: ReadShareGroupStateResponse
    ) -> None:
        found = response.results[0].partitions[0]
        self._state_epoch = found.state_epoch
        done(found)

    def write(self, writes: Sequence[Write]) -> None:
        """Adds writes and sends the next one."""
        self._writes += writes
        if self._is_writing or not self._writes:
            return
        self._is_writing = True
        next_write = self._writes.popleft()
        partition = WriteStatePartition(
            partition=self._key.partition,
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=next_write.start_offset,
            delivery_complete_count=next_write.delivery_complete_count,
            state_batches=[StateBatchData(*batch) for batch in next_write.batches],
        )
        topic = WriteStateData(topic_id=self._key.topic_id, partitions=[partition])
        request = WriteShareGroupStateRequest(group_id=self._key.group_id, topics=[topic])
        self._persister().ask(request, partial(self._was_written, next_write))

    def _was_written(self, written: Write, response: WriteShareGroupStateResponse) -> None:
        self._is_writing = False
        found = response.results[0].partitions[0]
        self._written(written, found.error_code, found.error_message)


# The configuration of share groups on their partitions' leaders: the group's own, else the broker's (KIP-932).


FIRST_WITH_DEAD_LETTERS = 2

_LATEST = "latest"


class ShareConfigs:
    """Reads the configuration of share groups from the published image and the broker's configuration."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache, clock: Clock) -> None:
        self._config = config
        self._metadata = metadata
        self._clock = clock

    @property
    def image(self) -> MetadataImage:
        """The image that the configuration is read from: with the same image, it is the same."""
        return self._metadata.image

    def limits(self, group_id: str) -> Limits:
        own, config = self._of_group(group_id), self._config
        return Limits(
            int(own.get("share.delivery.count.limit") or config.get("group.share.delivery.count.limit")),
            int(own.get("share.partition.max.record.locks") or config.get("group.share.partition.max.record.locks")),
            self.lock_duration_ms(group_id),
            own.get("share.renew.acknowledge.enable", "true").lower() != "false",
            self._has_dead_letters(own),
        )

    def lock_duration_ms(self, group_id: str) -> int:
        own = self._of_group(group_id).get("share.record.lock.duration.ms")
        return int(own or self._config.get("group.share.record.lock.duration.ms"))

    def is_read_committed(self, group_id: str) -> bool:
        return self._of_group(group_id).get("share.isolation.level") == "read_committed"

    def begins_at_end(self, group_id: str) -> bool:
        """Returns whether a new group starts at the end of the log: it has no lag in partitions that it has not begun."""
        return self._reset_strategy(group_id) == _LATEST

    def reset_offset(self, group_id: str, hosted: HostedPartition) -> int:
        """Returns the offset at which a new group starts: the end of the log unless configured otherwise."""
        if self._reset_strategy(group_id) == "earliest":
            return hosted.log_start_offset
        timestamp = self.reset_timestamp(group_id)
        if timestamp is not None:
            try:
                at = hosted.log.offset_for_timestamp(timestamp)
            except LargeBatch as large:
                # Starting at the first record is better than waiting for a thread.
                return large.header.base_offset
            except BatchError as damage:
                # Starting too early is better than skipping records.
                hosted.on_damage(hosted, damage)
                return hosted.log_start_offset
            return hosted.log_end_offset if at is None else at.offset
        return hosted.log_end_offset

    def reset_timestamp(self, group_id: str) -> int | None:
        """Returns the time from which a new group gets records; None if it starts at an end of the log."""
        _, found, duration = self._reset_strategy(group_id).partition("by_duration:")
        return int(self._clock.now_ms() - (duration_seconds(duration) or 0) * 1000) if found else None

    def _reset_strategy(self, group_id: str) -> str:
        return self._of_group(group_id).get("share.auto.offset.reset", _LATEST)

    def _of_group(self, group_id: str) -> Mapping[str, str]:
        return self._metadata.image.config(GROUP_RESOURCE, group_id)

    def _has_dead_letters(self, own: Mapping[str, str]) -> bool:
        """Returns whether the group has a dead-letter queue and every broker of the cluster supports them (KIP-1191)."""
        is_known = self._metadata.image.features.level(SHARE_VERSION) >= FIRST_WITH_DEAD_LETTERS
        return is_known and bool(own.get("errors.deadletterqueue.topic.name"))


log = logging.getLogger("odradek.groups")

#: Requests of share groups name no leader epoch.
NO_LEADER_EPOCH = -1

Done = Callable[["ValidationError | None"], None]

#: The persister's errors, mapped to the errors that fetches and acknowledgements return.
_MAPPED_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_UNCHANGED_ERRORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
#: After these errors the share partition is created again.
_FENCED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class LedSharePartition:
    """A share partition of a group on the leader of its partition: drives the state machine `machine`."""

    def __init__(
        self,
        key: ShareKey,
        hosted: HostedPartition,
        persister: Lazy[Persister],
        dead_letters: Lazy[DeadLetters],
        configs: ShareConfigs,
        clock: Clock,
        forget: Callable[[LedSharePartition], None],
        remote: RemotePort | None,
    ) -> None:
        self.key = key
        self.hosted = hosted
        self.leader_epoch = hosted.leader_epoch
        #: None while the persister loads the state, and after an error.
        self.state_machine: SharePartition | None = None
        #: The error that explains why there is no state machine.
        self.validation_error: ValidationError | None = None
        self._waiting = WaitingFetches(self._available)
        #: The records that the state machine has for members; None after it changed.
        self._acquirable: Acquirable | None = None
        self._state = PersistedState(persister, key, self.leader_epoch, self._written)
        self._dead_letters = dead_letters
        self._configs = configs
        self._clock = clock
        self._forget = forget
        self._remote = remote
        #: The number of dead-letter records in flight.
        self._pending_dead_letters = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._configured_by = configs.image

    # State.

    def load(self) -> None:
        self._state.read(self._loaded)

    def _loaded(self, found: ReadStatePartitionResult) -> None:
        # A share partition closed meanwhile stays closed: it must not send dead-letter records that its successor
        # sends.
        validation_error = self.validation_error or _validation_error(found.error_code, found.error_message)
        if validation_error is None and not self._is_led():
            validation_error = ValidationError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        if validation_error is not None:
            self._fail(validation_error)
        elif found.start_offset != UNINITIALIZED_OFFSET:
            self._begin(found.start_offset, found)
        else:
            self._reset(found)

    def _fail(self, validation_error: ValidationError) -> None:
        """Ends with an error that fetches return; the next one after them loads the state anew."""
        self.validation_error = validation_error
        self._forget(self)
        self._waiting.wake_all()

    def _reset(self, found: ReadStatePartitionResult) -> None:
        """Begins a new group at the offset of its configuration. The remote store may have the first record after a time."""
        hosted, timestamp = self.hosted, self._configs.reset_timestamp(self.key.group_id)
        if timestamp is not None and self._remote is not None and is_remote(hosted, hosted.log_start_offset):
            self._remote.find_by_timestamp(hosted, timestamp, partial(self._store_searched, found))
        else:
            self._begin(self._configs.reset_offset(self.key.group_id, hosted), found)

    def _store_searched(self, loaded: ReadStatePartitionResult, error: int, found: TimestampedOffset | None) -> None:
        if self.validation_error is not None:
            return
        if error:
            self._fail(ValidationError(ErrorCode(error), "The remote store could not be searched."))
        else:
            start = self._configs.reset_offset(self.key.group_id, self.hosted) if found is None else found.offset
            self._begin(start, loaded)

    def _begin(self, start: int, found: ReadStatePartitionResult) -> None:
        self.state_machine = SharePartition(
            start,
            [
                StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                for b in found.state_batches
            ],
            self._configs.limits(self.key.group_id),
        )
        self.apply_output()
        self._waiting.changed()

    def refresh(self) -> None:
        """Applies the configuration, which may have changed."""
        state_machine, image = self.state_machine, self._configs.image
        if state_machine is not None and image is not self._configured_by:
            state_machine.limits = self._configs.limits(self.key.group_id)
            self._configured_by = image
            self._acquirable = None

    def _is_led(self) -> bool:
        hosted = self.hosted
        return hosted.is_leader and not hosted.offline and hosted.leader_epoch == self.leader_epoch

    # Acknowledgements.

    def acknowledge(self, member_id: str, batches: list[AckBatch], done: Done) -> None:
        state_machine = self.state_machine
        if state_machine is None:
            done(
                self.validation_error
                or ValidationError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The share partition is being loaded.")
            )
        else:
            self.refresh()
            state_machine.acknowledge(done, member_id, batches, self._clock.now_ms())
            self.apply_output()

    def release(self, member_id: str) -> None:
        if self.state_machine is not None:
            self.refresh()
            self.state_machine.release(member_id)
            self.apply_output()

    # After each operation.

    def apply_output(self) -> None:
        state_machine = self.state_machine
        assert state_machine is not None
        self._acquirable = None
        output = state_machine.take()
        self._state.write(output.writes)
        for token, validation_error in output.replies:
            assert callable(token)
            token(validation_error)
        for dead_letter in output.dead_letter_records:
            self._send(state_machine, dead_letter)
        self._plan(state_machine.deadline())

    def _send(self, state_machine: SharePartition, dead_letter: DeadLetter) -> None:
        self._pending_dead_letters += 1
        group_id = self.key.group_id
        is_wanted = partial(self._is_with, state_machine)
        self._dead_letters().send(
            group_id,
            self.hosted,
            dead_letter,
            is_wanted,
            partial(self._dead_letter_written, state_machine, dead_letter),
        )

    def _is_with(self, state_machine: SharePartition) -> bool:
        return self.state_machine is state_machine

    def _dead_letter_written(self, state_machine: SharePartition, dead_letter: DeadLetter) -> None:
        self._pending_dead_letters -= 1
        if self.state_machine is state_machine:
            state_machine.dead_letter_written(dead_letter)
            self.apply_output()
            self._waiting.changed()

    def _written(self, written: Write, error_code: int, message: str | None) -> None:
        validation_error = _validation_error(error_code, message)
        state_machine = self.state_machine
        if state_machine is None:
            return
        state_machine.written(written.id, validation_error)
        self.apply_output()
        self._waiting.changed()
        if validation_error is not None:
            log.warning("%s: its state could not be written: %s", self.key, validation_error)
            if validation_error.error in _FENCED:
                self._forget(self)

    @property
    def is_writing(self) -> bool:
        return self._state.is_writing or self._pending_dead_letters > 0

    # Waiting fetches.

    @property
    def last_change(self) -> int:
        """The number of the last change of the state or of the log's end."""
        return self._waiting.change

    def wait(self, waiter: Waiter, seen: int) -> None:
        """Lets a fetch wait for records, that found too little after the change `seen`."""
        self.hosted.watchers[self] = None
        self._waiting.wait(waiter, seen)

    def leave(self, waiter: Waiter) -> None:
        self._waiting.remove(waiter)
        if not self._waiting:
            self.hosted.watchers.pop(self, None)

    def on_bytes_available(self, size: int) -> None:
        """Handles records that were committed."""
        self._waiting.changed()

    def on_state_changed(self) -> None:
        """Handles a change of the partition: its role, its log's start, or the end of a transaction."""
        if self._is_led():
            self._waiting.changed()
        else:
            self._waiting.wake_all()

    def _available(self) -> int:
        """Returns the number of records that members can acquire; it includes offsets without records."""
        if self.state_machine is None:
            return 0
        if self._acquirable is None:
            self._acquirable = self.state_machine.acquirable()
        hosted, acquirable = self.hosted, self._acquirable
        is_isolated = self._configs.is_read_committed(self.key.group_id)
        limit = hosted.last_stable_offset if is_isolated else hosted.high_watermark
        return acquirable.again + max(0, min(limit - acquirable.end_offset, acquirable.room))

    # Lock timeouts.

    def _plan(self, deadline_ms: int | None) -> None:
        if deadline_ms is not None and (self._timer is None or deadline_ms < self._timer_ms):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = deadline_ms
            self._timer = self._clock.call_at(deadline_ms, self._due)

    def _due(self) -> None:
        self._timer = None
        state_machine = self.state_machine
        if state_machine is not None:
            self.refresh()
            state_machine.expire(self._clock.now_ms())
            self.apply_output()
            self._waiting.changed()

    def close(self, error: ErrorCode) -> None:
        """Closes the share partition. Waiting acknowledgements fail with `error`; writes in flight may still be
        written.
        """
        if self._timer is not None:
            self._timer.cancel()
        state_machine, self.state_machine = self.state_machine, None
        self.validation_error = self.validation_error or ValidationError(error, "")
        if state_machine is not None:
            for token in state_machine.abandon():
                assert callable(token)
                token(self.validation_error)
        self._waiting.wake_all()


class SharePartitions:
    """The share partitions of all groups on this broker."""

    def __init__(
        self,
        partitions: Partitions,
        leaders: Leaders,
        persister: Lazy[Persister],
        dead_letters: Lazy[DeadLetters],
        configs: ShareConfigs,
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._leaders = leaders
        self._persister = persister
        self._dead_letters = dead_letters
        self._configs = configs
        self._clock = clock
        self._led: dict[ShareKey, LedSharePartition] = {}
        #: Type of acknowledgement -> number of records acknowledged with it.
        self.acknowledgements: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._led)

    @property
    def remote(self) -> RemotePort | None:
        """The port of tiered storage; None without it."""
        return self._partitions.remote

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(list(self._led.values()))

    def get(self, key: ShareKey) -> LedSharePartition | None:
        return self._led.get(key)

    def open_led(self, key: ShareKey) -> LedSharePartition | int:
        """Returns the share partition, which may still be loading, or an error code if this broker does not lead it."""
        hosted = self._partitions.get_by_id((key.topic_id, key.partition))
        if hosted is None:
            return self._leaders.absent_error(key.topic_id, key.partition)
        error = hosted.error_for_epoch(NO_LEADER_EPOCH)
        return error or self.open(key, hosted)

    def open(self, key: ShareKey, hosted: HostedPartition) -> LedSharePartition:
        """Returns the share partition, which may still be loading. This broker leads `hosted`."""
        led = self._led.get(key)
        if led is not None and (led.leader_epoch != hosted.leader_epoch or led.hosted is not hosted):
            self._forget(key, led)
            led = None
        if led is None:
            led = LedSharePartition(
                key,
                hosted,
                self._persister,
                self._dead_letters,
                self._configs,
                self._clock,
                self._forget_if_current,
                self.remote,
            )
            self._led[key] = led
            led.load()
        led.refresh()
        return led

    def release(self, group_id: str, member_id: str) -> None:
        """Releases the records of a member that left."""
        for key, led in list(self._led.items()):
            if key.group_id == group_id:
                led.release(member_id)

    def forget_group(self, group_id: str) -> None:
        """Drops the share partitions of a group without members on this broker. The next fetch loads the persister's
        state.
        """
        for key, led in list(self._led.items()):
            if key.group_id == group_id and not led.is_writing:
                self._forget(key, led)

    def apply(self, is_changed: bool) -> None:
        """Drops share partitions after partitions changed leaders or were deleted."""
        if is_changed:
            for key, led in list(self._led.items()):
                hosted = self._partitions.get_by_id((key.topic_id, key.partition))
                if hosted is not led.hosted or not hosted.is_leader or hosted.leader_epoch != led.leader_epoch:
                    self._forget(key, led)

    def stop(self) -> None:
        for key, led in list(self._led.items()):
            self._forget(key, led)

    def _forget_if_current(self, led: LedSharePartition) -> None:
        """Drops the share partition if it is still the current one: a forgotten one may still get a response after its
        replacement.
        """
        if self._led.get(led.key) is led:
            self._forget(led.key, led)

    def _forget(self, key: ShareKey, led: LedSharePartition) -> None:
        del self._led[key]
        led.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _validation_error(error_code: int, message: str | None) -> ValidationError | None:
    if not error_code:
        return None
    error = ErrorCode(error_code)
    if error not in _UNCHANGED_ERRORS:
        error = _MAPPED_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
    return ValidationError(error, message or "")


# The fetches that wait for records of one share partition: as many are woken as there are records for, in their order.
#
# A state change wakes fetches until the records that they want are as many as those that are available. A woken fetch
# looks once, and then has left, waits on, or reads from the disk. Each of these passes the wake on: when records are
# left, the next fetches are woken. So no record waits for a fetch that took nothing: one whose connection is closed, one
# that wants more bytes, or one that finds all records archived.
#
# A fetch that could take none of the available records goes to the end, and is not woken again before the next change.
# A fetch that came too late, because another one took them, keeps its place.
class Waiter(Protocol):
    """A fetch that waits for records of a share partition."""

    @property
    def wanted_records(self) -> int:
        """The number of records that the fetch takes at most."""

    def on_state_changed(self) -> None:
        """Called when records may be available. The fetch calls `wait` or `remove` once it has looked."""


class WaitingFetches:
    """Waiting fetches, first come first. `available` counts the records to acquire: too many rather than too few."""

    def __init__(self, available: Callable[[], int]) -> None:
        self._available = available
        #: The number of the last state change.
        self.change = 0
        #: The last change that each fetch has seen. Those that have seen the newest stand at the end.
        self._waiters: dict[Waiter, int] = {}
        #: The fetches that are about to look, and the number of records that each wants.
        self._woken: dict[Waiter, int] = {}
        self._promised = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def wait(self, waiter: Waiter, seen: int) -> None:
        """Adds a fetch, or lets it wait on, that found too little after the change `seen`."""
        self._has_looked(waiter)
        if waiter not in self._waiters:
            self._waiters[waiter] = seen
        elif self._available() > self._promised:
            del self._waiters[waiter]
            self._waiters[waiter] = seen
        if seen != self.change:
            self.change += 1  # a change while the fetch looked: all have it to see
        self._wake()

    def remove(self, waiter: Waiter) -> None:
        """Removes a fetch: it is answered, or reads from the disk before it looks again."""
        self._has_looked(waiter)
        if self._waiters.pop(waiter, None) is not None:
            self._wake()

    def changed(self) -> None:
        """Wakes fetches for the records that are available now."""
        self.change += 1
        if not self._woken:  # else the woken ones pass it on
            self._wake()

    def wake_all(self) -> None:
        """Wakes every fetch: there is an error to return."""
        self.change += 1
        for waiter in list(self._waiters):
            waiter.on_state_changed()

    def _has_looked(self, waiter: Waiter) -> None:
        self._promised -= self._woken.pop(waiter, 0)

    def _wake(self) -> None:
        if not self._waiters:
            return
        spare = self._available() - self._promised
        if spare <= 0:
            return
        for waiter, seen in self._waiters.items():
            if spare <= 0 or seen == self.change:
                return
            if waiter not in self._woken:
                self._woken[waiter] = waiter.wanted_records
                self._promised += waiter.wanted_records
                spare -= waiter.wanted_records
                waiter.on_state_changed()
