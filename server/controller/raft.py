"""Drives a replica of the quorum (`replication/quorum/`): carries out its effects in order, runs its timer and flushes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Union, cast

from ...client.probes import is_gone
from ...protocol.codec import MalformedMessage
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchResponse
from ...protocol.records.errors import BatchError
from ...protocol.schema import Message, Request
from ...replication.quorum import wire
from ...replication.quorum.effects import (
    Appended,
    Effect,
    ElectionState,
    Flush,
    Input,
    LeaderGone,
    PeerRequest,
    PeerResponse,
    RaiseKRaftVersion,
    Reply,
    Resign,
    Send,
    Synced,
    WriteState,
)
from ...replication.quorum.replica import QuorumReplica
from ...replication.quorum.roles import Follower, Leader, Resigned
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.quorum_state import QuorumState, write_quorum_state
from ..config.endpoint import Endpoint
from ..runtime.halting import cause_of
from .metadata_log import FLUSH_RETRY_S, FLUSH_TASK, flush_on
from .quorum_requests import QuorumSender
from .quorum_voters import QuorumVoters
from .replicated_log import NEVER_MS, ReplicatedQuorumLog

if TYPE_CHECKING:
    from ..network.call import Call
    from ..runtime.node import Node

log = logging.getLogger("odradek.quorum")
_Outgoing = Union[Send, Reply]
#: Time for the other voters to learn that this leader steps down; otherwise they wait for their fetch timeout.
_RESIGNATION_S = 1.0
#: Delay before a timer that failed by a bug is retried. An immediate retry would fail in an endless loop and block all
#: other work.
_AFTER_A_BUG_S = 0.1


class QuorumRaft:
    """Drives the quorum's replica.

    `changed` is called after everything that may have moved the high watermark or the leader. `failed` is called for what
    halts the node (`runtime/halting.py`): a failing disk or a contradictory state. `clock`: see `monotonic_clock`.

    A message from another node can only fail its own request: see `_handle`.

    `WriteState` is synced immediately, since no message may be sent before it; several in a row become one write. A
    Send or Reply that depends on this node's log waits for the flush that makes the log durable. One thread flushes;
    records appended during a flush share the next one.
    """

    def __init__(
        self,
        node: Node,
        replicated: ReplicatedQuorumLog,
        replica: QuorumReplica,
        sender: QuorumSender,
        clock: Callable[[], int],
        changed: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.replica = replica
        #: The log as the replica has it.
        self.replicated = replicated
        self.endpoints = sender.endpoints
        self._changed = changed
        self._failed = failed
        self._background = node.background
        #: The leader's high watermark in its last response in this epoch; -1 while the leader does not know it.
        self.leader_high_watermark = -1
        self.last_fetched_ms = -1
        #: The epoch that it is of.
        self._known_in = replica.epoch
        self._quorum_log = replicated.quorum_log
        self._sender = sender
        sender.on_connection_lost = self._connection_lost
        self._clock = clock
        self._flushing_thread = node.pools.metadata
        self._held: list[_Outgoing] = []
        self._flushing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_carrying_out = False
        self._resigned: asyncio.Future[None] | None = None
        self._probing: asyncio.Task[None] | None = None

    # The engine of commits.

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def kraft_version(self) -> int:
        return self.replica.kraft_version

    @property
    def leads(self) -> bool:
        return self.replica.is_leader

    async def until_idle(self) -> None:
        """Nothing: the other voters decide what is committed."""

    def halt(self) -> None:
        self.close()

    # Input.

    def request(self, token: Call, request: Request) -> None:
        """Handles a request; `token.reply(response)` is called once, immediately or later."""
        self.endpoints.learn_leader(request, self.replica.epoch)
        self._handle(PeerRequest(token, request), lambda: reject_token(token))

    def appended(self) -> None:
        """Handles records that this node's controller, the leader, has appended to the log."""
        self._handle(Appended(self.replica.epoch, self.replicated.end_offset))

    def voters_at(self, end_offset: int) -> QuorumVoters:
        """Returns the voters and the KRaft version in the log below that offset."""
        voters, kraft_version = self.replica.voters.at(end_offset)
        return QuorumVoters(kraft_version, voters.to_record().voters)

    def raise_kraft_version(self, version: int) -> None:
        """Raises the KRaft version. The replica must lead and must have accepted the version."""
        self._handle(RaiseKRaftVersion(version))

    def resign(self) -> None:
        self._handle(Resign())

    def begin(self) -> None:
        """Carries out the effects of the replica's creation."""
        self._carry_out_effects()

    def _answered(self, send: Send, response: Message | None) -> None:
        if response is not None:
            self.endpoints.learn(response)
            if isinstance(response, FetchResponse):
                self._note_high_watermark(response)
        self._handle(PeerResponse(send.node, send.correlation, response))

    def _note_high_watermark(self, response: FetchResponse) -> None:
        partition = wire.response_of(response)
        if partition is not None and partition.error_code == ErrorCode.NONE:
            self.leader_high_watermark = partition.high_watermark
            self.last_fetched_ms = self._clock()

    def ms_since_fetch(self) -> int:
        """Returns the time since the leader's last response, without end before the first."""
        return NEVER_MS if self.last_fetched_ms < 0 else self._clock() - self.last_fetched_ms

    def _expire(self) -> None:
        if not self._is_closed:
            self._guard("a timer", lambda: self.replica.expire(self._clock()))

    def _handle(self, message: Input, reject: Callable[[], None] = lambda: None) -> None:
        """Handles an input. `reject` fails the request behind the input when it cannot be handled."""
        if not self._is_closed:
            self._guard(type(message).__name__, lambda: self.replica.handle(message, self._clock()), reject)

    def _guard(self, what: str, step: Callable[[], None], reject: Callable[[], None] = lambda: None) -> None:
        """Runs one step. An error that halts the node stops the replica: it neither sends nor does anything more. Any
        other error only ends the input that caused it. The effects produced before the error are carried out, so that
        the disk matches the replica.
        """
        least_s = 0.0
        try:
            try:
                step()
            except (BatchError, MalformedMessage) as error:
                log.warning("%s was rejected: %s", what, error)
                reject()
            except Exception as failure:
                if cause_of(failure) is not None:
                    raise
                log.exception("a bug: %s failed in the quorum", what)
                least_s = _AFTER_A_BUG_S
                reject()
            self._carry_out_effects(least_s)
        except Exception as failure:
            if cause_of(failure) is None:
                log.exception("a bug: the effects of %s failed in the quorum", what)
                self._arm(_AFTER_A_BUG_S)
                return
            self.close()
            self._failed(failure)

    # Output.

    def _carry_out_effects(self, least_s: float = 0.0) -> None:
        if self._is_carrying_out:
            return  # called from an effect: the outer call carries out the new effects
        self._is_carrying_out = True
        try:
            while effects := self.replica.take():
                self._carry_out(effects)
            if self.replica.epoch != self._known_in:
                self._known_in, self.leader_high_watermark = self.replica.epoch, -1
        finally:
            self._is_carrying_out = False
        self._arm(least_s)
        self._note_resignation()
        self._changed()

    def _carry_out(self, effects: list[Effect]) -> None:
        state: ElectionState | None = None
        for effect in effects:
            if isinstance(effect, WriteState):
                state = effect.state
                continue
            if state is not None:
                self._write_state(state)
                state = None
            if isinstance(effect, Flush):
                self._flush()
            elif effect.sync_to <= self.replicated.synced_offset:
                self._go(effect)
            else:
                self._held.append(effect)
        if state is not None:
            self._write_state(state)

    def _write_state(self, state: ElectionState) -> None:
        said = QuorumState(state.leader_id, state.leader_epoch, state.voted_id, state.voted_directory_id)
        voters = self.replica.voter_set.ids
        directory = self._quorum_log.directory
        try:
            write_quorum_state(directory, said, self.replica.kraft_version, voters)
        except OSError as error:
            raise LogDirectoryFailure(str(directory.parent), "writing quorum-state", error) from error

    def _go(self, effect: _Outgoing) -> None:
        if self._is_closed:
            return  # an effect or an input before this one has halted the node
        if isinstance(effect, Reply):
            self.endpoints.tell_of_leader(effect.response, self.replica.role.leader_id)
            token = cast("Call", effect.token)
            token.reply(effect.response)
            return
        self._sender.send(effect, self._answered)

    def _connection_lost(self, endpoint: Endpoint) -> None:
        """Checks whether the leader's process died: its host then refuses connections immediately, and the follower
        need not wait for the fetch timeout.
        """
        role = self.replica.role
        if isinstance(role, Follower) and self.endpoints.find(role.leader_id) == endpoint and not self._is_closed:
            self._probing = asyncio.get_running_loop().create_task(self._find_out(role.leader_id, endpoint))

    async def _find_out(self, leader_id: int, endpoint: Endpoint) -> None:
        if await is_gone([(endpoint.host, endpoint.port)]):
            self._handle(LeaderGone(leader_id))

    def _arm(self, least_s: float = 0.0) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.replica.deadline()
        if deadline is not None and not self._is_closed:
            wait_s = max(least_s, (deadline - self._clock()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expire)

    # The disk.

    def _flush(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_all())

    async def _flush_all(self) -> None:
        """Flushes until everything is synced. The task starts in the next turn of the event loop, so one flush covers
        all appends of this turn.
        """
        replicated = self.replicated
        try:
            while not self._is_closed and replicated.synced_offset < replicated.end_offset:
                end = replicated.lowest_end = replicated.end_offset
                await flush_on(self._quorum_log, self._flushing_thread, end, self._clock)
                self.on_synced(min(end, replicated.lowest_end))
            self._background.succeeded(FLUSH_TASK)
        except LogDirectoryFailure as failure:
            self.close()
            self._failed(failure)
        except Exception as failure:
            self._background.failed(FLUSH_TASK, failure)
            asyncio.get_running_loop().call_later(FLUSH_RETRY_S, self._flush)
        finally:
            self._flushing = None

    def on_synced(self, end_offset: int) -> None:
        self.replicated.synced_offset = end_offset
        held, self._held = self._held, []
        self._handle(Synced(end_offset))
        for effect in held:
            if effect.sync_to <= self.replicated.synced_offset:
                self._go(effect)
            else:
                self._held.append(effect)

    # Shutdown.

    async def leave(self) -> None:
        """Makes a leader step down and waits briefly until the other voters know. Ends the last flush."""
        await self._step_down()
        self.close()
        if self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _step_down(self) -> None:
        if isinstance(self.replica.role, Leader) and len(self.replica.voter_set.voters) > 1:
            self._resigned = asyncio.get_running_loop().create_future()
            self.resign()
            await asyncio.wait([self._resigned], timeout=_RESIGNATION_S)

    def _note_resignation(self) -> None:
        role = self.replica.role
        is_known = not isinstance(role, Resigned) or not role.unacknowledged
        if is_known and self._resigned is not None and not self._resigned.done():
            self._resigned.set_result(None)

    @property
    def is_caught_up(self) -> bool:
        """True when this node has what is known to be committed; for a follower, the high watermark in the leader's
        last response.
        """
        role = self.replica.role
        if isinstance(role, Leader):
            return role.has_committed
        known = self.leader_high_watermark
        return isinstance(role, Follower) and 0 <= known <= self.replica.high_watermark

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()


def reject_token(token: Call) -> None:
    """Ends the request of another node. A token is a `Call`."""
    token.fail()
