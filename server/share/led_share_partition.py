"""A share partition of a group on the leader of its partition.

load      requests the state from the persister; fetches wait meanwhile
settle    after every input to the state machine: sends its writes to the persister one at a time, its replies and
          its dead-letter records, and wakes as many waiting fetches as there are records for
forget    when another broker leads, the state is fenced, or the group is gone: drops the share partition; the next
          fetch creates it anew
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...coordinator.rejection import Rejection
from ...coordinator.share_partition import SharePartition
from ...coordinator.state_batches import UNINITIALIZED_OFFSET, StateBatch
from ...protocol.errors import ErrorCode
from ..fetch.fetch_response import is_remote
from .persisted_state import PersistedState
from .waiting_fetches import WaitingFetches

if TYPE_CHECKING:
    from ...coordinator.dead_letters import DeadLetter
    from ...coordinator.share_partition import AckBatch, Acquirable, Write
    from ...coordinator.share_state import ShareKey
    from ...protocol.messages.read_share_group_state import ReadStatePartitionResult
    from ...storage.segments.timestamps import TimestampedOffset
    from ..coordinators.persister_requests import Persister
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.remote_port import RemotePort
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from .dead_letters import DeadLetters
    from .share_configs import ShareConfigs
    from .waiting_fetches import Waiter

log = logging.getLogger("odradek.groups")

Done = Callable[["Rejection | None"], None]

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


class LeaderParts(NamedTuple):
    """The common parts of all share partitions that this broker leads."""

    configs: ShareConfigs
    dead_letters: Lazy[DeadLetters]
    clock: Clock


class LedSharePartition:
    """A share partition of a group on the leader of its partition: drives the state machine `machine`."""

    def __init__(
        self,
        key: ShareKey,
        hosted: HostedPartition,
        persister: Lazy[Persister],
        parts: LeaderParts,
        forget: Callable[[LedSharePartition], None],
        remote: RemotePort | None,
    ) -> None:
        self.key = key
        self.hosted = hosted
        self.leader_epoch = hosted.leader_epoch
        #: None while the persister loads the state, and after an error.
        self.state_machine: SharePartition | None = None
        #: The error that explains why there is no state machine.
        self.validation_error: Rejection | None = None
        self._waiting = WaitingFetches(self._available)
        #: The records that the state machine has for members; None after it changed.
        self._acquirable: Acquirable | None = None
        self._state = PersistedState(persister, key, self.leader_epoch, self._written)
        self._configs, self._dead_letters, self._clock = parts
        self._forget = forget
        self._remote = remote
        #: The number of dead-letter records in flight.
        self._pending_dead_letters = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._configured_by = parts.configs.image

    # State.

    def load(self) -> None:
        self._state.read(self._loaded)

    def _loaded(self, state: ReadStatePartitionResult) -> None:
        # A share partition closed meanwhile stays closed: it must not send dead-letter records that its successor
        # sends.
        validation_error = self.validation_error or _validation_error(state.error_code, state.error_message)
        if validation_error is None and not self._is_led():
            validation_error = Rejection(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        if validation_error is not None:
            self._fail(validation_error)
        elif state.start_offset != UNINITIALIZED_OFFSET:
            self._begin(state.start_offset, state)
        else:
            self._reset(state)

    def _fail(self, validation_error: Rejection) -> None:
        """Ends with an error that fetches return; the next one after them loads the state anew."""
        self.validation_error = validation_error
        self._forget(self)
        self._waiting.wake_all()

    def _reset(self, state: ReadStatePartitionResult) -> None:
        """Begins a new group at the offset of its configuration. The remote store may have the first record after a time."""
        hosted, timestamp = self.hosted, self._configs.reset_timestamp(self.key.group_id)
        if timestamp is not None and self._remote is not None and is_remote(hosted, hosted.log_start_offset):
            self._remote.find_by_timestamp(hosted, timestamp, partial(self._store_searched, state))
        else:
            self._begin(self._configs.reset_offset(self.key.group_id, hosted), state)

    def _store_searched(
        self, loaded: ReadStatePartitionResult, error: int, timestamped: TimestampedOffset | None
    ) -> None:
        if self.validation_error is not None:
            return
        if error:
            self._fail(Rejection(ErrorCode(error), "The remote store could not be searched."))
        else:
            start = (
                self._configs.reset_offset(self.key.group_id, self.hosted)
                if timestamped is None
                else timestamped.offset
            )
            self._begin(start, loaded)

    def _begin(self, start: int, state: ReadStatePartitionResult) -> None:
        self.state_machine = SharePartition(
            start,
            [
                StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                for b in state.state_batches
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
                or Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The share partition is being loaded.")
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
        self.validation_error = self.validation_error or Rejection(error, "")
        if state_machine is not None:
            for token in state_machine.abandon():
                assert callable(token)
                token(self.validation_error)
        self._waiting.wake_all()


def _validation_error(error_code: int, message: str | None) -> Rejection | None:
    if not error_code:
        return None
    error = ErrorCode(error_code)
    if error not in _UNCHANGED_ERRORS:
        error = _MAPPED_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
    return Rejection(error, message or "")
